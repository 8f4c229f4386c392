"""The online vocabulary: phrases a session keeps using become draft entries, without training.

The suffix automaton knows one text and forgets it; this lives as long as the drafter, over all its texts. Beside a head
it also drafts tokens the head has no entry for, once the session has used them, by rows composed for them.
"""

import heapq
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters import online_file
from phrasedraft.drafters.composed_rows import ComposedRows
from phrasedraft.drafters.online_phrases import Context, OnlinePhrases, OnlineSettings
from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.drafters.source import MOST_CANDIDATES, Candidate
from phrasedraft.drafters.trained_head import HeadState, TrainedHead
from phrasedraft.errors import OptionError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.tree.best_first import grow_best_first
from phrasedraft.tree.draft_tree import DraftTree


class Place(NamedTuple):
    """The last tokens on the way to a node; at the root the head's hidden state is known as well."""

    text: Context
    is_root: bool


@dataclass
class OnlineState:
    """What one sequence needs: its last tokens, and what a head would stand at."""

    text: Context
    head: HeadState


class OnlineVocabulary:
    """Drafts what the phrases of a session go on with, and beside a head the tokens it has no entry for.

    After the longest end of the text that stored phrases go on from, m tokens, a token that came c of n times has
    probability c / (n + 1 / m), all counts decayed. Without a head nothing but counts is used and no hidden states are
    read. All texts drafted with one object share what it has learnt.
    """

    name = "online-vocabulary"

    def __init__(self, head: TrainedHead | None = None, settings: OnlineSettings | None = None) -> None:
        self._head = head
        self._first = frozenset(head.vocabulary.phrase_tokens[:, 0].tolist()) if head else frozenset()
        self.phrases = OnlinePhrases(settings, counts_alone=self._counts_alone)
        self._composed: ComposedRows | None = None
        self._rows: dict[int, Float[Tensor, " trunk"]] = {}
        self._stacked: tuple[list[int], Float[Tensor, "token trunk"]] = ([], torch.zeros((0, 0)))
        self._origin: online_file.Origin | None = None
        self._lock = RLock()  # decoders share drafters over threads
        self._learnt: list[int] = []  # the last text, whose state is `_last`
        self._last: Callable[[], OnlineState | None] = lambda: None

    @property
    def features(self) -> FeatureSpec:
        """What the head reads; nothing without one."""
        return self._head.features if self._head else FeatureSpec(layers=())

    def check(self, target: TargetIdentity) -> None:
        """Refuse a target of another vocabulary or tokenizer than the one learnt from."""
        if self._head:
            self._head.check(target)
        found = online_file.Origin.of(target)
        if self._origin:
            self._origin.refuse_other(found)
        self._origin = found

    def place(self, device: torch.device) -> None:
        """Move the head's weights, and compose rows there."""
        if self._head:
            self._head.place(device)
        self._forget_rows()

    def save(self, path: str | Path) -> None:
        """Write the phrases to one file, in one step. `OptionError` where no target was met yet."""
        if self._origin is None:
            raise OptionError("the online vocabulary has met no target yet, so there is nothing to save")
        with self._lock:
            table = self.phrases.table()
        online_file.write(Path(path), table, self._origin)

    def load(self, path: str | Path) -> None:
        """Go on with the phrases of a saved session instead of these.

        `DataError` for a file that is damaged, `HeadMismatchError` for one of another vocabulary or tokenizer.
        """
        table, origin = online_file.read(Path(path))
        if self._origin:
            origin.refuse_other(self._origin)
        self._origin = self._origin or origin
        with self._lock:
            self.phrases.restore(table)

    def begin(
        self, prompt: Sequence[int], committed: int, hidden: Float[Tensor, "row feature"], embed: Embed
    ) -> OnlineState:
        """Learn from the prompt, but for what the last text began with as well, and from the first token.

        So the turns of a conversation are learnt from once, though each prompt holds those before.
        """
        with self._lock:
            if self._head and len(self._head.vocabulary) and (self._composed is None or self._composed.embed != embed):
                self._forget_rows()
                self._composed = ComposedRows(self._head, embed)
        with self._lock:
            first = _num_shared(self._learnt, prompt)
            text = tuple(prompt[max(first + 1 - self.phrases.settings.max_tokens, 0) : first])
            for token in (*prompt[first:], committed):
                text = self.phrases.learn(text, token)
            self._learnt = [*prompt, committed]
            if self._head:
                head = self._head.begin(prompt, committed, hidden, embed)
            else:
                head = HeadState(hidden=hidden[-1:].clone(), token=committed, embed=embed)
            state = OnlineState(text=text, head=head)
            self._last = weakref.ref(state)
        return state

    def update(self, state: OnlineState, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:
        """Learn from what was committed."""
        with self._lock:
            for token in committed:
                state.text = self.phrases.learn(state.text, token)
            if self._last() is state:
                self._learnt.extend(committed)
        state.head.go_on(committed, hidden)

    def propose(self, state: OnlineState, budget: DraftBudget) -> DraftTree:
        """The most probable continuations; nothing where no phrase goes on from the text."""

        def followers(place: Place) -> list[tuple[int, float, Place]]:
            found = self.candidates(state, place)
            return [(each.token, each.probability, self.after(state, place, each.token)) for each in found]

        return grow_best_first(
            state.head.token,
            self.root(state),
            followers,
            num_draft_tokens=budget.num_draft_tokens,
            max_depth=budget.max_depth,
            chain_only=budget.chain_only,
        )

    def root(self, state: OnlineState) -> Place:
        """The end of the text."""
        return Place(state.text, is_root=True)

    def after(self, state: OnlineState, place: Place, token: int) -> Place:  # noqa: ARG002 - a place is enough
        """The last tokens, with a further one."""
        return Place((*place.text, token)[1 - self.phrases.settings.max_tokens :], is_root=False)

    def candidates(self, state: OnlineState, place: Place) -> list[Candidate]:
        """What phrases go on with after the longest match, stronger the longer it is; at the root new tokens too."""
        with self._lock:
            followers = self.phrases.followers(place.text)
            found = followers.candidates(MOST_CANDIDATES) if followers else []
            new = self._new_tokens(state) if place.is_root else []
        return _surest([*found, *new]) if new else found

    def _counts_alone(self, token: int) -> bool:
        """Whether the head has no entry that begins with a token."""
        return self._head is not None and token not in self._first

    def _new_tokens(self, state: OnlineState) -> list[Candidate]:
        """The most probable tokens that the head has no entry for, by their composed rows."""
        if self._composed is None or not (shares := self.phrases.single_tokens()):
            return []
        tokens, rows = self._rows_of(list(shares))
        biases = self._composed.biases(rows, torch.tensor([shares[token] for token in tokens]))
        probabilities = self._composed.probabilities(state.head, rows, biases)
        if not torch.isfinite(probabilities).all():
            return []
        best = torch.topk(probabilities, min(MOST_CANDIDATES, len(tokens)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Candidate(tokens[index], probability) for index, probability in pairs]

    def _rows_of(self, tokens: list[int]) -> tuple[list[int], Float[Tensor, "token trunk"]]:
        """Tokens and their rows, composed when a token is first met and put together when the tokens change."""
        assert self._composed is not None
        if self._stacked[0] != tokens:
            new = [token for token in tokens if token not in self._rows]
            if new:
                self._rows |= dict(zip(new, self._composed.compose(new), strict=True))
            self._rows = {token: self._rows[token] for token in tokens}
            self._stacked = (tokens, torch.stack(list(self._rows.values())))
        return self._stacked

    def _forget_rows(self) -> None:
        self._composed, self._rows, self._stacked = None, {}, ([], torch.zeros((0, 0)))


def _num_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _surest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The most probable candidates, each token once."""
    best: dict[int, Candidate] = {}
    for each in candidates:
        if each.token not in best or each.probability > best[each.token].probability:
            best[each.token] = each
    return heapq.nlargest(MOST_CANDIDATES, best.values(), key=lambda candidate: candidate.probability)
