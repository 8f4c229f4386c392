"""What every trained head has, whatever it drafts: weights, entries, a config, and a place on disk."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.phrases.vocabulary import PhraseVocabulary


@runtime_checkable
class Head(Drafter, Protocol):
    """A drafter trained for one target: `PhraseHead`, `TokenChain` or `PhraseChain`; `load_head` loads each."""

    vocabulary: PhraseVocabulary
    config: HeadConfig

    @property
    def scorer(self) -> PhraseScorer:
        """The weights."""
        ...

    @property
    def num_parameters(self) -> int:
        """How many weights the head has; the table of entries is not counted."""
        ...

    def save_pretrained(self, folder: str | Path, *, dtype: torch.dtype = torch.float16) -> None:
        """Write the head to `folder`, whole or not at all."""
        ...
