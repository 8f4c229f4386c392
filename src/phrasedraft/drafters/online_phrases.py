"""What the texts of a session keep saying: short phrases, counted while decoding, bounded, evicted by value."""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int32

from phrasedraft.drafters.source import Candidate
from phrasedraft.drafters.training_free import at_least_one
from phrasedraft.errors import OptionError

Context = tuple[int, ...]
"""All tokens of a phrase but its last one: nothing for a single token."""

REBASE = 2.0**200
"""When an occurrence weighs this much, all weights are scaled down; far from where float64 overflows."""
EVICTED_SHARE = 0.1
"""So much of the store goes at once, so that eviction costs little a phrase."""


@dataclass(frozen=True, kw_only=True)
class OnlineSettings:
    """How much is remembered, and how long.

    Phrases have up to `max_tokens` tokens and are taken in when they are seen `min_count` times; beyond `max_phrases`
    of them the least valuable go, none where `evict` is False. An occurrence counts half after `half_life` further
    tokens. Phrases seen less often are remembered for the last `8 * max_phrases` of them. Nothing is said after a match
    of fewer than `min_match` tokens.
    """

    max_tokens: int = 6
    min_count: int = 2
    min_match: int = 1
    max_phrases: int = 2_000
    half_life: int = 4_000
    evict: bool = True

    def __post_init__(self) -> None:
        at_least_one(
            min_count=self.min_count,
            min_match=self.min_match,
            max_phrases=self.max_phrases,
            half_life=self.half_life,
        )
        if not isinstance(self.max_tokens, int) or isinstance(self.max_tokens, bool) or self.max_tokens < 2:
            raise OptionError(f"`max_tokens` is `{self.max_tokens!r}`, it may be 2 or more, a whole number")

    @property
    def max_waiting(self) -> int:
        """How many phrases that were not seen often enough are remembered."""
        return 8 * self.max_phrases


class Followers(NamedTuple):
    """What came after a match of `matched` tokens: the weight of each token, and what makes it a probability.

    A token that came c of n times after m tokens has probability c / (n + 1 / m): little evidence gives little.
    """

    matched: int
    weights: Mapping[int, float]
    whole: float

    def candidates(self, number: int) -> list[Candidate]:
        """The `number` most probable tokens, as strong as the match is long."""
        best = heapq.nlargest(number, self.weights.items(), key=itemgetter(1))
        return [Candidate(token, weight / self.whole, self.matched) for token, weight in best]


class PhraseTable(NamedTuple):
    """A store as arrays: phrases padded with -1; the weight of each and of its context; of all tokens, and of one."""

    tokens: Int32[np.ndarray, "phrase token"]
    weights: Float64[np.ndarray, "phrase 2"]
    scale: Float64[np.ndarray, " 2"]


