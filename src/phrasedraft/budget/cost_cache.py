"""What a pass costs, measured once on a machine for a target and kept in the cache folder."""

import hashlib
import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from phrasedraft.budget import MOST_NODES
from phrasedraft.budget.cost import PassCost, measure_pass_cost
from phrasedraft.errors import DataError
from phrasedraft.target.embedded import cache_folder
from phrasedraft.target.model import TransformersTarget
from phrasedraft.target.packing import kernel_facts
from phrasedraft.target.streamed import processor
from phrasedraft.whole_file import replace_file

SHORT_CONTEXT, LONG_CONTEXT = 64, 512
REPEATS = 3
COUNTS = (0, 1, 3, 7, 15, 31, MOST_NODES)
FEW_COUNTS = (0, 1, 15, MOST_NODES)
"""The draft tokens of the passes timed after the long context, which says what context adds."""


def pass_cost(target: TransformersTarget) -> PassCost:
    """The times of the target's passes: those in the cache folder, else measured now (some seconds) and kept there.

    They are measured anew for another machine, torch, number of threads, target, dtype or way to run it, and where
    the file is damaged. That the folder cannot be written is no error.
    """
    facts = cost_facts(target)
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    file = cache_folder() / "costs" / f"{key}.json"
    known = _read(file, facts)
    if known is not None:
        return known
    cost = _measure(target)
    _write(file, {"facts": facts, "cost": cost.as_dict()})
    return cost


def cost_facts(target: TransformersTarget) -> dict[str, Any]:
    """What the time of a pass depends on, ready for JSON."""
    model = target.model
    config = model.config.get_text_config(decoder=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": hashlib.sha256(processor().encode()).hexdigest()[:16],
        "cores": cores,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "phrasedraft": _version(),
        "target": target.identity.name,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "layers": getattr(config, "num_hidden_layers", None),
        "hidden_size": target.identity.hidden_size,
        "dtype": str(model.dtype),
        "device": torch.cuda.get_device_name(target.device) if target.device.type == "cuda" else str(target.device),
        "attention": getattr(model.config, "_attn_implementation", None),
        "packed": target.network is not model,
        "kernels": kernel_facts(target.network),
        "notes": list(target.notes),
    }


def _version() -> str:
    try:
        return version("phrasedraft")
    except PackageNotFoundError:  # run from a folder of its source
        return "unknown"


def _measure(target: TransformersTarget) -> PassCost:
    """Every count after a short context, a few after a long one, as far as the target's own limit lets them."""
    short = measure_pass_cost(target, COUNTS, (SHORT_CONTEXT,), REPEATS)
    long = measure_pass_cost(target, FEW_COUNTS, (LONG_CONTEXT,), REPEATS)
    contexts = {time.context_tokens for time in short.times}
    more = tuple(time for time in long.times if time.context_tokens not in contexts)
    return PassCost(target=short.target, repeats=short.repeats, times=(*short.times, *more))


def _read(file: Path, facts: dict[str, Any]) -> PassCost | None:
    try:
        kept = json.loads(file.read_bytes())
        return PassCost.from_dict(kept["cost"]) if kept["facts"] == facts else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(file: Path, kept: dict[str, Any]) -> None:
    """Put it there in one step: who reads meanwhile meets no half of it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, json.dumps(kept, indent=1).encode())
    except (OSError, DataError):
        return
