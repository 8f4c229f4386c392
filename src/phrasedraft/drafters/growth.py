"""How a tree is grown from many sources: nodes are taken best first, and all sources are asked what follows each."""

import heapq
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol, runtime_checkable

from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.drafters.source import Candidate
from phrasedraft.tree.draft_tree import DraftTree

LEAST_PROBABILITY = 0.004
"""A child that is less probable than this is not looked at further."""


class Proposal(NamedTuple):
    """A child before it is known who is right: its token, the sources behind it (one bit each), its probability."""

    token: int
    sources: int
    probability: float


@runtime_checkable
class Believed(Protocol):
    """How far each source is believed."""

    def corrected(self, source: int, depth: int, candidate: Candidate) -> tuple[tuple[int, int, int], float]:
        """The class of a proposal, and how probable such proposals are."""
        ...

    def agreed(self, sources: int, probability: float) -> float:
        """How probable a token is that these sources propose, the surest of them with this probability."""
        ...


class Asked:
    """A source with the state of one text."""

    def __init__(self, source: Any, state: Any) -> None:
        self._source, self._state = source, state

    def after(self, place: Any, token: int) -> Any:
        """Where the source stands one token further on, None where it has lost the text."""
        return None if place is None else self._source.after(self._state, place, token)

    def candidates(self, place: Any) -> Sequence[Candidate]:
        """What it proposes there."""
        candidates: Sequence[Candidate] = self._source.candidates(self._state, place)
        return candidates


class Growth:
    """A tree in the making: nodes are taken best first, and each is expanded when it is taken."""

    def __init__(
        self, believed: Believed, asked: Sequence[tuple[Any, Any]], root_token: int, budget: DraftBudget
    ) -> None:
        self._believed, self._budget = believed, budget
        self._asked = asked
        self._places = [[place for _, place in self._asked]]
        self._tokens, self._parents, self._values, self._depths = [root_token], [-1], [1.0], [0]
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
        corrected = self._believed.corrected
        for index, (asked, _) in enumerate(self._asked):
            place = self._places[node][index]
            for candidate in asked.candidates(place) if place is not None else ():
                kind, probability = corrected(index, depth, candidate)
                said.append((kind, candidate))
                sources, highest = best.get(candidate.token, (0, 0.0))
                best[candidate.token] = (sources | 1 << index, max(highest, probability))
        proposals = [Proposal(token, sources, probability) for token, (sources, probability) in best.items()]
        self.merged.append(proposals)
        agreed = [self._believed.agreed(proposal.sources, proposal.probability) for proposal in proposals]
        share = self._values[node] / max(sum(agreed), 1.0)
        for proposal, probability in zip(proposals, agreed, strict=True):
            if probability >= LEAST_PROBABILITY:
                heapq.heappush(self._heap, (-probability * share, next(self._order), proposal.token, node))
