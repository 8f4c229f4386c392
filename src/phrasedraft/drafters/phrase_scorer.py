"""The weights of a phrase head: a small trunk, and a row for each entry."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class PhraseScorer(nn.Module):
    """Scores every phrase from the target's hidden state and the embedding of the token it has just chosen.

    Two layers of `trunk_width`, then one row and one bias a phrase: 3,433,792 parameters for 8,000 phrases at hidden
    size 2560.
    """

    def __init__(
        self, *, feature_size: int, hidden_size: int, num_phrases: int, trunk_width: int = 256, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.enter = nn.Linear(feature_size + hidden_size, trunk_width)
        self.enter_norm = nn.LayerNorm(trunk_width)
        self.mix = nn.Linear(trunk_width, trunk_width)
        self.mix_norm = nn.LayerNorm(trunk_width)
        self.dropout = nn.Dropout(dropout)  # in training only
        self.output = nn.Linear(trunk_width, num_phrases)

    def trunk(
        self, hidden: Float[Tensor, "batch feature"], embedding: Float[Tensor, "batch hidden"]
    ) -> Float[Tensor, "batch trunk"]:
        """What the output rows are compared with. Inputs of any precision are cast to the weights'."""
        weight = self.enter.weight
        x = torch.cat([hidden.to(weight), embedding.to(weight)], dim=-1)
        x = self.dropout(F.silu(self.enter_norm(self.enter(x))))
        mixed: Tensor = self.dropout(self.mix_norm(x + F.silu(self.mix(x))))
        return mixed

    def forward(
        self, hidden: Float[Tensor, "batch feature"], embedding: Float[Tensor, "batch hidden"]
    ) -> Float[Tensor, "batch phrase"]:
        """One score a phrase; `PrefixSoftmax` turns them into probabilities."""
        scores: Tensor = self.output(self.trunk(hidden, embedding))
        return scores
