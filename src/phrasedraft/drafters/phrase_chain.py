"""The phrase chain: a state for every node of the tree, and whole phrases from each of them.

From one state the entries are chosen sibling by sibling, so the next token has a clean distribution of its own, and
phrases that begin with it fill the levels below at no further cost. A later step stands at the nodes drafted so far,
replaces what was looked ahead there by what it sees now, and looks ahead again: a few steps reach as deep as a chain of
single tokens does in many.
"""

import heapq
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters import head_file
from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.head_config import PHRASE_CHAIN, HeadConfig
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.drafters.sight import ROOT, Entries, Sight
from phrasedraft.drafters.text_reader import OpenText
from phrasedraft.drafters.trained_head import HeadState, TrainedHead
from phrasedraft.errors import HeadFileError, OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.tree.draft_tree import DraftTree

MAX_BEAM = 16
"""Most nodes that one step stands at."""

TokenPath = tuple[int, ...]


class PhraseChain(TrainedHead):
    """A drafter that proposes phrases from the root, then again from the nodes it has drafted, `num_steps` times.

    Every beginning of an entry must be an entry too. `propose` gives at most `budget.num_draft_tokens` nodes; nothing
    beside the root where the hidden state or the scores are not finite (with one warning) or there are no entries.
    """

    name = "phrase-chain"
    kind = PHRASE_CHAIN
    scorer_class = ChainScorer

    def __init__(self, *, scorer: ChainScorer, vocabulary: PhraseVocabulary, config: HeadConfig) -> None:
        check_closed(vocabulary)
        super().__init__(scorer=scorer, vocabulary=vocabulary, config=config)
        self._entries = Entries(vocabulary)

    @classmethod
    def check_entries(cls, vocabulary: PhraseVocabulary, folder: Path) -> None:
        """Refuse entries whose beginnings are missing."""
        if not is_closed(vocabulary):
            raise HeadFileError(
                f"`{head_file.PHRASES}` in `{folder / head_file.WEIGHTS}` lacks beginnings of its phrases",
                hint="take the folder from where it came again",
            )

    @torch.inference_mode()
    def propose(self, state: HeadState, budget: DraftBudget) -> DraftTree:
        """The most probable nodes; one path of them where only a chain counts."""
        size = budget.num_draft_tokens
        if min(size, budget.max_depth) <= 0 or not len(self.vocabulary):
            return DraftTree.root_only(state.token)
        assert isinstance(self.scorer, ChainScorer)
        draft = _Draft(size=size, max_depth=budget.max_depth, singles=self._entries.single)
        states = self.first_state(state)
        draft.states[()] = states[0]
        fresh: list[TokenPath] = [()]
        for step in range(self.config.num_steps):
            rows = torch.stack([draft.states[path] for path in fresh])
            sights = self._entries.look(self.scorer.scores(rows) / self.config.temperature, size)
            if sights is None:
                self.warn_not_finite(state)
                return DraftTree.root_only(state.token)
            draft.sights.update(zip(fresh, sights, strict=True))
            draft.grow()
            if step == self.config.num_steps - 1:
                break
            fresh = self._stand_at(draft, state.text)
            if not fresh:
                break
        tree = draft.tree(state.token)
        return tree.best_chain() if budget.chain_only else tree

    def _stand_at(self, draft: "_Draft", text: OpenText | None) -> list[TokenPath]:
        """Advance the cell to drafted nodes it has not stood at, most probable first; those it can stand at."""
        assert isinstance(self.scorer, ChainScorer)
        # What is worth no more than the last node has no children that could take its place.
        least = draft.values[-1] if len(draft.paths) == draft.size else 0.0
        nodes = zip(draft.paths, draft.values, strict=True)
        wanted = [
            path for path, value in nodes if value > least and path not in draft.sights and len(path) < draft.max_depth
        ][:MAX_BEAM]
        for depth in sorted({len(path) for path in wanted}):
            ready = [
                path
                for path in wanted
                if len(path) == depth and path[:-1] in draft.states and path[-1] in self._entries.single
            ]
            if not ready:
                continue
            entries = torch.tensor([self._entries.single[path[-1]] for path in ready], device=self._device)
            above = torch.stack([draft.states[path[:-1]] for path in ready])
            for path, row in zip(ready, self.scorer.advance(above, entries, text), strict=True):
                draft.states[path] = row
        return [path for path in wanted if path in draft.states]


@dataclass
class _Draft:
    """The tree so far: `states` of the nodes that were stood at, and what is seen from each.

    `singles` are the tokens that are entries by themselves.
    """

    size: int
    max_depth: int
    singles: Collection[int]
    states: dict[TokenPath, Float[Tensor, " trunk"]] = field(default_factory=dict)
    sights: dict[TokenPath, Sight] = field(default_factory=dict)
    paths: list[TokenPath] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def grow(self) -> None:
        """Find the `size` most probable nodes anew; a node that was stood at goes on with what was seen there."""
        order = count()  # the first of equals is taken first
        known: dict[TokenPath, float] = {(): 1.0}
        heap: list[tuple[float, int, TokenPath, TokenPath, int]] = []

        def push(path: TokenPath, origin: TokenPath, entry: int) -> None:
            if len(path) >= self.max_depth:
                return
            seen = [(origin, each) for each in self.sights[origin].after(entry)]
            if path in self.sights and path != origin:  # of what was looked ahead, only what cannot be seen from there
                seen = [each for each in seen if each[1][1] not in self.singles]
                seen += [(path, each) for each in self.sights[path].after(ROOT)]
            for origin, (child, token, value) in seen:
                bounded = min(known[origin] * value, known[path])
                heapq.heappush(heap, (-bounded, next(order), (*path, token), origin, child))

        self.paths, self.values = [], []
        push((), (), ROOT)
        while heap and len(self.paths) < self.size:
            value, _, path, origin, entry = heapq.heappop(heap)
            known[path] = -value
            self.paths.append(path)
            self.values.append(-value)
            push(path, origin, entry)

    def tree(self, root_token: int) -> DraftTree:
        """The nodes found last, most probable first."""
        place: dict[TokenPath, int] = {(): 0} | {path: index for index, path in enumerate(self.paths, start=1)}
        return DraftTree(
            tokens=(root_token, *(path[-1] for path in self.paths)),
            parents=(-1, *(place[path[:-1]] for path in self.paths)),
            values=(1.0, *self.values),
        )


def check_closed(vocabulary: PhraseVocabulary) -> None:
    """Refuse entries that a phrase chain cannot have."""
    if not is_closed(vocabulary):
        raise OptionError(
            "a phrase chain needs every beginning of an entry among the entries", hint="mine with `close_prefixes`"
        )


def is_closed(vocabulary: PhraseVocabulary) -> bool:
    """Whether every beginning of a phrase is a phrase."""
    return bool((vocabulary.trie.phrase_ids >= 0).all()) if len(vocabulary) else True
