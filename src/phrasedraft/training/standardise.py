"""Scaling of the head's inputs: learnt from the data, folded into the first layer afterwards."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.phrase_head import PhraseScorer
from phrasedraft.training.examples import EmbeddingTable, Examples

SAMPLED_ROWS = 50_000


@dataclass(frozen=True)
class Standardiser:
    """Brings each input to mean 0 and deviation 1; hidden states come first, then the embedding."""

    mean: Float[Tensor, " input"]
    deviation: Float[Tensor, " input"]

    @classmethod
    def of(cls, examples: Examples, embedding: EmbeddingTable) -> "Standardiser":
        """The scaling of evenly spaced examples. Inputs that do not vary become 0."""
        step = max(len(examples) // SAMPLED_ROWS, 1)
        inputs = torch.cat([examples.hidden[::step].float(), embedding(examples.tokens[::step])], dim=-1)
        deviation, mean = torch.std_mean(inputs, dim=0, correction=0)
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
