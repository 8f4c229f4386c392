"""The machine and the versions that figures were made with."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

VERSIONS = ("phrasedraft", "torch", "transformers", "numpy")


def environment() -> dict[str, Any]:
    """The machine and the versions results were made with; `cores` are those this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": cores,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch_threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "versions": {name: _version(name) for name in VERSIONS},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
