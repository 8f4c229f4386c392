"""Phrase-level speculative decoding: a frozen model answers faster, and says exactly what it would have said."""

from phrasedraft.choice import GREEDY, Choice
from phrasedraft.decoding import (
    Decoder,
    DecodingStats,
    FinishReason,
    Generation,
    Piece,
    Session,
    Stopping,
    Stream,
)
from phrasedraft.drafters import DraftBudget, Drafter, PhraseHead, load_head
from phrasedraft.errors import PhraseDraftError
from phrasedraft.target import EMBEDDED_NAME, FeatureSpec, Support, TransformersTarget, load_target

__version__ = "0.1.0"

__all__ = [
    "EMBEDDED_NAME",
    "GREEDY",
    "Choice",
    "Decoder",
    "DecodingStats",
    "DraftBudget",
    "Drafter",
    "FeatureSpec",
    "FinishReason",
    "Generation",
    "PhraseDraftError",
    "PhraseHead",
    "Piece",
    "Session",
    "Stopping",
    "Stream",
    "Support",
    "TransformersTarget",
    "load_head",
    "load_target",
]
