"""Training examples: for each row of a trace, the phrases its continuation begins with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from phrasedraft.drafters.text_reader import TextReader
from phrasedraft.errors import DataError
from phrasedraft.phrases.matching import PhraseMatcher
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.rows import Piece, TraceRows
from phrasedraft.training.texts import BatchText, Texts
from phrasedraft.training.traces import Trace


@dataclass(frozen=True)
class Examples:
    """One row per draft that could be made: the target's state, the token it chose, and the longest phrase after it.

    The states stay on disk until a batch asks for them. `open_ended` marks rows whose phrase reaches the last known
    token, so that a longer one may have been right. `texts` are there for heads that read them.
    """

    hidden: TraceRows
    tokens: Int[Tensor, " row"]
    longest: Int[Tensor, " row"]
    open_ended: Bool[Tensor, " row"]
    texts: Texts | None

    def __len__(self) -> int:
        return len(self.tokens)

    def view(
        self, rows: Int[Tensor, " taken"], reader: TextReader | None, embedding: EmbeddingTable
    ) -> BatchText | None:
        """What `rows` may see of their texts; None where nothing reads them."""
        if reader is None or self.texts is None:
            return None
        return self.texts.view(rows, reader, embedding)


def make_examples(
    traces: Sequence[Trace], vocabulary: PhraseVocabulary, eos_token_ids: frozenset[int], text_window: int = 0
) -> Examples:
    """The examples of `traces`: row i holds the state that produced token i, its label starts at token i + 1.

    A head that sees `text_window` tokens back needs the texts; 0 is for one that does not read.
    """
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
        texts=Texts.of(traces, text_window) if text_window else None,
    )
