"""The texts that training rows belong to, for heads that read them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from phrasedraft.drafters.text_reader import AHEAD, KEY_WIDTH, NUM_HEADS, TextReader, match, shares
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.traces import Trace

PARTS = 8
"""Into how many parts the rows of a text are dealt in an epoch."""


@dataclass(frozen=True)
class BatchText:
    """What each row of a batch may see of its own text: everything up to the token that the row produced.

    `keys` and `entered` hold one text after the other, of `lengths` tokens; `text` and `place` say where a row stands.
    """

    keys: Float[Tensor, "token head key"]
    entered: Float[Tensor, "token width"]
    lengths: list[int]
    text: Int[Tensor, " row"]
    place: Int[Tensor, " row"]

    def of(self, rows: Bool[Tensor, " row"]) -> "BatchText":
        """The same for some of the rows."""
        return replace(self, text=self.text[rows], place=self.place[rows])

    def attend(
        self, reader: TextReader, queries: Float[Tensor, "row head key"]
    ) -> Float[Tensor, "row ahead head token"]:
        """What each row finds, text by text."""
        order = torch.argsort(self.text, stable=True)
        counts = torch.bincount(self.text, minlength=len(self.lengths)).tolist()
        found = [
            _find(reader, asked, place, keys, entered)
            for asked, place, keys, entered in zip(
                torch.split(queries[order], counts),
                torch.split(self.place[order], counts),
                torch.split(self.keys, self.lengths),
                torch.split(self.entered, self.lengths),
                strict=True,
            )
            if len(asked)
        ]
        return torch.cat(found)[torch.argsort(order)]


def _find(
    reader: TextReader,
    asked: Float[Tensor, "row head key"],
    place: Int[Tensor, " row"],
    keys: Float[Tensor, "token head key"],
    entered: Float[Tensor, "token width"],
) -> Float[Tensor, "row ahead head width"]:
    """What some rows of one text find, each up to its own place."""
    back = place[:, None] - torch.arange(len(keys))
    scores = match(asked, keys) + reader.bias(back.clamp(0, reader.window))
    weights = shares(scores.masked_fill((back <= 0) | (back > reader.window), float("-inf")))
    found = []
    for ahead in range(AHEAD):
        after = entered[ahead + 1 :]
        if ahead:
            weights = weights.masked_fill(back == ahead, 0.0)  # what comes after is not known there
        found.append(weights[..., : len(after)] @ after)
    return torch.stack(found).permute(2, 0, 1, 3)


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
            if len(trace.tokens) < 2:  # no row, and nothing to learn
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
        starts, ends = self.starts[wanted].tolist(), self.ends[wanted].tolist()
        tokens = torch.cat([self.tokens[start:end] for start, end in zip(starts, ends, strict=True)])
        known, ids = torch.unique(tokens, return_inverse=True)
        entered = reader.tokens(embedding(known.long()))
        lengths = [end - start for start, end in zip(starts, ends, strict=True)]
        goes_on = torch.ones(len(ids), 1)
        goes_on[torch.tensor([0, *accumulate(lengths[:-1])])] = 0  # nothing is before a text's first token
        keys = reader.own_key(entered)[ids] + reader.before_key(entered)[ids.roll(1)] * goes_on
        return BatchText(
            keys=keys.unflatten(-1, (NUM_HEADS, KEY_WIDTH)),
            entered=entered[ids],
            lengths=lengths,
            text=which,
            place=rows - self.first_rows[text] + self.first_places[text],
        )

    def shuffle(self, rows: Int[Tensor, " row"], generator: torch.Generator) -> Int[Tensor, " row"]:
        """The same rows in random order, `PARTS` groups of each text, so that many are read for one look at a text.

        Whole texts would make batches of few texts, which learn far more slowly; single rows make batches of nearly as
        many texts as rows, each of which has to be looked at.
        """
        text = torch.searchsorted(self.first_rows, rows, right=True) - 1
        dealt = text * PARTS + torch.randint(PARTS, (len(rows),), generator=generator)
        place = torch.randperm(len(self.first_rows) * PARTS, generator=generator)
        return rows[place[dealt].argsort(stable=True)]
