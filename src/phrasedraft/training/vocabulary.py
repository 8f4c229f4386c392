"""The vocabulary of a head: mined phrases, and every phrase those begin with."""

from collections.abc import Sequence

from phrasedraft.phrases.mining import MiningSettings, mine_phrases
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.vocabulary import PhraseVocabulary


def mine(answers: Sequence[Sequence[int]], pieces: TokenPieces, settings: MiningSettings) -> PhraseVocabulary:
    """The best `settings.num_phrases` phrases of `answers` among which every prefix of a phrase is one too."""
    return with_prefixes(mine_phrases(answers, pieces, settings), settings.num_phrases)


def with_prefixes(vocabulary: PhraseVocabulary, num_phrases: int) -> PhraseVocabulary:
    """Single tokens, then phrases in their order, each after the prefixes it needs, for as long as both fit.

    A head chooses token by token among siblings; where a prefix has no row of its own, that choice has no score.

    >>> vocabulary = PhraseVocabulary.from_phrases([(7, 8, 9), (5, 6), (5,)])
    >>> closed = with_prefixes(vocabulary, 5)
    >>> [closed.expand(phrase) for phrase in range(len(closed))]
    [(5,), (7,), (7, 8), (7, 8, 9), (5, 6)]
    """
    phrases = sorted(map(vocabulary.expand, range(len(vocabulary))), key=lambda phrase: len(phrase) > 1)
    chosen: dict[tuple[int, ...], None] = {}
    for phrase in phrases:
        missing = [phrase[:size] for size in range(1, len(phrase) + 1) if phrase[:size] not in chosen]
        if len(chosen) + len(missing) <= num_phrases:
            chosen.update(dict.fromkeys(missing))
    return PhraseVocabulary.from_phrases(chosen)
