"""Which of the target's hidden states a drafter reads, and in which order."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class FeatureSpec:
    """The layers whose hidden states a drafter reads, concatenated in this order into one row a token.

    Layers count as transformers' `hidden_states` does: 0 is the embedding, `num_layers` the output of the last layer
    *after the final norm*, and negative numbers count from there, so -1 is what the language-model head reads.
    An empty `layers` asks for nothing: the rows have width 0.
    """

    layers: tuple[int, ...] = (-1,)

    def select(self, hidden_states: tuple[Float[Tensor, "batch seq hidden"], ...]) -> Float[Tensor, "seq feature"]:
        """The rows of the first sequence, `len(layers) * hidden` wide."""
        if not self.layers:
            return hidden_states[0].new_empty((hidden_states[0].shape[1], 0))
        for layer in self.layers:
            if not -len(hidden_states) <= layer < len(hidden_states):
                raise OptionError(
                    f"the drafter reads layer `{layer}`, the target has hidden states 0 to {len(hidden_states) - 1}",
                    hint="load the target the drafter was trained for",
                )
        device = hidden_states[-1].device  # layers may be spread over several
        return torch.cat([hidden_states[layer][0].to(device) for layer in self.layers], dim=-1)
