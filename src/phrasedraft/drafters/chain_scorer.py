"""The weights of the token chain: the phrase head's trunk and rows, and a cell that goes on from a chosen token."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from phrasedraft.drafters.composed_output import ComposedOutput
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.quick_rows import QuickRows
from phrasedraft.drafters.text_reader import Text, TextReader


class ChainScorer(PhraseScorer):
    """Scores every entry, a single token each, for the next position and, step by step, for the positions after it.

    The first state is the phrase head's trunk. A GRU of the same width reads the output row of the token that was
    chosen, so the rows serve both ways and there is no second table: 395,776 parameters more than the phrase head with
    a trunk of 256.
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
        super().__init__(
            feature_size=feature_size,
            hidden_size=hidden_size,
            num_phrases=num_phrases,
            trunk_width=trunk_width,
            dropout=dropout,
            output=output,
            reader=reader,
        )
        self.row_norm = nn.LayerNorm(trunk_width)  # rows are small, and of many lengths
        self.cell = nn.GRUCell(trunk_width, trunk_width)
        self.step_norm = nn.LayerNorm(trunk_width)
        self._quick = QuickRows()

    def advance(
        self, states: Float[Tensor, "batch trunk"], entries: Int[Tensor, " batch"], text: Text | None = None
    ) -> Float[Tensor, "batch trunk"]:
        """The state after each entry was chosen, to be compared with the output rows like the first.

        It sees the text that the first state saw.
        """
        rows = self.row_norm(F.embedding(entries, self.output.weight))
        following: Tensor = self.dropout(self.step_norm(self.cell(rows, states)))
        return self.read(following, text)

    @torch.no_grad()
    def scores(self, states: Float[Tensor, "batch trunk"]) -> Float[Tensor, "batch phrase"]:
        """One score an entry, to draft with."""
        return self._quick.scores(self.output, states)

    @torch.no_grad()
    def probabilities(
        self, states: Float[Tensor, "batch trunk"], temperature: float = 1.0
    ) -> Float[Tensor, "batch phrase"]:
        """The probability of each entry; the rest to 1 is a token outside the entries."""
        scores: Tensor = self.scores(states) / temperature
        return F.pad(scores, (0, 1)).softmax(dim=-1)[:, :-1]
