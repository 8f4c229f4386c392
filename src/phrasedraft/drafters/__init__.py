"""Drafters: what proposes draft trees."""

from phrasedraft.drafters.head import Head
from phrasedraft.drafters.loading import load_drafter, load_head, shipped_heads
from phrasedraft.drafters.merged import MergedDrafter, head_of, merge_drafters
from phrasedraft.drafters.phrase_chain import PhraseChain
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.protocol import DraftBudget, Drafter, Observer
from phrasedraft.drafters.token_chain import TokenChain

__all__ = [
    "DraftBudget",
    "Drafter",
    "Head",
    "MergedDrafter",
    "Observer",
    "PhraseChain",
    "PhraseHead",
    "TokenChain",
    "head_of",
    "load_drafter",
    "load_head",
    "merge_drafters",
    "shipped_heads",
]
