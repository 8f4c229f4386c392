"""Mining a phrase vocabulary from the target's own answers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from phrasedraft.errors import DataError, OptionError
from phrasedraft.phrases.pieces import Edge, TokenKind, TokenPieces
from phrasedraft.phrases.vocabulary import PhraseVocabulary


@dataclass(frozen=True, kw_only=True)
class MiningSettings:
    """What may be a phrase and how many are kept.

    A phrase touches up to `max_words` words and numbers; punctuation and newlines count as none. Scripts of many tokens a
    word want `max_tokens=24`. A phrase occurs `min_count` times or more, in `min_answers` answers or more.
    """

    num_phrases: int = 8000
    num_single_tokens: int = 2667
    max_words: int = 3
    max_tokens: int = 12
    min_count: int = 4
    min_answers: int = 2
    num_rounds: int = 4
    pool: float = 4.0
    whole_words: bool = True

    def __post_init__(self) -> None:
        for name in ("num_phrases", "max_words", "max_tokens", "min_count", "min_answers", "num_rounds"):
            value = getattr(self, name)
            if value < 1:
                raise OptionError(f"`{name}` is {value}, it must be 1 or more")
        if not 0 <= self.num_single_tokens <= self.num_phrases:
            raise OptionError(f"`num_single_tokens` is {self.num_single_tokens}, it may be 0 to {self.num_phrases}")


@dataclass(frozen=True)
class _Corpus:
    """Answers end to end; `answers` is the answer each token belongs to, `ends` the position where it ends."""

    tokens: Int64[np.ndarray, " position"]
    answers: Int64[np.ndarray, " position"]
    ends: Int64[np.ndarray, " position"]


@dataclass(frozen=True)
class _Candidates:
    """Spans that may become phrases: for each length from 2 on, where spans begin and which candidate each is."""

    phrases: list[tuple[int, ...]]
    lengths: Int64[np.ndarray, " candidate"]
    counts: Int64[np.ndarray, " candidate"]
    positions: list[Int64[np.ndarray, " occurrence"]]
    ids: list[Int64[np.ndarray, " occurrence"]]


def mine_phrases(answers: Sequence[Sequence[int]], pieces: TokenPieces, settings: MiningSettings) -> PhraseVocabulary:
    """The phrases that save the most passes on `answers`, best first, then the most frequent single tokens.

    A phrase is worth the tokens it saves: how often it is used times its tokens but one, where use is counted by
    segmenting the answers with the phrases kept so far, round by round, so that what a longer phrase already covers
    does not count again. `DataError` where there is nothing to mine or a token the target does not have.
    """
    corpus = _corpus(answers, len(pieces))
    singles = _frequent_tokens(corpus, settings.num_single_tokens)
    candidates = _find_candidates(corpus, pieces, settings)
    chosen = _choose(corpus, candidates, settings, settings.num_phrases - len(singles))
    return PhraseVocabulary.from_phrases([candidates.phrases[candidate] for candidate in chosen] + singles)


def _corpus(answers: Sequence[Sequence[int]], vocab_size: int) -> _Corpus:
    lengths = np.array([len(answer) for answer in answers], dtype=np.int64)
    if not lengths.sum():
        raise DataError("there are no answers to mine phrases from", hint="generate some with `phrasedraft corpus`")
    tokens = np.concatenate([np.asarray(answer, dtype=np.int64) for answer in answers])
    if tokens.min() < 0 or tokens.max() >= vocab_size:
        raise DataError(
            f"the answers hold token {tokens[(tokens < 0) | (tokens >= vocab_size)][0]}, the target has {vocab_size}",
            hint="mine from answers of the target the vocabulary is for",
        )
    return _Corpus(tokens, np.repeat(np.arange(len(lengths)), lengths), np.repeat(np.cumsum(lengths), lengths))


def _frequent_tokens(corpus: _Corpus, num_tokens: int) -> list[tuple[int, ...]]:
    tokens, counts = np.unique(corpus.tokens, return_counts=True)
    return [(int(token),) for token in tokens[np.lexsort((tokens, -counts))][:num_tokens]]


def _find_candidates(corpus: _Corpus, pieces: TokenPieces, settings: MiningSettings) -> _Candidates:
    """Every span of 2 tokens or more that may be a phrase and occurs often enough."""
    may_grow, words, stops_in_word = _boundaries(corpus, pieces)
    counts, positions_by_length, ids_by_length = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    phrases = list[tuple[int, ...]]()
    positions, keys = np.arange(len(corpus.tokens)), corpus.tokens
    for length in range(2, settings.max_tokens + 1):
        ends = positions + length
        alive = (ends <= corpus.ends[positions]) & may_grow[np.minimum(ends, len(may_grow)) - 2]
        positions, keys = positions[alive], keys[alive]
        keys = _renumber(keys * len(pieces) + corpus.tokens[positions + length - 1])
        alive = np.bincount(keys, minlength=1)[keys] >= settings.min_count
        if not alive.any():
            break
        positions, keys = positions[alive], _renumber(keys[alive])
        fits = _num_words(words, positions, length) <= settings.max_words
        if settings.whole_words:
            fits &= ~stops_in_word[positions + length - 1]
        at, numbers = _often(positions[fits], keys[fits], corpus, settings)
        first = np.unique(numbers, return_index=True)[1]
        phrases += map(tuple, corpus.tokens[at[first][:, None] + np.arange(length)].tolist())
        counts.append(np.bincount(numbers))
        positions_by_length.append(at)
        ids_by_length.append(numbers + sum(map(len, counts[:-1])))
    lengths = np.array([len(phrase) for phrase in phrases], dtype=np.int64)
    return _Candidates(
        phrases, lengths, np.concatenate([*counts, np.zeros(0, np.int64)]), positions_by_length, ids_by_length
    )


def _boundaries(corpus: _Corpus, pieces: TokenPieces) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Where a span may go on after a token; running word counts with where a word is under way; where words go on."""
    tokens = corpus.tokens
    inside = np.zeros(len(tokens), dtype=np.bool_)  # this token goes on with the word before it
    inside[1:] = pieces.continues(tokens[:-1], tokens[1:]) & (corpus.answers[1:] == corpus.answers[:-1])
    opens = (pieces.leads[tokens] != Edge.NONE) & ~inside
    running = np.concatenate([[0], np.cumsum(pieces.inner_words[tokens] + opens)])
    stops_in_word = np.append(inside[1:] & (pieces.leads[tokens[1:]] != Edge.DIGIT), False)
    return pieces.kinds[tokens] != TokenKind.SPECIAL, (running, inside), stops_in_word


