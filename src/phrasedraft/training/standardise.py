"""Scaling of the head's inputs: learnt from the data, folded into the first layer afterwards."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import Examples

SAMPLED_ROWS = 50_000
ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class Standardiser:
    """Brings each input to mean 0 and deviation 1; hidden states come first, then the embedding."""

    mean: Float[Tensor, " input"]
    deviation: Float[Tensor, " input"]

    @classmethod
    def of(cls, examples: Examples, embedding: EmbeddingTable) -> "Standardiser":
        """The scaling of evenly spaced examples. Inputs that do not vary become 0."""
        rows = torch.arange(0, len(examples), max(len(examples) // SAMPLED_ROWS, 1))
        shift, sums, squares = None, torch.zeros(()), torch.zeros(())
        for batch in torch.split(rows, ROWS_AT_ONCE):
            inputs = torch.cat([examples.hidden[batch].float(), embedding(examples.tokens[batch])], dim=-1).double()
            shift = inputs[0] if shift is None else shift  # so that an input that does not vary has deviation 0 exactly
            sums, squares = sums + (inputs - shift).sum(dim=0), squares + (inputs - shift).square().sum(dim=0)
        sums, squares = sums / len(rows), squares / len(rows)
        deviation = (squares - sums.square()).clamp(min=0).sqrt().float()
        mean = (sums if shift is None else sums + shift).float()
        return cls(mean, torch.where(deviation > 1e-6, deviation, 1.0))

    def __call__(
        self, hidden: Float[Tensor, "batch feature"], embedding: Float[Tensor, "batch hidden"]
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch hidden"]]:
        """Both inputs, standardised."""
        width = hidden.shape[1]
        scaled = (torch.cat([hidden.float(), embedding], dim=-1) - self.mean) / self.deviation
        return scaled[:, :width], scaled[:, width:]

    @torch.no_grad()
    def fold_into(self, scorer: PhraseScorer) -> PhraseScorer:
        """The same `scorer`, changed so that it takes inputs as they come."""
        weight = scorer.enter.weight / self.deviation
        scorer.enter.bias.sub_(weight @ self.mean)
        scorer.enter.weight.copy_(weight)
        return scorer
