"""What the machine did while a method answered: work of other programs, memory, energy."""

import importlib.util
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

RAPL = Path("/sys/class/powercap")
"""Where Linux exposes the energy counters of the processor's packages, in microjoules."""
ENERGY, RANGE = "energy_uj", "max_energy_range_uj"

BUSY = ("user", "nice", "system", "irq", "softirq", "steal", "interrupt", "dpc")
"""Kinds of processor time that are work, as psutil names them on any system; a guest's time is counted under `user`."""

_CLEAR_PEAK = b"5"
"""Written to `clear_refs`, this makes the kernel count the peak of the resident memory anew (man 5 proc)."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The figures of one stretch of time; None where the system does not say."""

    load_average: float
    other_load: float | None
    peak_bytes: int | None
    energy_joules: float | None


class Meter:
    """Reads the machine before and after a stretch of time: `start`, then `stop`.

    The load of other programs is the busy time of the cores this process may use, less its own, per second; it needs
    psutil. The peak is of the whole process: on Linux since `start`, elsewhere since the process began; on an
    accelerator its own allocations are added.
    """

    def __init__(self) -> None:
        self._psutil: Any = None
        if importlib.util.find_spec("psutil") is not None:
            import psutil

            self._psutil = psutil
        self._zones = _packages()
        self._started = 0.0
        self._busy: float | None = None
        self._energy: list[int] | None = None

    def start(self) -> None:
        """Begin a stretch."""
        _clear_peak()
        self._energy = self._microjoules()
        self._busy = self._others()
        self._started = time.perf_counter()

    def stop(self) -> Reading:
        """End it."""
        seconds = time.perf_counter() - self._started
        busy, energy = self._others(), self._microjoules()
        return Reading(
            load_average=os.getloadavg()[0],
            other_load=None if busy is None or self._busy is None else max((busy - self._busy) / seconds, 0.0),
            peak_bytes=_peak_bytes(),
            energy_joules=self._joules(self._energy, energy),
        )

    def _others(self) -> float | None:
        """Seconds of work by other programs so far, on the cores this process may use."""
        if self._psutil is None:
            return None
        times = self._psutil.cpu_times(percpu=True)
        own = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(len(times))
        busy = sum(getattr(times[core], kind, 0.0) for core in own if core < len(times) for kind in BUSY)
        mine = self._psutil.Process().cpu_times()
        return float(busy - mine.user - mine.system)

    def _microjoules(self) -> list[int] | None:
        """Every package's counter; None where there is none, or it may not be read."""
        try:
            return [int((zone / ENERGY).read_text()) for zone in self._zones] or None
        except (OSError, ValueError):
            return None

    def _joules(self, before: list[int] | None, after: list[int] | None) -> float | None:
        """What the counters rose by; of one that began again at zero it has to be known how far it counts."""
        if before is None or after is None or len(before) != len(after):
            return None
        rises = [late - early for early, late in zip(before, after, strict=True)]
        for place, zone in enumerate(self._zones):
            if rises[place] < 0:
                try:
                    rises[place] += int((zone / RANGE).read_text())
                except (OSError, ValueError):
                    return None
        return None if min(rises) < 0 else sum(rises) / 1e6


def _packages() -> list[Path]:
    """The zones that count a processor's package, whose parts and whose whole machine have zones of their own."""
    found = []
    for zone in sorted(RAPL.glob("intel-rapl:*")):
        try:
            if (zone / "name").read_text().startswith("package"):
                found.append(zone)
        except OSError:
            continue
    return found


def has_locked_counters() -> bool:
    """Whether there are counters of energy that this user may not read."""
    return any((zone / ENERGY).exists() and not os.access(zone / ENERGY, os.R_OK) for zone in _packages())


def _clear_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        Path("/proc/self/clear_refs").write_bytes(_CLEAR_PEAK)
    except OSError:
        return  # then the peak is since the process began


def _peak_bytes() -> int:
    on_device = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return on_device + next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024
    except (OSError, StopIteration, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return on_device + peak * (1 if sys.platform == "darwin" else 1024)
