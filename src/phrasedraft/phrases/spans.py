"""The spans of tokens that may be phrases: everything frequent in the answers, length by length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int32, Int64

from phrasedraft.errors import DataError
from phrasedraft.phrases.pieces import Edge, TokenPieces
from phrasedraft.phrases.settings import VocabularySettings


@dataclass(frozen=True)
class AnswerTokens:
    """Answers end to end: the tokens, which answer each belongs to, and where that answer ends."""

    tokens: Int64[np.ndarray, " position"]
    answers: Int64[np.ndarray, " position"]
    ends: Int64[np.ndarray, " position"]

    @classmethod
    def of(cls, answers: Sequence[Sequence[int]], vocab_size: int) -> "AnswerTokens":
        """The tokens of `answers`; `DataError` where there are none, or one the target does not have."""
        lengths = np.array([len(answer) for answer in answers], dtype=np.int64)
        if not lengths.sum():
            raise DataError("there are no answers to mine phrases from", hint="give a corpus with answers")
        tokens = np.concatenate([np.asarray(answer, dtype=np.int64) for answer in answers])
        unknown = (tokens < 0) | (tokens >= vocab_size)
        if unknown.any():
            raise DataError(
                f"the answers hold token `{tokens[unknown][0]}`, the target has tokens 0 to {vocab_size - 1}",
                hint="mine from answers of the target that the vocabulary is for",
            )
        return cls(tokens, np.repeat(np.arange(len(lengths)), lengths), np.repeat(np.cumsum(lengths), lengths))

    def ranked_tokens(self) -> list[int]:
        """Every token that occurs, most frequent first."""
        tokens, counts = np.unique(self.tokens, return_counts=True)
        ranked: list[int] = tokens[np.lexsort((tokens, -counts))].tolist()
        return ranked


@dataclass(frozen=True)
class SpanLevel:
    """The candidates of one length, ordered by their tokens, and all places where they occur.

    `starts` says where each occurrence begins, `ids` which candidate it is. An edge is a candidate as one number: the
    candidate one token shorter that it begins with, times `vocab_size`, plus its last token.
    """

    tokens: Int32[np.ndarray, "candidate token"]
    edges: Int64[np.ndarray, " candidate"]
    starts: Int64[np.ndarray, " span"]
    ids: Int64[np.ndarray, " span"]
    vocab_size: int

    @property
    def length(self) -> int:
        """How many tokens each candidate has."""
        return int(self.tokens.shape[1])

    @property
    def counts(self) -> Int64[np.ndarray, " candidate"]:
        """How often each candidate occurs."""
        return np.bincount(self.ids, minlength=len(self.tokens)).astype(np.int64)

    def find(
        self, shorter: Int64[np.ndarray, " phrase"], tokens: Int[np.ndarray, " phrase"]
    ) -> Int64[np.ndarray, " phrase"]:
        """The candidate that is `shorter` and one token more, -1 where that is none or `shorter` is -1."""
        edges = shorter * self.vocab_size + tokens
        places = np.minimum(np.searchsorted(self.edges, edges), len(self.edges) - 1)
        return np.where((shorter >= 0) & (self.edges[places] == edges), places, -1)


def frequent_spans(corpus: AnswerTokens, pieces: TokenPieces, settings: VocabularySettings) -> Iterator[SpanLevel]:
    """Every span of two tokens or more that may be a phrase, by length; a span's prefixes are among those before it."""
    half_words = _HalfWords.of(corpus, pieces)
    num_answers = int(corpus.answers[-1]) + 1
    starts, ids = np.arange(len(corpus.tokens)), corpus.tokens
    for length in range(2, settings.max_words * settings.max_tokens_per_word + 1):
        grows = starts + length <= corpus.ends[starts]
        starts, ids = starts[grows], ids[grows]
        words = half_words.words(starts, length)
        grows = (words <= settings.max_words) & (length <= settings.max_tokens_per_word * np.maximum(words, 1))
        starts, ids = starts[grows], ids[grows]
        edges, ids = np.unique(ids * len(pieces) + corpus.tokens[starts + length - 1], return_inverse=True)
        often = np.bincount(ids, minlength=len(edges)) >= settings.min_count
        often &= _num_answers(ids, corpus.answers[starts], num_answers, len(edges)) >= settings.min_answers
        if not often.any():
            return
        starts, ids = starts[often[ids]], (np.cumsum(often) - 1)[ids[often[ids]]]
        edges = edges[often]
        somewhere = np.empty(len(edges), dtype=np.int64)
        somewhere[ids] = starts
        tokens = corpus.tokens[somewhere[:, None] + np.arange(length)].astype(np.int32)
        yield SpanLevel(tokens, edges, starts, ids, len(pieces))


def _num_answers(
    ids: Int64[np.ndarray, " span"], answers: Int64[np.ndarray, " span"], num_answers: int, num_ids: int
) -> Int64[np.ndarray, " candidate"]:
    """In how many answers each span occurs."""
    pairs = np.sort(ids * num_answers + answers)
    new = np.ones(len(pairs), dtype=np.bool_)
    new[1:] = pairs[1:] != pairs[:-1]
    return np.bincount(pairs[new] // num_answers, minlength=num_ids).astype(np.int64)


@dataclass(frozen=True)
class _HalfWords:
    """How many half words begin before each position, and which tokens go on with the word before them."""

    num_before: Int64[np.ndarray, " bound"]
    inside: Bool[np.ndarray, " position"]

    @classmethod
    def of(cls, corpus: AnswerTokens, pieces: TokenPieces) -> "_HalfWords":
        tokens = corpus.tokens
        inside = np.zeros(len(tokens), dtype=np.bool_)
        inside[1:] = pieces.continues(tokens[:-1], tokens[1:]) & (corpus.answers[1:] == corpus.answers[:-1])
        begun = pieces.inner_half_words[tokens] + 2 * ((pieces.leads[tokens] != Edge.NONE) & ~inside)
        return cls(np.concatenate([np.zeros(1, np.int64), np.cumsum(begun)]), inside)

    def words(self, starts: Int64[np.ndarray, " span"], length: int) -> Int64[np.ndarray, " span"]:
        """How many words each span of `length` tokens touches."""
        touched = self.num_before[starts + length] - self.num_before[starts] + 2 * self.inside[starts]
        return np.asarray((touched + 1) // 2, dtype=np.int64)
