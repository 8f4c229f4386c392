"""Mining for a head that chooses among siblings: the phrases a text most often passes through, prefixes first."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int32, Int64

from phrasedraft.phrases.closing import fill
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.settings import VocabularySettings
from phrasedraft.phrases.spans import AnswerTokens, frequent_spans
from phrasedraft.phrases.vocabulary import PhraseVocabulary

"""What the settings were called when this was the only way."""


def mine_prefixes(
    answers: Sequence[Sequence[int]], pieces: TokenPieces, settings: VocabularySettings
) -> PhraseVocabulary:
    """The most frequent phrases of `answers`, where every prefix of a phrase is a phrase too.

    A head drafts after whatever token came last and chooses token by token among siblings, so what counts is how often
    a text passes through a phrase, wherever it begins, and a prefix without a row of its own would be a choice without
    a score. Of all vocabularies that hold their own prefixes this one has the longest matches, summed over all
    positions: with its prefixes kept, each phrase adds one token wherever it occurs.
    """
    corpus = AnswerTokens.of(answers, len(pieces))
    levels = [(level.tokens, level.counts) for level in frequent_spans(corpus, pieces, settings)]
    return fill(_by_count(levels), corpus.ranked_tokens(), settings, close=True)


def _by_count(
    levels: Sequence[tuple[Int32[np.ndarray, "_ _"], Int64[np.ndarray, " _"]]],
) -> Iterator[list[int]]:
    """The candidates of levels with their counts, most frequent first, equal ones by length, then by tokens."""
    if not levels:
        return
    order = np.argsort(-np.concatenate([counts for _, counts in levels]), kind="stable")
    ends = np.cumsum([len(tokens) for tokens, _ in levels])
    level_of = np.searchsorted(ends, order, side="right")
    from_the_end = order - ends[level_of]
    for index, candidate in zip(level_of.tolist(), from_the_end.tolist(), strict=True):
        yield levels[index][0][candidate].tolist()
