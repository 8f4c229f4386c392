"""Phrase-level speculative decoding: a frozen model answers faster, and says exactly what it would have said."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from phrasedraft.errors import PhraseDraftError

if TYPE_CHECKING:
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
    from phrasedraft.drafters import DraftBudget, Drafter, PhraseHead, load_drafter, load_head
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
    "load_drafter",
    "load_head",
    "load_target",
]

_HOMES = {
    "choice": ("GREEDY", "Choice"),
    "decoding": ("Decoder", "DecodingStats", "FinishReason", "Generation", "Piece", "Session", "Stopping", "Stream"),
    "drafters": ("DraftBudget", "Drafter", "PhraseHead", "load_drafter", "load_head"),
    "target": ("EMBEDDED_NAME", "FeatureSpec", "Support", "TransformersTarget", "load_target"),
}


def __getattr__(name: str) -> Any:  # so that `phrasedraft --help` need not wait for torch
    """An exported name, imported when it is first asked for."""
    for module, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"phrasedraft.{module}"), name)
            return value
    raise AttributeError(f"module `phrasedraft` has no attribute `{name}`")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
