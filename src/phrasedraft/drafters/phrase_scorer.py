"""The weights of a phrase head: a small trunk, and a row for each entry."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from phrasedraft.drafters.composed_output import ComposedOutput
from phrasedraft.drafters.protocol import Embed
from phrasedraft.drafters.text_reader import Text, TextReader


class PhraseScorer(nn.Module):
    """Scores every phrase from the target's hidden state and the embedding of the token it has just chosen.

    Two layers of `trunk_width`, then one row and one bias a phrase: 3,433,792 parameters for 8,000 phrases at hidden
    size 2560. Another `output` may stand in for the rows, and a `reader` sees the text so far.
    """

    def __init__(
        self,
        *,
        feature_size: int,
        hidden_size: int,
        num_phrases: int,
        trunk_width: int = 256,
        dropout: float = 0.0,
        output: ComposedOutput | None = None,
        reader: TextReader | None = None,
    ) -> None:
        super().__init__()
        self.enter = nn.Linear(feature_size + hidden_size, trunk_width)
        self.enter_norm = nn.LayerNorm(trunk_width)
        self.mix = nn.Linear(trunk_width, trunk_width)
        self.mix_norm = nn.LayerNorm(trunk_width)
        self.dropout = nn.Dropout(dropout)  # in training only
        self.output = nn.Linear(trunk_width, num_phrases) if output is None else output
        self.reader = reader

    def see(self, embed: Embed) -> None:
        """Let rows that are composed of the target's embeddings read them, once a target; others need none."""
        if isinstance(self.output, ComposedOutput):
            self.output.attach_once(embed)

    @torch.no_grad()
    def shrink_rows(self, factor: float) -> None:
        """Make all output rows smaller."""
        if isinstance(self.output, ComposedOutput):
            self.output.shrink(factor)
        else:
            self.output.weight.mul_(factor)

    def trunk(
        self,
        hidden: Float[Tensor, "batch feature"],
        embedding: Float[Tensor, "batch hidden"],
        text: Text | None = None,
    ) -> Float[Tensor, "batch trunk"]:
        """What the output rows are compared with. Inputs of any precision are cast to the weights'.

        `text` is what each row may see, for a head that reads.
        """
        weight = self.enter.weight
        if self.training and isinstance(self.output, ComposedOutput):
            self.output.refresh()  # rows belong to the graph of one step
        x = torch.cat([hidden.to(weight), embedding.to(weight)], dim=-1)
        x = self.dropout(F.silu(self.enter_norm(self.enter(x))))
        mixed: Tensor = self.dropout(self.mix_norm(x + F.silu(self.mix(x))))
        return self.read(mixed, text)

    def read(self, states: Float[Tensor, "batch trunk"], text: Text | None) -> Float[Tensor, "batch trunk"]:
        """The states with what they find in the text; as they are for a head that does not read.

        One that reads finds nothing where no text is given.
        """
        if self.reader is None:
            return states
        found: Tensor = self.dropout(self.reader(states, text))
        return found

    @property
    def last_norm(self) -> nn.LayerNorm:
        """What every first state comes out of."""
        return self.mix_norm if self.reader is None else self.reader.leave_norm

    def forward(
        self,
        hidden: Float[Tensor, "batch feature"],
        embedding: Float[Tensor, "batch hidden"],
        text: Text | None = None,
    ) -> Float[Tensor, "batch phrase"]:
        """One score a phrase; `PrefixSoftmax` turns them into probabilities."""
        scores: Tensor = self.output(self.trunk(hidden, embedding, text))
        return scores
