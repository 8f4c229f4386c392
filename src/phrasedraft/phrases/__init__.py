"""Phrases: short sequences of the target's tokens, mined, matched, expanded and inspected."""

from phrasedraft.phrases.inspection import PhraseCategory, VocabularyReport, categorize, describe
from phrasedraft.phrases.matching import PhraseMatcher
from phrasedraft.phrases.mining import MiningSettings, mine_phrases
from phrasedraft.phrases.pieces import Edge, TokenKind, TokenPieces
from phrasedraft.phrases.prefix_mining import PrefixMiningSettings, mine_prefixes
from phrasedraft.phrases.spelling import Speller, Tokenizer
from phrasedraft.phrases.trie import PhraseTrie
from phrasedraft.phrases.vocabulary import PhraseVocabulary, SpelledPhrases, Spelling

__all__ = [
    "Edge",
    "MiningSettings",
    "PhraseCategory",
    "PhraseMatcher",
    "PhraseTrie",
    "PhraseVocabulary",
    "PrefixMiningSettings",
    "SpelledPhrases",
    "Speller",
    "Spelling",
    "TokenKind",
    "TokenPieces",
    "Tokenizer",
    "VocabularyReport",
    "categorize",
    "describe",
    "mine_phrases",
    "mine_prefixes",
]
