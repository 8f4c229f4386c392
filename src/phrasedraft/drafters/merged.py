"""One draft tree from many sources: each node is bought by the probability that it is right, whoever proposes it.

At every node that is taken into the tree all sources are asked for the next token, also at nodes that another source
proposed. What they say is corrected by how often such proposals came true (`Reliability`), proposals of the same token
become one, and the tree grows where the product of the corrected probabilities is largest. A source that is wrong
loses its probability, and with it its nodes, within a few hundred tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.growth import Asked, Growth, Proposal
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
        growth = Growth(self, self.asked(state, budget), state.token, budget)
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
                asked.append((Asked(drafter, each), drafter.root(each)))  # type: ignore[attr-defined]
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
