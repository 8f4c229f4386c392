"""Phrases: short sequences of the target's tokens, mined, matched, expanded and inspected."""

from phrasedraft.phrases.matching import PhraseMatcher
from phrasedraft.phrases.mining import MiningSettings, mine_phrases
from phrasedraft.phrases.pieces import Edge, TokenKind, TokenPieces
from phrasedraft.phrases.spelling import Speller, Tokenizer
from phrasedraft.phrases.trie import PhraseTrie
from phrasedraft.phrases.vocabulary import PhraseVocabulary, SpelledPhrases, SpellingMismatch

__all__ = [
    "Edge",
    "MiningSettings",
    "PhraseMatcher",
    "PhraseTrie",
    "PhraseVocabulary",
    "SpelledPhrases",
    "Speller",
    "SpellingMismatch",
    "TokenKind",
    "TokenPieces",
    "Tokenizer",
    "mine_phrases",
]
