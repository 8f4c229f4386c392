"""Traces: the target's hidden states at the rows that produced each token of its answers, kept on disk.

One shard is a safetensors file: `hidden` fp16 [row, feature], `tokens` int32 [row], `offsets` int64 [answer + 1], and
the answers' ids in its metadata. Row i of an answer is the state *before* token i was chosen.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from phrasedraft.errors import DataError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.corpus import Answer

ANSWERS_PER_SHARD = 128
MAX_DIFFERENCE = 0.05
"""How far hidden states of one target may lie apart in another precision or batch, relative to their norm."""
AGAIN = "delete the shard and run again; whole shards are kept"


@runtime_checkable
class FeatureSource(Protocol):
    """A target whose hidden states can be read for whole texts at once."""

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
    """One answer with the row that produced each of its tokens."""

    answer: Answer
    hidden: Float[Tensor, "row feature"]

    @property
    def tokens(self) -> tuple[int, ...]:
        """The answer's tokens, one a row."""
        return self.answer.response


def collect_traces(
    target: FeatureSource,
    answers: Sequence[Answer],
    features: FeatureSpec,
    folder: Path,
    *,
    batch_size: int = 8,
    console: Console | None = None,
) -> None:
    """Write the traces of `answers` to `folder`; whole shards of the same answers are kept, so a killed run resumes."""
    console = console or Console(stderr=True)
    folder.mkdir(parents=True, exist_ok=True)
    shards = [answers[start : start + ANSWERS_PER_SHARD] for start in range(0, len(answers), ANSWERS_PER_SHARD)]
    missing = [index for index, shard in enumerate(shards) if not _holds(_shard_path(folder, index), shard)]
    num_rows = sum(len(answer.response) for index in missing for answer in shards[index])
    if not missing:
        console.print(f"traces: {len(shards)} shards in {folder} are whole and are used again", soft_wrap=True)
        return
    width = target.hidden_rows(*_padded(answers[:1], target.device), features).shape[-1]
    console.print(
        f"traces: {num_rows:,} rows of {width} in fp16 make {num_rows * (2 * width + 4) / 1e6:,.0f} MB "
        f"in {folder} ({len(shards) - len(missing)} of {len(shards)} shards are there)",
        soft_wrap=True,
    )
    columns = (TextColumn("traces"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("traces", total=num_rows, rate="")
        for index in missing:
            rows = {}
            for answer, hidden in _rows(target, shards[index], features, batch_size):
                rows[answer.id] = hidden
                progress.advance(task, len(hidden))
                progress.update(task, rate=f"{progress.tasks[task].speed or 0:,.0f} tokens/s")
            _write_shard(_shard_path(folder, index), shards[index], rows)


def _rows(
    target: FeatureSource, answers: Sequence[Answer], features: FeatureSpec, batch_size: int
) -> Iterator[tuple[Answer, Float[Tensor, "row feature"]]]:
    """Each answer with its rows, shortest first so that little is padded; padding is on the right, behind a mask."""
    ordered = sorted(answers, key=lambda answer: answer.num_tokens)
    for start in range(0, len(ordered), batch_size):
        batch = ordered[start : start + batch_size]
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


def _shard_path(folder: Path, index: int) -> Path:
    return folder / f"shard-{index:05d}.safetensors"


def _write_shard(path: Path, answers: Sequence[Answer], hidden: dict[str, Float[Tensor, "row feature"]]) -> None:
    """Write one shard in one step."""
    lengths = torch.tensor([0, *(len(answer.response) for answer in answers)])
    rows = torch.cat([hidden[answer.id] for answer in answers])
    if not torch.isfinite(rows).all():
        raise DataError(
            f"hidden states for `{path.name}` do not fit fp16 or are not finite",
            hint="the target may run in a precision it was not made for; load it in bf16 or fp32",
        )
    tensors = {
        "hidden": rows,
        "tokens": torch.tensor([token for answer in answers for token in answer.response], dtype=torch.int32),
        "offsets": lengths.cumsum(0),
    }
    temporary = path.with_suffix(".tmp")
    save_file(tensors, temporary, metadata={"ids": json.dumps([answer.id for answer in answers])})
    os.replace(temporary, path)


def _holds(path: Path, answers: Sequence[Answer]) -> bool:
    """Whether `path` is a whole shard of exactly these answers."""
    try:
        with safe_open(path, framework="pt") as shard:
            ids = json.loads(shard.metadata()["ids"])
            tokens = shard.get_tensor("tokens").tolist()
    except (FileNotFoundError, SafetensorError):
        return False
    return (ids, tokens) == (
        [answer.id for answer in answers],
        [token for answer in answers for token in answer.response],
    )


def read_traces(folder: Path, answers: Sequence[Answer]) -> list[Trace]:
    """The traces of `answers`, in their order; `DataError` where one is missing or belongs to another answer."""
    by_id = {answer.id: answer for answer in answers}
    found: dict[str, Trace] = {}
    for path in sorted(folder.glob("shard-*.safetensors")):
        for name, tokens, hidden in _read_shard(path):
            if name not in by_id:
                continue
            if tuple(tokens) != by_id[name].response:
                raise DataError(
                    f"the trace of `{name}` in `{path}` is of another answer than the corpus holds",
                    hint="collect the traces again from this corpus",
                )
            found[name] = Trace(answer=by_id[name], hidden=hidden)
    for answer in answers:
        if answer.id not in found:
            raise DataError(
                f"there is no trace of `{answer.id}` in `{folder}`",
                hint="collect the traces of the whole corpus first",
            )
    return [found[answer.id] for answer in answers]


def _read_shard(path: Path) -> Iterator[tuple[str, list[int], Float[Tensor, "row feature"]]]:
    """Each answer of a shard: its id, its tokens, its rows."""
    try:
        with safe_open(path, framework="pt") as shard:
            ids = json.loads(shard.metadata()["ids"])
            hidden, tokens, offsets = (shard.get_tensor(name) for name in ("hidden", "tokens", "offsets"))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"`{path}` is not a whole trace shard: {error}", hint=AGAIN) from error
    edges = offsets.tolist()
    for index, name in enumerate(ids):
        rows = slice(edges[index], edges[index + 1])
        yield name, tokens[rows].tolist(), hidden[rows]


def check_traces(target: FeatureSource, traces: Sequence[Trace], features: FeatureSpec) -> None:
    """Refuse traces of another target: the rows of the shortest text are computed anew and compared."""
    trace = min(traces, key=lambda trace: trace.answer.num_tokens)
    ((_, rows),) = _rows(target, [trace.answer], features, batch_size=1)
    if rows.shape[1] != trace.hidden.shape[1]:
        raise DataError(
            f"the traces hold rows of {trace.hidden.shape[1]}, this target and these layers give {rows.shape[1]}",
            hint="collect the traces again, into another folder",
        )
    difference = float((rows.float() - trace.hidden.float()).norm() / rows.float().norm().clamp(min=1e-6))
    if difference > MAX_DIFFERENCE:
        raise DataError(
            f"the traces are of another target: the rows of `{trace.answer.id}` differ by {difference:.0%}",
            hint="collect the traces again, into another folder",
        )
