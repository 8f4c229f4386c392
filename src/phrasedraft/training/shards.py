"""One trace file: the rows of some answers, with which layers they are of.

`hidden` fp16 [row, feature], `tokens` int32 [row], `offsets` int64 [answer + 1]; the answers' ids and the layers are in
the metadata. Row i of an answer is the state *before* token i was chosen.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from phrasedraft.corpus.answers import Answer
from phrasedraft.errors import DataError
from phrasedraft.training.rows import StoredRows

PATTERN = "shard-*.safetensors"
AGAIN = "delete the shard and run again; whole shards are kept"
ELSEWHERE = "collect into another folder (`--work`), or delete this one if its traces are of no more use"


@dataclass(frozen=True, eq=False)
class Shard:
    """A trace file that was opened: small things are read, `table` is mapped.

    `layers` is None for files from before they were recorded, which hold whatever they were made for.
    """

    path: Path
    tokens: dict[str, tuple[int, ...]]
    first: dict[str, int]
    table: Float[Tensor, "row recorded"]
    layers: tuple[int, ...] | None

    def rows(self, layers: Sequence[int]) -> StoredRows:
        """The columns of `layers`; `DataError` where one was not recorded."""
        if self.layers is None:
            return StoredRows((self.table,))
        if not layers or not set(layers) <= set(self.layers):
            raise DataError(
                f"`{self.path}` holds the hidden states of layers {list(self.layers)}, this run reads {list(layers)}",
                hint=ELSEWHERE,
            )
        return StoredRows.of_layers(self.table, self.layers, layers)


def shard_path(folder: Path, index: int) -> Path:
    """Where a shard lies."""
    return folder / f"shard-{index:05d}.safetensors"


def open_shard(path: Path) -> Shard:
    """The shard at `path`; `DataError` where it is not a whole one."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            ids, layers = json.loads(metadata["ids"]), json.loads(metadata.get("layers", "null"))
            hidden, tokens, offsets = (file.get_tensor(name) for name in ("hidden", "tokens", "offsets"))
        edges, known = offsets.tolist(), tokens.tolist()
        spans = dict(zip(ids, pairwise(edges), strict=True))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"`{path}` is not a whole trace shard: {error}", hint=AGAIN) from error
    return Shard(
        path=path,
        tokens={name: tuple(known[start:end]) for name, (start, end) in spans.items()},
        first={name: start for name, (start, _) in spans.items()},
        table=hidden,
        layers=None if layers is None else tuple(layers),
    )


def write_shard(
    path: Path, answers: Sequence[Answer], hidden: dict[str, Float[Tensor, "_ feature"]], layers: Sequence[int]
) -> None:
    """Write one shard in one step."""
    rows = torch.cat([hidden[answer.id] for answer in answers])
    if not torch.isfinite(rows).all():
        raise DataError(
            f"hidden states for `{path.name}` do not fit fp16 or are not finite",
            hint="the target may run in a precision it was not made for; load it in bf16 or fp32",
        )
    tensors = {
        "hidden": rows,
        "tokens": torch.tensor([token for answer in answers for token in answer.response], dtype=torch.int32),
        "offsets": torch.tensor([0, *(len(answer.response) for answer in answers)]).cumsum(0),
    }
    metadata = {"ids": json.dumps([answer.id for answer in answers]), "layers": json.dumps(list(layers))}
    temporary = path.with_suffix(".tmp")
    try:
        save_file(tensors, temporary, metadata=metadata)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"`{path}` cannot be written: {error}", hint="make room or give another folder; whole shards are kept"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def is_whole(path: Path, answers: Sequence[Answer], layers: Sequence[int]) -> bool:
    """Whether `path` holds the traces of `answers`, so that nothing has to be collected.

    A shard of other layers or other answers is refused, not written over: it may have cost hours. One that a corpus has
    outgrown since, or that is cut, is of no use.
    """
    if not path.exists():
        return False
    if _is_cut(path):
        return False
    shard = open_shard(path)
    shard.rows(layers)
    wanted = {answer.id: answer.response for answer in answers}
    if wanted.items() <= shard.tokens.items():
        return True
    if shard.tokens.items() <= wanted.items():
        return False
    raise DataError(f"`{path}` holds traces of other answers than the corpus", hint=ELSEWHERE)


def _is_cut(path: Path) -> bool:
    """Whether nothing can be read from a file; none of our own is ever left so."""
    try:
        with safe_open(path, framework="pt"):
            return False
    except SafetensorError:
        return True
    except OSError:
        return False
