"""Drafters: what proposes draft trees."""

from phrasedraft.drafters.loading import load_head, shipped_heads
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.protocol import DraftBudget, Drafter

__all__ = ["DraftBudget", "Drafter", "PhraseHead", "load_head", "shipped_heads"]
