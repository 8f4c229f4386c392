"""One way to ask for a vocabulary, whichever of the three ways of mining finds its phrases."""

import warnings
from collections.abc import Callable, Sequence
from typing import Final

from phrasedraft.phrases.merge_mining import mine_merges
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.prefix_mining import mine_prefixes
from phrasedraft.phrases.settings import MERGES, PREFIXES, SPANS, VocabularySettings
from phrasedraft.phrases.span_mining import mine_spans
from phrasedraft.phrases.vocabulary import PhraseVocabulary

__all__ = ["MINERS", "VocabularySettings", "mine"]

MINERS: Final[dict[str, Callable[[Sequence[Sequence[int]], TokenPieces, VocabularySettings], PhraseVocabulary]]] = {
    PREFIXES: mine_prefixes,
    SPANS: mine_spans,
    MERGES: mine_merges,
}


def mine(answers: Sequence[Sequence[int]], pieces: TokenPieces, settings: VocabularySettings) -> PhraseVocabulary:
    """The phrases of `answers`, found by `settings.method`; the order of the answers does not matter.

    `DataError` where there is nothing to mine, or a token the target does not have.
    """
    if settings.method == PREFIXES and not settings.close_prefixes:
        warnings.warn(
            f"`close_prefixes` has no effect with method `{PREFIXES}`, which keeps the prefixes of its phrases",
            stacklevel=1,
        )
    return MINERS[settings.method](answers, pieces, settings)
