"""What each stage of a long job took: seconds, and the most memory it held."""

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from phrasedraft.whole_file import replace_file

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage; `peak_bytes` is the most resident memory the process had in it, mapped files included."""

    name: str
    seconds: float
    peak_bytes: int


@dataclass
class Stages:
    """The stages so far, in order."""

    done: list[Stage] = field(default_factory=list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure what runs inside as one stage; a stage that fails counts as well."""
        _forget_peak()
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            self.done.append(Stage(name=name, seconds=seconds, peak_bytes=_peak_bytes()))

    def save(self, path: Path) -> None:
        """Write them as JSON; kept apart from the head, whose files are the same for the same recipe."""
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps([asdict(stage) for stage in self.done], indent=2) + "\n").encode())

    def lines(self) -> list[str]:
        """One line a stage, for people."""
        return [f"{stage.name:<12} {stage.seconds:>8,.1f} s {stage.peak_bytes / 1e6:>8,.0f} MB" for stage in self.done]


def _forget_peak() -> None:
    with suppress(OSError):  # not every system lets a process start its peak anew; then it is that of the whole run
        _CLEAR.write_text("5")


def _peak_bytes() -> int:
    with suppress(OSError, StopIteration):
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
