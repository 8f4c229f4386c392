"""Checkpoints of a training run, one an epoch: a killed run goes on from the last one and ends the same."""

import hashlib
import json
import os
import pickle
from pathlib import Path
from typing import Any

import torch

from phrasedraft.training.trainer import Trainer


def run_key(config: dict[str, Any], vocabulary: str) -> str:
    """A name for all that decides a run's result, for which the command's wording does not matter."""
    provenance = {name: value for name, value in config["provenance"].items() if name != "command"}
    description = json.dumps([{**config, "provenance": provenance}, vocabulary], sort_keys=True)
    return hashlib.sha256(description.encode()).hexdigest()[:16]


def save_checkpoint(path: Path, key: str, trainer: Trainer, history: list[dict[str, float]], best: Any) -> None:
    """Write the whole state of a run in one step."""
    state = {"key": key, "trainer": trainer.state_dict(), "history": history, "best": best}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def load_checkpoint(path: Path, key: str, trainer: Trainer) -> tuple[list[dict[str, float]], Any] | None:
    """Bring `trainer` to where the checkpoint left off; its history and best weights. None where there is none."""
    try:
        state = torch.load(path, weights_only=True)
    except (FileNotFoundError, EOFError, RuntimeError, pickle.UnpicklingError):
        return None
    if state.get("key") != key:
        return None
    trainer.load_state_dict(state["trainer"])
    return state["history"], state["best"]
