"""Mining for a head that chooses among siblings: the phrases a text most often passes through, prefixes first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from phrasedraft.errors import DataError, OptionError
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.vocabulary import PhraseVocabulary


@dataclass(frozen=True, kw_only=True)
class PrefixMiningSettings:
    """What may be a phrase of the head, and how many are kept.

    A phrase touches up to `max_words` words and numbers; punctuation and newlines count as none. Longer ones than one
    token occur `min_count` times or more, in `min_answers` answers or more, so that an answer that repeats itself makes
    no phrases. `single_token_share` of the vocabulary is for the most frequent tokens.
    """

    num_phrases: int = 8000
    single_token_share: float = 1 / 3
    max_words: int = 3
    max_tokens: int = 12
    min_count: int = 4
    min_answers: int = 3

    def __post_init__(self) -> None:
        for name in ("num_phrases", "max_words", "max_tokens", "min_count", "min_answers"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` is {getattr(self, name)}, it must be 1 or more")
        if not 0 <= self.single_token_share <= 1:
            raise OptionError(f"`single_token_share` is {self.single_token_share}, it must be from 0 to 1")


def mine_prefixes(
    answers: Sequence[Sequence[int]], pieces: TokenPieces, settings: PrefixMiningSettings
) -> PhraseVocabulary:
    """The most frequent phrases of `answers`, where every prefix of a phrase is a phrase too.

    A head drafts after whatever token came last and chooses token by token among siblings, so what counts is how often
    a text passes through a phrase, wherever it begins, and a prefix without a row of its own would be a choice without
    a score. `mine_phrases` values what a phrase adds over a shorter one: that is for drafters that chain whole phrases.
    """
    candidates = sorted(_candidates(answers, settings), key=lambda line: (-line[0], len(line[1]), line[1]))
    singles = [phrase for _, phrase in candidates if len(phrase) == 1]
    if not singles:
        raise DataError("there are no answers to mine phrases from", hint="give a corpus with answers")
    num_singles = int(settings.num_phrases * settings.single_token_share)
    chosen: dict[tuple[int, ...], None] = dict.fromkeys(singles[:num_singles])
    for _, phrase in candidates:
        if len(chosen) >= settings.num_phrases:
            break
        if len(phrase) > 1 and phrase[:-1] in chosen and pieces.num_words(phrase) <= settings.max_words:
            chosen[phrase] = None
    rest = (phrase for phrase in singles if phrase not in chosen)
    chosen.update(
        dict.fromkeys(phrase for phrase, _ in zip(rest, range(settings.num_phrases - len(chosen)), strict=False))
    )
    return PhraseVocabulary.from_phrases(chosen)


def _candidates(
    answers: Sequence[Sequence[int]], settings: PrefixMiningSettings
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """How often each span of tokens occurs; of more than one token only where it and its prefixes are frequent."""
    lengths = np.array([len(answer) for answer in answers], dtype=np.int64)
    tokens = np.concatenate([np.zeros(0, np.int64), *(np.asarray(answer, dtype=np.int64) for answer in answers)])
    owners = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.repeat(np.cumsum(lengths), lengths)
    num_tokens = int(tokens.max(initial=0)) + 1
    starts, spans = np.arange(len(tokens)), np.zeros(len(tokens), np.int64)
    for length in range(1, settings.max_tokens + 1):
        inside = starts + length <= ends[starts]
        starts, spans = starts[inside], spans[inside]
        spans = np.unique(spans * num_tokens + tokens[starts + length - 1], return_inverse=True)[1].astype(np.int64)
        counts, spread = np.bincount(spans), _spread(spans, owners[starts], len(lengths))
        often = (counts >= settings.min_count) & (spread >= settings.min_answers)
        first = np.unique(spans, return_index=True)[1]
        for span in np.flatnonzero(often | (length == 1)).tolist():
            start = int(starts[first[span]])
            yield int(counts[span]), tuple(tokens[start : start + length].tolist())
        starts, spans = starts[often[spans]], spans[often[spans]]
        if not len(starts):
            return


def _spread(
    spans: Int64[np.ndarray, " occurrence"], owners: Int64[np.ndarray, " occurrence"], num_answers: int
) -> Int64[np.ndarray, " span"]:
    """In how many answers each span occurs."""
    return np.bincount(np.unique(spans * num_answers + owners) // num_answers).astype(np.int64)
