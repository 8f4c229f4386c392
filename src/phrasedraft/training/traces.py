"""Traces: the target's hidden states at the rows that produced each token of its answers, kept on disk."""

import math
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor

from phrasedraft.corpus.answers import Answer
from phrasedraft.errors import DataError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.training.rows import StoredRows
from phrasedraft.training.shards import ELSEWHERE, PATTERN, is_whole, open_shard, shard_path, write_shard
from phrasedraft.whole_file import make_folder

ANSWERS_PER_SHARD = 128
MAX_DIFFERENCE = 0.05
"""How far hidden states of one target may lie apart in another precision or batch, relative to their norm."""


@runtime_checkable
class FeatureSource(Protocol):
    """A target whose hidden states can be read for whole texts at once."""

    @property
    def identity(self) -> TargetIdentity:
        """What it is known by."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the input belongs."""
        ...

    def hidden_rows(
        self, input_ids: Int[Tensor, "batch seq"], attention_mask: Int[Tensor, "batch seq"], features: FeatureSpec
    ) -> Float[Tensor, "batch seq feature"]:
        """The features of every position."""
        ...


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One answer, and where the rows that produced its tokens begin in `source`."""

    answer: Answer
    source: StoredRows
    first: int = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The answer's tokens, one a row."""
        return self.answer.response

    @property
    def hidden(self) -> Float[Tensor, "row feature"]:
        """The rows, not read before they are looked at where the layers lie together."""
        return self.source.cut(self.first, self.first + len(self.tokens))


