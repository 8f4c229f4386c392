"""Checkpoints of a training run: a killed run goes on from the last one and ends with the same head.

`checkpoint.pt` is of a run that is not over, and refuses runs of other settings. When the head is saved it becomes
`checkpoint.finished.pt`, which the same command takes up again and any other run may replace.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from phrasedraft.errors import DataError

FORMAT = 2
NO_RESULT = ("checkpoint_steps", "logger")
"""Settings of the training that do not change what comes out of it."""
MAX_SHOWN = 4


@dataclass(frozen=True)
class RunKey:
    """All that decides a run's result, by name; equal keys give equal heads."""

    values: dict[str, str]

    @property
    def digest(self) -> str:
        """A short name for it."""
        return hashlib.sha256(json.dumps(self.values, sort_keys=True).encode()).hexdigest()[:16]

    def differences(self, other: "RunKey") -> list[str]:
        """What is not the same in `other`, in words."""
        names = sorted(self.values.keys() | other.values.keys())
        return [
            f"`{name}` is {other.values.get(name, 'not set')} there and {self.values.get(name, 'not set')} now"
            for name in names
            if self.values.get(name) != other.values.get(name)
        ]


def run_key(config: dict[str, Any], vocabulary: str) -> RunKey:
    """The key of a head's config; the command's wording, how often to save and where to log do not matter."""
    values = dict(_leaves("", {**config, "vocabulary": vocabulary}))
    prefix = "provenance.settings."
    ignored = {"provenance.command", *(f"{prefix}training.{name}" for name in NO_RESULT)}
    return RunKey({name.removeprefix(prefix): value for name, value in values.items() if name not in ignored})


def _leaves(name: str, value: Any) -> list[tuple[str, str]]:  # whatever a config holds
    """The values inside nested mappings by their dotted names, as JSON."""
    if isinstance(value, Mapping) and value:
        return [leaf for key, inner in value.items() for leaf in _leaves(f"{name}.{key}" if name else key, inner)]
    if isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        return [leaf for index, inner in enumerate(value) for leaf in _leaves(f"{name}.{index}", inner)]
    return [(name, json.dumps(value))]


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Where a run stands: its trainer, what each whole epoch came to, the best weights, the losses of this epoch."""

    trainer: dict[str, Any]
    history: list[dict[str, float]]
    best: dict[str, Any]
    losses: list[float]


def save_checkpoint(path: Path, key: RunKey, state: RunState) -> None:
    """Write the whole state of a run in one step; when this returns it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    try:
        with temporary.open("wb") as file:
            torch.save({"format": FORMAT, "key": key.values, **vars(state)}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:  # on a full disk torch raises the latter over the former
        raise DataError(
            f"checkpoint `{path}` cannot be written: {getattr(error, 'strerror', None) or error}",
            hint="make room and run the same command again; it goes on from the checkpoint before",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def load_checkpoint(path: Path, key: RunKey) -> RunState | None:
    """Where the run of this key left off, finished or not; None where it has not begun.

    `DataError` where a run of another key stands unfinished at `path`, or a file is damaged.
    """
    for place in (path, finished_path(path)):
        if not place.exists():
            continue
        found, state = _read(place)
        if found == key:
            return state
        if place == path:
            differences = key.differences(found)
            more = f", and {len(differences) - MAX_SHOWN} more" if len(differences) > MAX_SHOWN else ""
            raise DataError(
                f"`{path}` is of an unfinished run with other settings: {', '.join(differences[:MAX_SHOWN])}{more}",
                hint="give another `--work`, finish that run with its own command, or delete the file",
            )
    return None


def finished_path(path: Path) -> Path:
    """Where the checkpoint of a finished run lies."""
    return path.with_suffix(".finished.pt")


def finish_checkpoint(path: Path) -> None:
    """Say that the run's head is saved, so that other runs may take the place; the same run is still taken up."""
    if path.exists():
        os.replace(path, finished_path(path))


def _read(path: Path) -> tuple[RunKey, RunState]:
    """A checkpoint's key and state."""
    again = "delete it and run the same command again; the training begins anew"
    try:
        found = torch.load(path, weights_only=True)
    except Exception as error:  # whatever unpickling garbage comes to
        raise DataError(f"checkpoint `{path}` is damaged: {error}", hint=again) from error
    version = found.get("format") if isinstance(found, dict) else None
    if version != FORMAT:
        raise DataError(f"checkpoint `{path}` has format `{version}`, this version reads `{FORMAT}`", hint=again)
    return RunKey(found["key"]), RunState(**{field.name: found[field.name] for field in fields(RunState)})
