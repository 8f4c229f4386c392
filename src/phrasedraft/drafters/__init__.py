"""Drafters: what proposes draft trees."""

from phrasedraft.drafters.loading import load_drafter, load_head, shipped_heads
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.protocol import DraftBudget, Drafter, Observer

__all__ = ["DraftBudget", "Drafter", "Observer", "PhraseHead", "load_drafter", "load_head", "shipped_heads"]