class OnlinePhrases:
    """A bounded store of phrases and how often each occurs, where old occurrences count less.

    `counts_alone(token)` says whether a single token is a phrase too: those that a head has no entry for. A phrase is
    worth its decayed count times the passes it saves at best, its tokens but one (1 for a single token). Instead of
    decaying every count, an occurrence weighs more the later it comes; only quotients and orders are ever read.
    """

    def __init__(
        self, settings: OnlineSettings | None = None, *, counts_alone: Callable[[int], bool] = lambda _: False
    ) -> None:
        self.settings = settings or OnlineSettings()
        self._counts_alone = counts_alone
        self._growth = 2.0 ** (1 / self.settings.half_life)
        self._weight = 1.0
        self._all = 0.0
        self._counts: dict[Context, dict[int, float]] = {}  # of each last token, by what comes before it
        self._totals: dict[Context, float] = {}  # how often that came since, whatever followed
        self._waiting: dict[Context, tuple[int, float]] = {}
        self._num_phrases = 0

    def __len__(self) -> int:
        return self._num_phrases

    @property
    def num_waiting(self) -> int:
        """How many phrases are remembered that were not seen often enough yet."""
        return len(self._waiting)

    @property
    def num_tokens(self) -> float:
        """How many tokens were learnt from, each as it counts now."""
        return self._all / self._weight

    def learn(self, before: Context, token: int) -> Context:
        """Count every phrase that ends with `token` after `before`; what to give as `before` next."""
        self._weight *= self._growth
        if self._weight > REBASE:
            self._rebase()
        self._all += self._weight
        if self._counts_alone(token):
            self._count((), token)
        for start in range(len(before)):
            self._count(before[start:], token)
        if self.settings.evict and self._num_phrases > self.settings.max_phrases:
            self._evict()
        return (*before, token)[1 - self.settings.max_tokens :]

    def followers(self, text: Context) -> Followers | None:
        """What came after the longest end of `text` that phrases go on from; None where there is none."""
        shortest = self.settings.min_match
        for start in range(max(len(text) + 1 - self.settings.max_tokens, 0), len(text) + 1 - shortest):
            counts = self._counts.get(text[start:])
            if counts is not None:
                matched = len(text) - start
                return Followers(matched, counts, self._totals[text[start:]] + self._weight / matched)
        return None

    def single_tokens(self) -> dict[int, float]:
        """The share of all tokens that each single-token phrase has."""
        return {token: weight / self._all for token, weight in self._counts.get((), {}).items()}

    def phrases(self) -> dict[Context, float]:
        """Every phrase and its decayed count."""
        return {
            (*context, token): weight / self._weight
            for context, counts in self._counts.items()
            for token, weight in counts.items()
        }

    def table(self) -> PhraseTable:
        """What is stored, without what was not seen often enough."""
        rows = [
            ((*context, token), weight, self._totals[context])
            for context, counts in self._counts.items()
            for token, weight in counts.items()
        ]
        tokens = np.full((len(rows), self.settings.max_tokens), -1, dtype=np.int32)
        for line, (phrase, _, _) in zip(tokens, rows, strict=True):
            line[: len(phrase)] = phrase
        weights = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 2)
        return PhraseTable(tokens, weights, np.array([self._all, self._weight]))

    def restore(self, table: PhraseTable) -> None:
        """Hold what a table holds and nothing else; phrases these settings would not take are left out."""
        self._counts, self._totals, self._waiting, self._num_phrases = {}, {}, {}, 0
        self._all, self._weight = table.scale.tolist()
        for line, (weight, total) in zip(table.tokens.tolist(), table.weights.tolist(), strict=True):
            phrase = tuple(token for token in line if token >= 0)
            if len(phrase) > self.settings.max_tokens or (len(phrase) == 1 and not self._counts_alone(phrase[0])):
                continue
            self._counts.setdefault(phrase[:-1], {})[phrase[-1]] = weight
            self._totals[phrase[:-1]] = total
            self._num_phrases += 1
        if self.settings.evict and self._num_phrases > self.settings.max_phrases:
            self._evict()

    def _count(self, context: Context, token: int) -> None:
        counts = self._counts.get(context)
        if counts is not None:
            self._totals[context] += self._weight
            if token in counts:
                counts[token] += self._weight
                return
        phrase = (*context, token)
        num_seen, weight = self._waiting.pop(phrase, (0, 0.0))
        if num_seen + 1 < self.settings.min_count:
            self._waiting[phrase] = (num_seen + 1, weight + self._weight)
            if len(self._waiting) > self.settings.max_waiting:
                del self._waiting[next(iter(self._waiting))]  # the one not seen for longest
            return
        if counts is None:
            counts = self._counts[context] = {}
        counts[token] = weight + self._weight
        self._totals[context] = max(self._totals.get(context, 0.0), sum(counts.values()))
        self._num_phrases += 1

    def _evict(self) -> None:
        """Drop the least valuable tenth, and what is above the limit."""
        keep = self.settings.max_phrases - int(self.settings.max_phrases * EVICTED_SHARE)
        contexts = list(self._counts)
        owners = np.repeat(np.arange(len(contexts)), list(map(len, self._counts.values())))
        saved = np.maximum(list(map(len, contexts)), 1)
        weights = np.array(list(chain.from_iterable(map(dict.values, self._counts.values()))))
        tokens = list(chain.from_iterable(self._counts.values()))
        for place in np.argsort(weights * saved[owners], kind="stable")[: self._num_phrases - keep].tolist():
            counts = self._counts[contexts[owners[place]]]
            del counts[tokens[place]]
            if not counts:
                del self._counts[contexts[owners[place]]], self._totals[contexts[owners[place]]]
        self._num_phrases = keep

    def _rebase(self) -> None:
        """Give an occurrence weight 1 again."""
        scale = 1 / self._weight
        self._totals = {context: total * scale for context, total in self._totals.items()}
        for counts in self._counts.values():
            counts.update({token: weight * scale for token, weight in counts.items()})
        self._waiting = {phrase: (number, weight * scale) for phrase, (number, weight) in self._waiting.items()}
        self._all *= scale
        self._weight = 1.0
