"""Where the figures of a training run go, beside the console: a file or one of the common dashboards.

Another one is a class with `log` and `close` and one line in `LOGGERS`.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from phrasedraft.errors import OptionError
from phrasedraft.whole_file import replace_file


@runtime_checkable
class MetricLogger(Protocol):
    """Takes the figures of a run as they come."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Note `metrics` at `step`."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class NoLogger:
    """Drops everything."""

    def __init__(self, folder: Path, first_step: int) -> None:
        pass

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Drop `metrics`."""

    def close(self) -> None:
        """Nothing is left."""


class JsonLinesLogger:
    """One JSON object a line in `metrics.jsonl`; what a killed run noted after its last checkpoint is taken out."""

    def __init__(self, folder: Path, first_step: int) -> None:
        path = folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= first_step]
        replace_file(path, "".join(kept).encode())
        self._file = path.open("a", buffering=1)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append one line."""
        self._file.write(json.dumps({"step": step, **metrics}) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoardLogger:
    """Event files in `tensorboard`."""

    def __init__(self, folder: Path, first_step: int) -> None:
        module = import_module("torch.utils.tensorboard")
        self._writer = module.SummaryWriter(str(folder / "tensorboard"), purge_step=first_step + 1)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add one scalar a figure."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush the events."""
        self._writer.close()


class WandbLogger:
    """A run of wandb, whose files go beside the checkpoint; wandb's own variables say where it is sent."""

    def __init__(self, folder: Path, first_step: int) -> None:  # noqa: ARG002 - wandb keeps the steps of each run apart
        module = import_module("wandb")
        self._run: Any = module.init(project="phrasedraft", name=folder.resolve().name, dir=str(folder))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send one step."""
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        """End the run."""
        self._run.finish()


class TrackioLogger:
    """A run of trackio, which keeps it on this machine."""

    def __init__(self, folder: Path, first_step: int) -> None:
        self._module: Any = import_module("trackio")
        with redirect_stdout(sys.stderr):  # stdout is for what the command was asked for
            self._module.init(project="phrasedraft", name=f"{folder.resolve().name}-{first_step}")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Note one step."""
        self._module.log(dict(metrics), step=step)

    def close(self) -> None:
        """End the run."""
        with redirect_stdout(sys.stderr):
            self._module.finish()


LOGGERS: dict[str, tuple[type, str | None]] = {
    "none": (NoLogger, None),
    "jsonl": (JsonLinesLogger, None),
    "tensorboard": (TensorBoardLogger, "tensorboard"),
    "wandb": (WandbLogger, "wandb"),
    "trackio": (TrackioLogger, "trackio"),
}
"""Each logger, and the package it needs."""


def check_logger(name: str) -> None:
    """Refuse a logger that does not exist, or whose package is not installed, before hours were spent."""
    if name not in LOGGERS:
        raise OptionError(f"`logger` is `{name}`, it may be {', '.join(f'`{known}`' for known in LOGGERS)}")
    package = LOGGERS[name][1]
    if package and find_spec(package) is None:
        raise OptionError(
            f"logger `{name}` needs the package `{package}`, which is not installed", hint=f"`pip install {package}`"
        )


@contextmanager
def open_logger(name: str, folder: Path, first_step: int) -> Iterator[MetricLogger]:
    """The logger of this name for a run in `folder` that goes on after `first_step`."""
    check_logger(name)
    folder.mkdir(parents=True, exist_ok=True)
    logger: MetricLogger = LOGGERS[name][0](folder, first_step)
    try:
        yield logger
    finally:
        logger.close()