def _num_words(words: tuple[np.ndarray, np.ndarray], positions: np.ndarray, length: int) -> np.ndarray:
    running, inside = words
    return running[positions + length] - running[positions] + inside[positions]


def _renumber(keys: np.ndarray) -> np.ndarray:
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _often(
    positions: np.ndarray, keys: np.ndarray, corpus: _Corpus, settings: MiningSettings
) -> tuple[np.ndarray, np.ndarray]:
    """The spans that occur in enough places and answers, and their candidates numbered from 0."""
    num_answers = int(corpus.answers[-1]) + 1
    spread = np.unique(keys * num_answers + corpus.answers[positions]) // num_answers
    size = int(keys.max(initial=0)) + 1
    often = (np.bincount(keys, minlength=size) >= settings.min_count) & (
        np.bincount(spread, minlength=size) >= settings.min_answers
    )
    kept = often[keys]
    return positions[kept], _renumber(keys[kept])


def _choose(corpus: _Corpus, candidates: _Candidates, settings: MiningSettings, num_kept: int) -> list[int]:
    """The best candidates: the pool shrinks over the rounds, counted anew by segmentation each time."""
    total = len(candidates.phrases)
    rank = np.lexsort((np.arange(total), -candidates.counts * (candidates.lengths - 1)))
    kept = rank[: int(num_kept * settings.pool)]
    for round_left in range(settings.num_rounds - 1, -1, -1):
        mask = np.zeros(total, dtype=np.bool_)
        mask[kept] = True
        uses = _uses(corpus, candidates, mask)
        scores = uses[kept] * (candidates.lengths[kept] - 1)
        size = int(num_kept * settings.pool ** (round_left / settings.num_rounds))
        kept = kept[np.lexsort((kept, -scores))][:size]
    return kept.tolist()


def _uses(
    corpus: _Corpus, candidates: _Candidates, chosen: Bool[np.ndarray, " candidate"]
) -> Int64[np.ndarray, " candidate"]:
    """How often each candidate is used when the answers are segmented greedily with those chosen."""
    longest = np.full(len(corpus.tokens), -1, dtype=np.int64)
    for positions, ids in zip(candidates.positions, candidates.ids, strict=True):
        use = chosen[ids]
        longest[positions[use]] = ids[use]
    steps = np.where(longest >= 0, candidates.lengths[longest] if len(candidates.lengths) else 1, 1).tolist()
    visited, position = list[int](), 0
    while position < len(steps):
        visited.append(position)
        position += steps[position]
    used = longest[visited]
    return np.bincount(used[used >= 0], minlength=len(chosen))
