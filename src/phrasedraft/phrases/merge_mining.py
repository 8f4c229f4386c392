"""Mining by merges: byte-pair encoding over the target's tokens, across words, as SuperBPE's second stage does it."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from jaxtyping import Bool, Int64
from tokenizers import Tokenizer, models, trainers

from phrasedraft.phrases.closing import fill
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.settings import VocabularySettings
from phrasedraft.phrases.spans import AnswerTokens, SpanLevel, frequent_spans
from phrasedraft.phrases.vocabulary import PADDING, PhraseVocabulary

PART_TOKENS: Final = 1024
"""Longer answers are cut before they are merged: each merge reads the whole of every text it occurs in."""

_SURROGATES: Final = range(0xD800, 0xE000)
"""Code points that are no characters."""


def mine_merges(
    answers: Sequence[Sequence[int]], pieces: TokenPieces, settings: VocabularySettings
) -> PhraseVocabulary:
    """The phrases that merging the most frequent pair of neighbours, over and over, leads to, first merges first.

    The alphabet is the target's own tokens and a merge may cross words (SuperBPE, Liu et al. 2025, second stage). A
    merge that breaks a limit of `settings`, or that one answer repeats, is not kept as a phrase, though longer ones may
    be built on it; training goes on until there are enough phrases or nothing is left to merge.
    """
    corpus = AnswerTokens.of(answers, len(pieces))
    levels = list(frequent_spans(corpus, pieces, settings))
    ranked_tokens = corpus.ranked_tokens()
    wanted = settings.num_phrases - settings.num_single_tokens
    known, texts = np.unique(corpus.tokens), list(_texts(corpus))
    num_merges, kept = 2 * wanted, list[list[int]]()
    while levels and wanted:
        names = _merge(texts, len(known) + num_merges, 1 + len(levels), settings.min_count)
        merged = [known[_places(name)] for name in names]
        kept = [phrase.tolist() for phrase, fits in zip(merged, _among(merged, levels), strict=True) if fits]
        if len(kept) >= wanted or len(names) < num_merges:
            break
        num_merges *= 4
    return fill(kept[:wanted], ranked_tokens, settings, close=settings.close_prefixes)


def _texts(corpus: AnswerTokens) -> Iterator[str]:
    """Each answer as a text of one character a token, in parts where it is long."""
    places = np.unique(corpus.tokens, return_inverse=True)[1]
    points = np.where(places < _SURROGATES.start, places, places + len(_SURROGATES)).astype("<u4")
    bounds = np.flatnonzero(np.diff(corpus.answers, prepend=-1, append=int(corpus.answers[-1]) + 1))
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        for part in range(start, end, PART_TOKENS):
            yield points[part : min(part + PART_TOKENS, end)].tobytes().decode("utf-32-le")


def _places(name: str) -> Int64[np.ndarray, " token"]:
    """The places in the alphabet that a text of `_texts` stands for."""
    points = np.frombuffer(name.encode("utf-32-le"), dtype="<u4").astype(np.int64)
    return np.where(points < _SURROGATES.start, points, points - len(_SURROGATES))


def _merge(texts: Sequence[str], vocab_size: int, max_tokens: int, min_count: int) -> list[str]:
    """What merging the texts until there are `vocab_size` entries leads to, in the order of the merges."""
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_count,
        max_token_length=max_tokens + 1,  # what it merges is shorter than this
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    entries = sorted((number, name) for name, number in tokenizer.get_vocab().items())
    return [name for _, name in entries if len(name) > 1]


def _among(phrases: Sequence[Int64[np.ndarray, " _"]], levels: Sequence[SpanLevel]) -> Bool[np.ndarray, " phrase"]:
    """Whether each phrase of two tokens or more is one of the candidates."""
    lengths = np.array([len(phrase) for phrase in phrases], dtype=np.int64)
    table = np.full((len(phrases), len(levels) + 1), PADDING, dtype=np.int64)
    table[np.arange(len(levels) + 1) < lengths[:, None]] = np.concatenate([np.zeros(0, np.int64), *phrases])
    found = table[:, 0]
    for level in levels:
        longer = lengths >= level.length
        found = np.where(longer, level.find(found, table[:, level.length - 1]), found)
    return np.asarray(found >= 0)
