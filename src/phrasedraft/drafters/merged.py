"""One draft tree from many sources: each node is bought by the probability that it is right, whoever proposes it.

At every node that is taken into the tree all sources are asked for the next token, also at nodes that another source
proposed. What they say is corrected by how often such proposals came true (`Reliability`), proposals of the same token
become one, and the tree grows where the product of the corrected probabilities is largest. A source that is wrong
loses its probability, and with it its nodes, within a few hundred tokens.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.head import Head
from phrasedraft.drafters.protocol import DraftBudget, Drafter, Embed, Observer
from phrasedraft.drafters.reliability import Reliability
from phrasedraft.drafters.source import Candidate, PlantedTree, Source
from phrasedraft.errors import OptionError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.tree.draft_tree import DraftTree

DEEPEST_CLASS = 3
"""Proposals this deep and deeper are corrected alike."""
LEAST_PROBABILITY = 0.004
"""A child that is less probable than this is not looked at further."""


class Proposal(NamedTuple):
    """A child before it is known who is right: its token, the sources behind it (one bit each), its probability."""

    token: int
    sources: int
    probability: float


@dataclass
class MergedState:
    """The states of all sources, and what was proposed after each node of the last tree, until it is known."""

    token: int
    states: list[Any]
    tree: DraftTree | None = None
    said: list[list[tuple[tuple[int, int, int], Candidate]]] = field(default_factory=list)
    merged: list[list[Proposal]] = field(default_factory=list)


class MergedDrafter:
    """A drafter whose trees are grown from several others: one that proposes trees at most, and any number of sources.

    `propose` gives at most `budget.num_draft_tokens` nodes, most probable first. What is learnt about the sources
    belongs to the drafter, not to one text. Built with `merge_drafters`, which also knows drafters that observe.
    """

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = list(drafters)
        self._planters = [not isinstance(drafter, Source) for drafter in drafters]
        self._single, self._together = Reliability(), Reliability()
        self.name = "+".join(drafter.name for drafter in drafters)

    @property
    def drafters(self) -> tuple[Drafter, ...]:
        """What the trees are grown from."""
        return tuple(self._drafters)

    @property
    def head(self) -> Head | None:
        """The trained head among them."""
        return next((drafter for drafter in self._drafters if isinstance(drafter, Head)), None)

    @property
    def num_parameters(self) -> int:
        """The weights of all of them."""
        return sum(int(getattr(drafter, "num_parameters", 0)) for drafter in self._drafters)

    @property
    def features(self) -> FeatureSpec:
        """What those that read hidden states read."""
        return next((drafter.features for drafter in self._drafters if drafter.features.layers), FeatureSpec(layers=()))

    def check(self, target: TargetIdentity) -> None:
        """Refuse a target that one of them refuses."""
        for drafter in self._drafters:
            drafter.check(target)

    def place(self, device: torch.device) -> None:
        """Move all weights."""
        for drafter in self._drafters:
            drafter.place(device)

    def begin(
        self, prompt: Sequence[int], committed: int, hidden: Float[Tensor, "row feature"], embed: Embed
    ) -> MergedState:
        """The states of all, for a prompt that was read."""
        states = [drafter.begin(prompt, committed, hidden, embed) for drafter in self._drafters]
        return MergedState(token=committed, states=states)

    def propose(self, state: MergedState, budget: DraftBudget) -> DraftTree:
        """The most probable nodes; one path of them where only a chain counts."""
        if min(budget.num_draft_tokens, budget.max_depth) <= 0:
            state.tree = None
            return DraftTree.root_only(state.token)
        growth = _Growth(self, state, budget)
        growth.run()
        state.tree, state.said, state.merged = growth.tree(), growth.said, growth.merged
        return state.tree.best_chain() if budget.chain_only else state.tree

    def update(self, state: MergedState, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:
        """Learn who was right along the committed tokens, and let every drafter go on."""
        self._learn(state, committed)
        for drafter, each in zip(self._drafters, state.states, strict=True):
            drafter.update(each, committed, hidden)
        if committed:
            state.token = committed[-1]
        state.tree = None

    def asked(self, state: MergedState, budget: DraftBudget) -> list[tuple[Any, Any]]:
        """For each drafter whom to ask in this pass, and its place at the root."""
        asked: list[tuple[Any, Any]] = []
        for drafter, each, is_planter in zip(self._drafters, state.states, self._planters, strict=True):
            if is_planter:
                asked.append((PlantedTree(drafter.propose(each, budget)), 0))
            else:
                asked.append((_Asked(drafter, each), drafter.root(each)))  # type: ignore[attr-defined]
        return asked

    def corrected(self, source: int, depth: int, candidate: Candidate) -> tuple[tuple[int, int, int], float]:
        """The class of a proposal, and how probable such proposals are."""
        kind = (source, min(depth, DEEPEST_CLASS), candidate.strength)
        return kind, self._single.corrected(kind, candidate.probability)

    def agreed(self, sources: int, probability: float) -> float:
        """How probable a token is that these sources propose, the surest of them with this probability."""
        return self._together.corrected(sources, probability)

    def _learn(self, state: MergedState, committed: Sequence[int]) -> None:
        if state.tree is None:
            return
        node: int | None = 0
        for token in committed:
            if node is None or node >= len(state.said):
                break
            for kind, candidate in state.said[node]:
                self._single.learn(kind, candidate.probability, candidate.token == token)
            for proposal in state.merged[node]:
                self._together.learn(proposal.sources, proposal.probability, proposal.token == token)
            node = state.tree.children[node].get(token)


class ObservingMergedDrafter(MergedDrafter):
    """The same where a source learns from the target's logits."""

    def observe(self, state: MergedState, tree: DraftTree, logits: Float[Tensor, "node vocab"]) -> None:
        """Hand a verified tree to every source that learns from it."""
        for drafter, each in zip(self._drafters, state.states, strict=True):
            if isinstance(drafter, Observer):
                drafter.observe(each, tree, logits)


