"""Mining a phrase vocabulary from the target's own answers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int64

from phrasedraft.errors import DataError, OptionError
from phrasedraft.phrases.pieces import Edge, TokenKind, TokenPieces
from phrasedraft.phrases.vocabulary import PhraseVocabulary


@dataclass(frozen=True, kw_only=True)
class MiningSettings:
    """What may be a phrase, and how many are kept.

    A phrase touches up to `max_words` words and numbers; punctuation and newlines count as none. Scripts of many tokens
    a word want `max_tokens=24`. A phrase occurs `min_count` times or more, in `min_answers` answers or more: an answer
    that repeats itself makes no phrases. `single_token_share` of the vocabulary is for the most frequent tokens. The
    choice starts from `pool_factor` times the phrases wanted and shrinks to them over `num_rounds`.
    """

    num_phrases: int = 8000
    max_words: int = 3
    max_tokens: int = 12
    min_count: int = 4
    min_answers: int = 3
    single_token_share: float = 1 / 3
    num_rounds: int = 4
    pool_factor: float = 4.0

    def __post_init__(self) -> None:
        for name in ("num_phrases", "max_words", "max_tokens", "min_count", "min_answers", "num_rounds", "pool_factor"):
            value = getattr(self, name)
            if not value >= 1:
                raise OptionError(f"`{name}` is {value}, it must be 1 or more")
        if not 0 <= self.single_token_share <= 1:
            raise OptionError(f"`single_token_share` is {self.single_token_share}, it must be from 0 to 1")

    @property
    def num_single_tokens(self) -> int:
        """How many of the phrases are single tokens, more where too few longer phrases are found."""
        return int(self.num_phrases * self.single_token_share)


@dataclass(frozen=True)
class _Corpus:
    """Answers end to end: the tokens, which answer each belongs to, and where that answer ends."""

    tokens: Int64[np.ndarray, " position"]
    answers: Int64[np.ndarray, " position"]
    ends: Int64[np.ndarray, " position"]


@dataclass(frozen=True)
class _Words:
    """Where words are: how many begin before each position, and which tokens go on with the word before them."""

    num_before: Int64[np.ndarray, " bound"]
    inside: Bool[np.ndarray, " position"]

    def in_spans(self, starts: Int64[np.ndarray, " span"], length: int) -> Int64[np.ndarray, " span"]:
        """How many words each span of `length` tokens touches."""
        touched = self.num_before[starts + length] - self.num_before[starts] + self.inside[starts]
        return np.asarray(touched, dtype=np.int64)


@dataclass(frozen=True)
class _Spans:
    """All spans of one length that are candidates: their tokens, where each span begins and which candidate it is."""

    tokens: Int64[np.ndarray, "candidate token"]
    starts: Int64[np.ndarray, " span"]
    ids: Int64[np.ndarray, " span"]


def mine_phrases(answers: Sequence[Sequence[int]], pieces: TokenPieces, settings: MiningSettings) -> PhraseVocabulary:
    """The phrases that save the most passes on `answers`, best first, then the most frequent single tokens.

    A draft may begin at any token, so a phrase is worth the tokens it adds over the next shorter phrase kept, summed
    over all positions where it is the longest. Phrases kept so far are valued anew each round, so what a longer phrase
    covers is not counted again for those nested in it. The same answers give the same vocabulary, in any order.
    `DataError` where there is nothing to mine, or a token the target does not have.
    """
    corpus = _corpus(answers, len(pieces))
    spans = _candidates(corpus, pieces, settings)
    chosen = _choose(len(corpus.tokens), spans, settings)
    phrases = [phrase for level in spans for phrase in level.tokens.tolist()]
    tokens, counts = np.unique(corpus.tokens, return_counts=True)
    num_singles = settings.num_phrases - len(chosen)
    singles = tokens[np.lexsort((tokens, -counts))][:num_singles]
    return PhraseVocabulary.from_phrases([*(phrases[candidate] for candidate in chosen), *singles[:, None].tolist()])


def _corpus(answers: Sequence[Sequence[int]], vocab_size: int) -> _Corpus:
    lengths = np.array([len(answer) for answer in answers], dtype=np.int64)
    if not lengths.sum():
        raise DataError("there are no answers to mine phrases from", hint="write some with `phrasedraft fit`")
    tokens = np.concatenate([np.asarray(answer, dtype=np.int64) for answer in answers])
    unknown = (tokens < 0) | (tokens >= vocab_size)
    if unknown.any():
        raise DataError(
            f"the answers hold token `{tokens[unknown][0]}`, the target has tokens 0 to {vocab_size - 1}",
            hint="mine from answers of the target that the vocabulary is for",
        )
    return _Corpus(tokens, np.repeat(np.arange(len(lengths)), lengths), np.repeat(np.cumsum(lengths), lengths))


def _words(corpus: _Corpus, pieces: TokenPieces) -> _Words:
    tokens = corpus.tokens
    inside = np.zeros(len(tokens), dtype=np.bool_)
    inside[1:] = pieces.continues(tokens[:-1], tokens[1:]) & (corpus.answers[1:] == corpus.answers[:-1])
    begun = pieces.inner_words[tokens] + ((pieces.leads[tokens] != Edge.NONE) & ~inside)
    return _Words(np.concatenate([[0], np.cumsum(begun)]), inside)


def _candidates(corpus: _Corpus, pieces: TokenPieces, settings: MiningSettings) -> list[_Spans]:
    """Every span of two tokens or more that may be a phrase and occurs often enough, by length, then by tokens.

    A span is looked at only where the span without its last token occurs often enough. Special tokens only end one.
    """
    words = _words(corpus, pieces)
    special = pieces.kinds[corpus.tokens] == TokenKind.SPECIAL
    starts, keys = np.arange(len(corpus.tokens)), corpus.tokens
    found = list[_Spans]()
    for length in range(2, settings.max_tokens + 1):
        grows = starts + length <= corpus.ends[starts]
        starts, keys = starts[grows], keys[grows]
        grows = ~special[starts + length - 2] & (words.in_spans(starts, length) <= settings.max_words)
        starts, keys = starts[grows], keys[grows]
        keys = _renumber(keys * len(pieces) + corpus.tokens[starts + length - 1])
        often = _occur_often(keys, corpus.answers[starts], settings)[keys]
        if not often.any():
            break
        starts, keys = starts[often], _renumber(keys[often])
        first = np.unique(keys, return_index=True)[1]
        tokens = corpus.tokens[starts[first][:, None] + np.arange(length)]
        found.append(_Spans(tokens, starts, keys + sum(len(level.tokens) for level in found)))
    return found


def _renumber(keys: Int64[np.ndarray, " span"]) -> Int64[np.ndarray, " span"]:
    """The keys as 0, 1, 2, ... in their order, so that spans stay ordered by their tokens."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _occur_often(
    keys: Int64[np.ndarray, " span"], answers: Int64[np.ndarray, " span"], settings: MiningSettings
) -> Bool[np.ndarray, " candidate"]:
    """Whether each key occurs in enough places and enough answers."""
    num_answers = int(answers.max(initial=0)) + 1
    keys_by_answer = np.unique(keys * num_answers + answers) // num_answers
    in_places, in_answers = np.bincount(keys), np.bincount(keys_by_answer)
    often: Bool[np.ndarray, " candidate"] = (in_places >= settings.min_count) & (in_answers >= settings.min_answers)
    return often


