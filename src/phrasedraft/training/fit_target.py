"""What training needs of a target."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from phrasedraft.phrases import Tokenizer
from phrasedraft.training.traces import FeatureSource


@runtime_checkable
class FitTarget(FeatureSource, Protocol):
    """What `fit` needs of the target."""

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Every token that ends a text."""
        ...

    @property
    def tokenizer(self) -> Tokenizer | None:
        """How it spells."""
        ...

    def embed(self, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token hidden"]:
        """Its input embedding of `tokens`."""
        ...