def head_of(drafter: Drafter) -> Head | None:
    """The trained head that a drafter is, or is grown from; None where it needs none."""
    if isinstance(drafter, MergedDrafter):
        return drafter.head
    return drafter if isinstance(drafter, Head) else None


def merge_drafters(drafters: Sequence[Drafter]) -> MergedDrafter:
    """One drafter from several. `OptionError` where two read different hidden states, or one is there twice."""
    readers = {drafter.name: drafter.features for drafter in drafters if drafter.features.layers}
    if len(set(readers.values())) > 1:
        read = ", ".join(f"`{name}` layers {list(features.layers)}" for name, features in readers.items())
        raise OptionError(
            f"the drafters read different hidden states: {read}; those that read any must read the same",
            hint="merge one head with drafters that need none, or that were made for it",
        )
    names = [drafter.name for drafter in drafters]
    if len(set(names)) < len(names) or not names:
        raise OptionError(f"the drafters to merge are {names}, each may be there once, and one must")
    observes = any(isinstance(drafter, Observer) for drafter in drafters)
    return (ObservingMergedDrafter if observes else MergedDrafter)(drafters)


class _Asked:
    """A source with the state of one text."""

    def __init__(self, source: Any, state: Any) -> None:
        self._source, self._state = source, state

    def after(self, place: Any, token: int) -> Any:
        return None if place is None else self._source.after(self._state, place, token)

    def candidates(self, place: Any) -> Sequence[Candidate]:
        candidates: Sequence[Candidate] = self._source.candidates(self._state, place)
        return candidates


class _Growth:
    """A tree in the making: nodes are taken best first, and each is expanded when it is taken."""

    def __init__(self, drafter: MergedDrafter, state: MergedState, budget: DraftBudget) -> None:
        self._drafter, self._budget = drafter, budget
        self._asked = drafter.asked(state, budget)
        self._places = [[place for _, place in self._asked]]
        self._tokens, self._parents, self._values, self._depths = [state.token], [-1], [1.0], [0]
        self._heap: list[tuple[float, int, int, int]] = []
        self._order = count()  # the first of equals is taken first
        self.said: list[list[tuple[tuple[int, int, int], Candidate]]] = []
        self.merged: list[list[Proposal]] = []

    def run(self) -> None:
        """Take the most probable child anywhere, until the budget is spent or nothing is left."""
        self._expand(0)
        while self._heap and len(self._tokens) <= self._budget.num_draft_tokens:
            value, _, token, parent = heapq.heappop(self._heap)
            self._tokens.append(token)
            self._parents.append(parent)
            self._values.append(-value)
            self._depths.append(self._depths[parent] + 1)
            places = self._places[parent]
            self._places.append(
                [asked.after(place, token) for (asked, _), place in zip(self._asked, places, strict=True)]
            )
            self._expand(len(self._tokens) - 1)

    def tree(self) -> DraftTree:
        """What was taken."""
        return DraftTree(tokens=tuple(self._tokens), parents=tuple(self._parents), values=tuple(self._values))

    def _expand(self, node: int) -> None:
        """Ask all sources what follows a node, and put its children up for choice."""
        said: list[tuple[tuple[int, int, int], Candidate]] = []
        best: dict[int, tuple[int, float]] = {}
        depth = self._depths[node]
        self.said.append(said)
        if depth >= self._budget.max_depth:
            self.merged.append([])
            return
        corrected = self._drafter.corrected
        for index, (asked, _) in enumerate(self._asked):
            place = self._places[node][index]
            for candidate in asked.candidates(place) if place is not None else ():
                kind, probability = corrected(index, depth, candidate)
                said.append((kind, candidate))
                sources, highest = best.get(candidate.token, (0, 0.0))
                best[candidate.token] = (sources | 1 << index, max(highest, probability))
        proposals = [Proposal(token, sources, probability) for token, (sources, probability) in best.items()]
        self.merged.append(proposals)
        agreed = [self._drafter.agreed(proposal.sources, proposal.probability) for proposal in proposals]
        share = self._values[node] / max(sum(agreed), 1.0)
        for proposal, probability in zip(proposals, agreed, strict=True):
            if probability >= LEAST_PROBABILITY:
                heapq.heappush(self._heap, (-probability * share, next(self._order), proposal.token, node))
