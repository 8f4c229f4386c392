"""The target's embeddings of the tokens a training run meets."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from phrasedraft.drafters.protocol import Embed


@dataclass(frozen=True)
class EmbeddingTable:
    """The target's embedding of the tokens that occur, asked for once."""

    rows: Float[Tensor, "known hidden"]
    index: Int[Tensor, " vocab"]

    @classmethod
    def of(cls, tokens: Int[Tensor, " row"], embed: Embed) -> "EmbeddingTable":
        """The table of every token in `tokens`."""
        known = torch.unique(tokens)
        index = torch.full((int(known.max()) + 1,), -1, dtype=torch.long)
        index[known] = torch.arange(len(known))
        return cls(embed(known).detach().to("cpu", torch.float32), index)

    def __call__(self, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token hidden"]:
        """The embedding of tokens the table knows; `IndexError` for others."""
        places = self.index[tokens]
        if len(places) and int(places.min()) < 0:
            raise IndexError(f"token {int(tokens[places.argmin()])} has no row in this table of embeddings")
        return self.rows[places]
