"""Phrases: short sequences of the target's tokens, mined, matched, expanded and inspected."""

from phrasedraft.phrases.inspection import PhraseCategory, VocabularyReport, categorize, describe
from phrasedraft.phrases.matching import PhraseMatcher
from phrasedraft.phrases.merge_mining import mine_merges
from phrasedraft.phrases.miner import mine
from phrasedraft.phrases.pieces import Edge, TokenKind, TokenPieces
from phrasedraft.phrases.prefix_mining import mine_prefixes
from phrasedraft.phrases.settings import METHODS, VocabularySettings
from phrasedraft.phrases.span_mining import mine_spans
from phrasedraft.phrases.spelling import Speller, Tokenizer
from phrasedraft.phrases.trie import PhraseTrie
from phrasedraft.phrases.vocabulary import PhraseVocabulary, SpelledPhrases, Spelling

__all__ = [
    "METHODS",
    "Edge",
    "PhraseCategory",
    "PhraseMatcher",
    "PhraseTrie",
    "PhraseVocabulary",
    "SpelledPhrases",
    "Speller",
    "Spelling",
    "TokenKind",
    "TokenPieces",
    "Tokenizer",
    "VocabularyReport",
    "VocabularySettings",
    "categorize",
    "describe",
    "mine",
    "mine_merges",
    "mine_prefixes",
    "mine_spans",
]