def collect_traces(
    target: FeatureSource,
    answers: Sequence[Answer],
    features: FeatureSpec,
    folder: Path,
    *,
    batch_size: int = 8,
    console: Console | None = None,
) -> None:
    """Write the traces of `answers` to `folder`; whole shards of the same answers are kept, so a killed run resumes.

    A shard's batches depend on its own answers only, so a collection that was killed ends with the same bytes. Size and
    time are announced first; `DataError` where the disk is too small, or the folder holds other layers, other answers
    or another target's traces.
    """
    console = console or Console(stderr=True)
    make_folder(folder, "trace folder")
    shards = [answers[start : start + ANSWERS_PER_SHARD] for start in range(0, len(answers), ANSWERS_PER_SHARD)]
    whole = [is_whole(shard_path(folder, index), shard, features.layers) for index, shard in enumerate(shards)]
    missing = [index for index, there in enumerate(whole) if not there]
    if not missing:
        console.print(f"traces: {len(shards)} shards in {folder} are whole and are used again", soft_wrap=True)
        return
    if any(whole):
        kept = shards[whole.index(True)]
        check_traces(target, read_traces(folder, kept, features.layers), features)
    for leftover in folder.glob("shard-*.tmp"):
        leftover.unlink()
    _announce(target, [shards[index] for index in missing], features, folder, batch_size, console, len(shards))
    columns = (TextColumn("traces"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        total = sum(len(answer.response) for index in missing for answer in shards[index])
        task = progress.add_task("traces", total=total, rate="")
        for index in missing:
            rows = {}
            for answer, hidden in _rows(target, shards[index], features, batch_size):
                rows[answer.id] = hidden
                progress.advance(task, len(hidden))
                progress.update(task, rate=f"{progress.tasks[task].speed or 0:,.0f} tokens/s")
            write_shard(shard_path(folder, index), shards[index], rows, features.layers)


def _announce(
    target: FeatureSource,
    shards: Sequence[Sequence[Answer]],
    features: FeatureSpec,
    folder: Path,
    batch_size: int,
    console: Console,
    num_shards: int,
) -> None:
    """Say how much disk and time the missing shards will take; `DataError` where the disk is too small."""
    ordered = _batches(shards[0], batch_size)
    batch = ordered[len(ordered) // 2]
    start = time.perf_counter()
    hidden = target.hidden_rows(*_padded(batch, target.device), features)
    hidden[:, :, :1].cpu()  # a GPU has not done the work before it is asked for something
    seconds = time.perf_counter() - start
    width = hidden.shape[-1]
    answers = [answer for shard in shards for answer in shard]
    num_rows = sum(len(answer.response) for answer in answers)
    num_bytes = num_rows * (2 * width + 4)
    rate = sum(answer.num_tokens for answer in batch) / max(seconds, 1e-9)
    console.print(
        f"traces: {num_rows:,} rows of {width} in fp16 make {_size(num_bytes)} in {folder} and take about "
        f"{_duration(sum(answer.num_tokens for answer in answers) / rate)} at {rate:,.0f} tokens/s read "
        f"({num_shards - len(shards)} of {num_shards} shards are there)",
        soft_wrap=True,
    )
    free = shutil.disk_usage(folder).free
    if num_bytes > free:
        raise DataError(
            f"the traces need {_size(num_bytes)}, the disk of `{folder}` has {_size(free)} free",
            hint="make room, give another folder, fewer answers or fewer layers; whole shards are kept",
        )


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.0f} MB" if num_bytes < 1e10 else f"{num_bytes / 1e9:,.0f} GB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{math.ceil(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _batches(answers: Sequence[Answer], batch_size: int) -> list[list[Answer]]:
    """The answers, shortest first so that little is padded."""
    ordered = sorted(answers, key=lambda answer: answer.num_tokens)
    return [ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)]


def _rows(
    target: FeatureSource, answers: Sequence[Answer], features: FeatureSpec, batch_size: int
) -> Iterator[tuple[Answer, Float[Tensor, "row feature"]]]:
    """Each answer with its rows; padding is on the right, behind a mask."""
    for batch in _batches(answers, batch_size):
        hidden = target.hidden_rows(*_padded(batch, target.device), features)
        for row, answer in enumerate(batch):
            first = len(answer.prompt) - 1
            yield answer, hidden[row, first : first + len(answer.response)].to("cpu", torch.float16)


def _padded(
    answers: Sequence[Answer], device: torch.device
) -> tuple[Int[Tensor, "batch seq"], Int[Tensor, "batch seq"]]:
    """Prompts and responses as one batch, and the mask of what is not padding."""
    width = max(answer.num_tokens for answer in answers)
    input_ids = torch.zeros((len(answers), width), dtype=torch.long)
    mask = torch.zeros_like(input_ids)
    for row, answer in enumerate(answers):
        input_ids[row, : answer.num_tokens] = torch.tensor([*answer.prompt, *answer.response])
        mask[row, : answer.num_tokens] = 1
    return input_ids.to(device), mask.to(device)


def read_traces(folder: Path, answers: Sequence[Answer], layers: Sequence[int] = (-1,)) -> list[Trace]:
    """The traces of `answers`, in their order, with the columns of `layers`, which may be fewer than were recorded.

    Rows stay on disk until they are looked at. `DataError` where a trace is missing or belongs to another answer.
    """
    by_id = {answer.id: answer for answer in answers}
    found: dict[str, Trace] = {}
    for path in sorted(folder.glob(PATTERN)):
        shard = open_shard(path)
        wanted = [name for name in shard.tokens if name in by_id]
        source = shard.rows(layers) if wanted else None
        for name in wanted:
            if source is None or shard.tokens[name] != by_id[name].response:
                raise DataError(
                    f"the trace of `{name}` in `{path}` is of another answer than the corpus holds",
                    hint="collect the traces again from this corpus",
                )
            found[name] = Trace(answer=by_id[name], source=source, first=shard.first[name])
    for answer in answers:
        if answer.id not in found:
            raise DataError(
                f"there is no trace of `{answer.id}` in `{folder}`",
                hint="collect the traces of the whole corpus first",
            )
    return [found[answer.id] for answer in answers]


def check_traces(target: FeatureSource, traces: Sequence[Trace], features: FeatureSpec) -> None:
    """Refuse traces of another target: the rows of the shortest text are computed anew and compared."""
    trace = min(traces, key=lambda trace: trace.answer.num_tokens)
    ((_, rows),) = _rows(target, [trace.answer], features, batch_size=1)
    if rows.shape[1] != trace.source.width:
        raise DataError(
            f"the traces hold rows of {trace.source.width}, this target and these layers give {rows.shape[1]}",
            hint=ELSEWHERE,
        )
    difference = float((rows.float() - trace.hidden.float()).norm() / rows.float().norm().clamp(min=1e-6))
    if difference > MAX_DIFFERENCE:
        raise DataError(
            f"the traces are of another target: the rows of `{trace.answer.id}` differ by {difference:.0%}",
            hint=ELSEWHERE,
        )