def _choose(num_positions: int, spans: list[_Spans], settings: MiningSettings) -> list[int]:
    """The candidates that add the most tokens: a pool that shrinks round by round, valued anew each time."""
    if not spans:
        return []
    wanted = settings.num_phrases - settings.num_single_tokens
    total = sum(len(level.tokens) for level in spans)
    kept = np.arange(total)
    lengths = np.repeat([level.tokens.shape[1] for level in spans], [len(level.tokens) for level in spans])
    values = sum((np.bincount(level.ids, minlength=total) for level in spans), np.zeros(total, dtype=np.int64))
    values = values * (lengths - 1)
    for round_index in range(settings.num_rounds + 1):
        size = int(wanted * settings.pool_factor ** (1 - round_index / settings.num_rounds))
        kept = kept[np.lexsort((kept, -values[kept]))][:size]  # equal ones by length and tokens
        chosen = np.zeros(total, dtype=np.bool_)
        chosen[kept[values[kept] > 0]] = True
        values = _added_tokens(num_positions, spans, chosen)
    kept = np.flatnonzero(chosen)
    ranked: list[int] = kept[np.lexsort((kept, -values[kept]))].tolist()
    return ranked


def _added_tokens(
    num_positions: int, spans: list[_Spans], chosen: Bool[np.ndarray, " candidate"]
) -> Int[np.ndarray, " candidate"]:
    """How many tokens each chosen candidate adds over the next shorter one, where it is the longest."""
    owner = np.full(num_positions, -1, dtype=np.int64)
    longest, shorter = np.ones((2, num_positions), dtype=np.int64)
    for level in spans:
        use = chosen[level.ids]
        starts = level.starts[use]
        owner[starts] = level.ids[use]
        shorter[starts] = longest[starts]
        longest[starts] = level.tokens.shape[1]
    owned = owner >= 0
    added = np.bincount(owner[owned], weights=(longest - shorter)[owned], minlength=len(chosen))
    return added.astype(np.int64)
