"""Training examples: for each row of a trace, the phrases its continuation begins with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from phrasedraft.drafters.protocol import Embed
from phrasedraft.errors import DataError
from phrasedraft.phrases.matching import PhraseMatcher
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.rows import Piece, TraceRows
from phrasedraft.training.traces import Trace


@dataclass(frozen=True)
class Examples:
    """One row per draft that could be made: the target's state, the token it chose, and the longest phrase after it.

    The states stay on disk until a batch asks for them. `open_ended` marks rows whose phrase reaches the last known
    token, so that a longer one may have been right.
    """

    hidden: TraceRows
    tokens: Int[Tensor, " row"]
    longest: Int[Tensor, " row"]
    open_ended: Bool[Tensor, " row"]

    def __len__(self) -> int:
        return len(self.tokens)


def make_examples(traces: Sequence[Trace], vocabulary: PhraseVocabulary, eos_token_ids: frozenset[int]) -> Examples:
    """The examples of `traces`: row i holds the state that produced token i, its label starts at token i + 1."""
    tokens = np.concatenate([np.asarray(trace.tokens, dtype=np.int64) for trace in traces])
    ends = np.cumsum([len(trace.tokens) for trace in traces])
    longest = PhraseMatcher(vocabulary).longest_at_each(tokens, np.concatenate([[0], ends]))
    lengths = np.where(longest >= 0, vocabulary.lengths[longest] if len(vocabulary) else 0, 0)
    end_of = np.repeat(ends, np.diff(ends, prepend=0))
    goes_on = ~np.isin(tokens[end_of - 1], list(eos_token_ids))
    open_ended = (np.arange(len(tokens)) + lengths >= end_of) & goes_on
    rows = np.flatnonzero(np.arange(len(tokens)) + 1 < end_of)
    if not len(rows):
        raise DataError(
            "the corpus has no two tokens in a row to learn from", hint="give answers longer than one token"
        )
    return Examples(
        hidden=TraceRows(
            [Piece(source=trace.source, first=trace.first, num_rows=len(trace.tokens) - 1) for trace in traces]
        ),
        tokens=torch.from_numpy(tokens[rows]),
        longest=torch.from_numpy(longest[rows + 1]),
        open_ended=torch.from_numpy(open_ended[rows + 1]),
    )


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
