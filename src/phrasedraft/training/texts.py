"""The texts that training rows belong to, for heads that read them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from phrasedraft.drafters.text_reader import AHEAD, KEY_WIDTH, NUM_HEADS, TextReader, shares
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.traces import Trace

PARTS = 8
"""Into how many parts the rows of a text are dealt in an epoch."""


@dataclass(frozen=True)
class BatchText:
    """What each row of a batch may see of its own text: everything up to the token that the row produced.

    `text` and `place` say where a row stands.
    """

    keys: Float[Tensor, "text token head key"]
    entered: Float[Tensor, "text token width"]
    text: Int[Tensor, " row"]
    place: Int[Tensor, " row"]

    def of(self, rows: Bool[Tensor, " row"]) -> "BatchText":
        """The same for some of the rows."""
        return replace(self, text=self.text[rows], place=self.place[rows])

    def attend(
        self, reader: TextReader, queries: Float[Tensor, "row head key"]
    ) -> Float[Tensor, "row ahead head token"]:
        """What each row finds, the rows of one text together."""
        order = torch.argsort(self.text, stable=True)
        counts = torch.bincount(self.text, minlength=len(self.keys))
        starts = counts.cumsum(0) - counts
        slot = torch.empty_like(self.text)
        slot[order] = torch.arange(len(order)) - starts[self.text[order]]
        shape = (len(self.keys), int(counts.max()))
        asked = queries.new_zeros((*shape, *queries.shape[1:])).index_put((self.text, slot), queries)
        place = torch.zeros(shape, dtype=torch.long).index_put((self.text, slot), self.place)
        back = place[:, :, None] - torch.arange(self.keys.shape[1])
        visible = (back > 0) & (back <= reader.window)
        scores = torch.einsum("nrhk,nthk->nhrt", asked, self.keys) * KEY_WIDTH**-0.5
        bias = reader.distance[:, reader.distance_class[back.clamp(0, reader.window)]].transpose(0, 1)
        weights = shares((scores + bias).masked_fill(~visible[:, None], float("-inf")))
        found = []
        for ahead in range(AHEAD):
            after = self.entered[:, ahead + 1 :]
            known = (weights * (back > ahead)[:, None])[..., : after.shape[1]]
            found.append((known.flatten(1, 2) @ after).unflatten(1, known.shape[1:3]))
        return torch.stack(found, dim=2)[self.text, :, :, slot].transpose(1, 2)


@dataclass(frozen=True)
class Texts:
    """The tokens of prompt and answer for each trace, and the text and place of each row."""

    tokens: Int[Tensor, " token"]
    starts: Int[Tensor, " text"]
    ends: Int[Tensor, " text"]
    first_rows: Int[Tensor, " text"]
    first_places: Int[Tensor, " text"]
    num_rows: int

    @classmethod
    def of(cls, traces: Sequence[Trace], window: int) -> "Texts":
        """The texts of `traces` that have a row, which is one a token but the last; of prompts what can be seen."""
        texts, places, rows = [], [], []
        for trace in traces:
            if len(trace.tokens) < 2:
                continue
            prompt = trace.answer.prompt[-window - 1 :]
            texts.append([*prompt, *trace.tokens[:-1]])
            places.append(len(prompt))
            rows.append(len(trace.tokens) - 1)
        ends = torch.tensor([len(text) for text in texts]).cumsum(0)
        return cls(
            tokens=torch.tensor([token for text in texts for token in text], dtype=torch.int32),
            starts=ends - torch.tensor([len(text) for text in texts]),
            ends=ends,
            first_rows=torch.tensor(rows).cumsum(0) - torch.tensor(rows),
            first_places=torch.tensor(places),
            num_rows=sum(rows),
        )

    def view(self, rows: Int[Tensor, " row"], reader: TextReader, embedding: EmbeddingTable) -> BatchText:
        """What `rows` may see."""
        text = torch.searchsorted(self.first_rows, rows, right=True) - 1
        wanted, which = torch.unique(text, return_inverse=True)
        place = rows - self.first_rows[text] + self.first_places[text]
        tokens = pad_sequence(
            [self.tokens[self.starts[each] : self.ends[each]] for each in wanted.tolist()],
            batch_first=True,
            padding_value=-1,
        )
        tokens = torch.where(tokens < 0, self.tokens[0], tokens)  # padding is seen by none
        known, ids = torch.unique(tokens, return_inverse=True)
        entered = reader.tokens(embedding(known.long()))
        keys = reader.own_key(entered)[ids]
        keys = keys + F.pad(reader.before_key(entered)[ids[:, :-1]], (0, 0, 1, 0))
        return BatchText(keys=keys.unflatten(-1, (NUM_HEADS, KEY_WIDTH)), entered=entered[ids], text=which, place=place)


def text_batches(texts: Texts, batch_size: int, generator: torch.Generator) -> Iterator[Int[Tensor, " batch"]]:
    """The rows of one epoch as batches, each in rising order; what is left of the last waits for the next epoch.

    A text's rows are dealt into `PARTS` at random, and parts come in random order: each text of a batch is read once
    for a good many of its rows, and a batch has rows of many texts.
    """
    counts = torch.diff(torch.cat([texts.first_rows, torch.tensor([texts.num_rows])]))
    row_text = torch.repeat_interleave(torch.arange(len(counts)), counts)
    dealt = row_text * PARTS + torch.randint(PARTS, (texts.num_rows,), generator=generator)
    place = torch.randperm(len(counts) * PARTS, generator=generator)
    rows = place[dealt].argsort(stable=True)
    size = min(batch_size, texts.num_rows)
    for batch in rows[: len(rows) // size * size].view(-1, size):
        yield batch.sort().values
