"""Hidden states that stay where they are: a batch's rows are read when the batch is made.

A trace file is mapped into memory by safetensors, so its rows cost address space until they are read, and what was read
is the operating system's to drop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Chosen columns of one table of rows, most often of one trace file: `blocks` are views that lie side by side."""

    blocks: tuple[Float[Tensor, "row _"], ...]

    @classmethod
    def of_layers(
        cls, table: Float[Tensor, "row recorded"], recorded: Sequence[int], layers: Sequence[int]
    ) -> "StoredRows":
        """The columns of `layers` in a table whose columns are those of the `recorded` layers, without a copy."""
        width = table.shape[1] // len(recorded)
        places = [recorded.index(layer) for layer in layers]
        breaks = [0, *(i for i in range(1, len(places)) if places[i] != places[i - 1] + 1), len(places)]
        runs = [places[start:end] for start, end in pairwise(breaks)]
        return cls(tuple(table[:, run[0] * width : (run[-1] + 1) * width] for run in runs))

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return sum(block.shape[1] for block in self.blocks)

    def cut(self, first: int, end: int) -> Float[Tensor, "cut feature"]:
        """The rows from `first` to before `end`; a view where the columns lie together."""
        return _side_by_side([block[first:end] for block in self.blocks])

    def take(self, rows: Int[Tensor, " taken"]) -> Float[Tensor, "taken feature"]:
        """A copy of some rows, in the order asked for."""
        return _side_by_side([block.index_select(0, rows) for block in self.blocks])


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Rows `first` to before `first + num_rows` of one source."""

    source: StoredRows
    first: int
    num_rows: int


class TraceRows:
    """The rows of many pieces as one table: `rows[indices]` and `rows[from:to]` copy those rows and no others.

    Give rising indices, as `epoch_batches` does, and each file is read once, forwards.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._sources = list({id(piece.source): piece.source for piece in pieces}.values())
        number = {id(source): index for index, source in enumerate(self._sources)}
        self._source = torch.tensor([number[id(piece.source)] for piece in pieces], dtype=torch.long)
        ends = torch.tensor([0, *(piece.num_rows for piece in pieces)]).cumsum(0)
        self._starts, self._length = ends[:-1].contiguous(), int(ends[-1])
        self._shift = torch.tensor([piece.first for piece in pieces], dtype=torch.long) - self._starts

    def __len__(self) -> int:
        return self._length

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and of numbers in one."""
        return self._length, self._sources[0].width

    def spans(self) -> list[tuple[int, int]]:
        """Where the rows of each source begin and end, in order."""
        first = torch.ones_like(self._source, dtype=torch.bool)
        first[1:] = self._source[1:] != self._source[:-1]
        return list(pairwise([*self._starts[first].tolist(), self._length]))

    def __getitem__(self, rows: Int[Tensor, " taken"] | slice) -> Float[Tensor, "taken feature"]:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self._length)
            rows = torch.arange(start, max(start, stop), step)
        piece = torch.searchsorted(self._starts, rows, right=True) - 1
        source, places = self._source[piece], rows + self._shift[piece]
        order = None
        if not bool((source[1:] >= source[:-1]).all()):
            order = source.argsort(stable=True)
            source, places = source[order], places[order]
        numbers, counts = torch.unique_consecutive(source, return_counts=True)
        parts = torch.split(places, counts.tolist())
        taken = [self._sources[number].take(part) for number, part in zip(numbers.tolist(), parts, strict=True)]
        if not taken:
            return self._sources[0].take(rows)
        gathered = taken[0] if len(taken) == 1 else torch.cat(taken)
        if order is None:
            return gathered
        found = torch.empty_like(gathered)
        found[order] = gathered
        return found
