"""The order in which an epoch goes through its rows: at random, yet near to each other on disk."""

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

Span = tuple[int, int]
"""The first row, and the one after the last."""


Shuffle = Callable[[Int[Tensor, " row"], torch.Generator], Int[Tensor, " row"]]
"""Puts rows into random order."""


def row_by_row(rows: Int[Tensor, " row"], generator: torch.Generator) -> Int[Tensor, " row"]:
    """Every order is as likely as any other."""
    return rows[torch.randperm(len(rows), generator=generator)]


def epoch_batches(
    spans: Sequence[Span],
    batch_size: int,
    window_rows: int,
    generator: torch.Generator,
    shuffle: Shuffle = row_by_row,
) -> Iterator[Int[Tensor, " batch"]]:
    """The rows of one epoch as batches, each in rising order; what is left of the last batch waits for the next epoch.

    `spans` are the rows of one file each, one after the other. Files come in random order and are grouped into windows
    of at most `window_rows` rows, the rows of a window are shuffled: so few files are read from at a time. Where
    everything fits one window, this is a plain shuffle.
    """
    size = min(batch_size, sum(end - start for start, end in spans))
    left = torch.empty(0, dtype=torch.long)
    for window in _windows(spans, window_rows, generator):
        rows = torch.cat([torch.arange(start, end) for start, end in window])
        rows = torch.cat([left, shuffle(rows, generator)])
        num_whole = len(rows) // size * size
        for batch in rows[:num_whole].view(-1, size):
            yield batch.sort().values
        left = rows[num_whole:]


def _windows(spans: Sequence[Span], window_rows: int, generator: torch.Generator) -> Iterator[list[Span]]:
    """The spans in random order, as many together as fit; those that are too long alone are cut."""
    if sum(end - start for start, end in spans) <= window_rows:
        yield list(spans)
        return
    cut = [(at, min(at + window_rows, end)) for start, end in spans for at in range(start, end, window_rows)]
    window: list[Span] = []
    num_rows = 0
    for index in torch.randperm(len(cut), generator=generator).tolist():
        start, end = cut[index]
        if window and num_rows + end - start > window_rows:
            yield window
            window, num_rows = [], 0
        window.append(cut[index])
        num_rows += end - start
    yield window
