"""Mining by what a phrase adds: spans of tokens, each counted only where no longer phrase that is kept covers it."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Int64

from phrasedraft.phrases.closing import fill
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.settings import VocabularySettings
from phrasedraft.phrases.spans import AnswerTokens, SpanLevel, frequent_spans
from phrasedraft.phrases.vocabulary import PhraseVocabulary

POOL_FACTOR: Final = 4.0
"""The choice starts from this many times the phrases wanted,"""
NUM_ROUNDS: Final = 4
"""and shrinks to them over this many rounds."""


def mine_spans(answers: Sequence[Sequence[int]], pieces: TokenPieces, settings: VocabularySettings) -> PhraseVocabulary:
    """The phrases that save the most passes on `answers`, best first, then the most frequent single tokens.

    A draft may begin at any token, so a phrase is worth the tokens it adds over the next shorter phrase kept, summed
    over all positions where it is the longest. Phrases kept so far are valued anew each round, so what a longer phrase
    covers is not counted again for those nested in it. Prefixes that are worth nothing by this are left out unless
    `close_prefixes` asks for them; they then take the places of the phrases worth least.
    """
    corpus = AnswerTokens.of(answers, len(pieces))
    levels = list(frequent_spans(corpus, pieces, settings))
    wanted = settings.num_phrases - settings.num_single_tokens
    chosen = _choose(len(corpus.tokens), levels, wanted) if levels else np.zeros(0, np.int64)
    phrases = [phrase for level in levels for phrase in level.tokens.tolist()]
    ranked = (phrases[candidate] for candidate in chosen.tolist())
    return fill(ranked, corpus.ranked_tokens(), settings, close=settings.close_prefixes)


def _choose(num_positions: int, levels: Sequence[SpanLevel], wanted: int) -> Int64[np.ndarray, " phrase"]:
    """The candidates that add the most tokens: a pool that shrinks round by round, valued anew each time."""
    ends = np.cumsum([len(level.tokens) for level in levels])
    total = int(ends[-1])
    kept = np.arange(total)
    values = np.concatenate([level.counts * (level.length - 1) for level in levels])
    for round_index in range(NUM_ROUNDS + 1):
        size = int(wanted * POOL_FACTOR ** (1 - round_index / NUM_ROUNDS))
        kept = kept[np.lexsort((kept, -values[kept]))][:size]  # equal ones by length and tokens
        chosen = np.zeros(total, dtype=np.bool_)
        chosen[kept[values[kept] > 0]] = True
        values = _added_tokens(num_positions, levels, chosen)
    kept = np.flatnonzero(chosen)
    return np.asarray(kept[np.lexsort((kept, -values[kept]))], dtype=np.int64)


def _added_tokens(
    num_positions: int, levels: Sequence[SpanLevel], chosen: Bool[np.ndarray, " candidate"]
) -> Int64[np.ndarray, " candidate"]:
    """How many tokens each chosen candidate adds over the next shorter one, where it is the longest."""
    owner = np.full(num_positions, -1, dtype=np.int64)
    longest, shorter = np.ones((2, num_positions), dtype=np.int64)
    first = 0
    for level in levels:
        use = chosen[first:][level.ids]
        starts = level.starts[use]
        owner[starts] = level.ids[use] + first
        shorter[starts] = longest[starts]
        longest[starts] = level.length
        first += len(level.tokens)
    owned = owner >= 0
    added = np.bincount(owner[owned], weights=(longest - shorter)[owned], minlength=len(chosen))
    return added.astype(np.int64)
