"""Training examples of a token chain: for each row of a trace, the entries of the next tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.examples import Examples, make_examples
from phrasedraft.training.traces import Trace

OUTSIDE = -1
"""The next token is none of the entries, or the text is over: a chain has to stop here."""
UNKNOWN = -2
"""Nothing says how it goes on: the answer was cut here, or the chain has stopped before."""


@dataclass(frozen=True)
class ChainExamples(Examples):
    """One row per draft that could be made, with the entry of each of the next tokens, `OUTSIDE` or `UNKNOWN`.

    What follows an `OUTSIDE` is `UNKNOWN`.
    """

    following: Int[Tensor, "row step"]


def make_chain_examples(
    traces: Sequence[Trace],
    vocabulary: PhraseVocabulary,
    eos_token_ids: frozenset[int],
    num_steps: int,
    text_window: int = 0,
) -> ChainExamples:
    """The examples of `traces`: row i holds the state that produced token i, its first step is token i + 1."""
    examples = make_examples(traces, vocabulary, eos_token_ids, text_window)
    size = 1 + max(max(trace.tokens) for trace in traces)
    entry_of = np.full(max(size, int(vocabulary.phrase_tokens.max(initial=0)) + 1), OUTSIDE, dtype=np.int64)
    entry_of[vocabulary.phrase_tokens[:, 0]] = np.arange(len(vocabulary))
    rows = [
        _following(entry_of[list(trace.tokens)], trace.tokens[-1] in eos_token_ids, num_steps)
        for trace in traces
        if len(trace.tokens) > 1
    ]
    return ChainExamples(**vars(examples), following=torch.from_numpy(np.concatenate(rows)))


def _following(entries: Int64[np.ndarray, " token"], is_over: bool, num_steps: int) -> Int64[np.ndarray, "row step"]:
    """For each token of an answer but the last, the entries of the tokens after it."""
    end = [OUTSIDE if is_over else UNKNOWN, *[UNKNOWN] * num_steps]
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([entries[1:], end]), num_steps)[
        : len(entries) - 1
    ]
    has_stopped = np.cumsum(windows < 0, axis=1) - (windows < 0) > 0
    return np.where(has_stopped, UNKNOWN, windows)
