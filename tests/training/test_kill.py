"""The promise of resuming, tried for real: SIGKILL at random moments, then the same command again."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from saved import save_target

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MAIN = "from phrasedraft.cli import main; main()"
NUM_KILLS = {"corpus": 4, "traces": 3, "training": 3}
STAGES = list(NUM_KILLS)
SETTINGS = [
    "distill.max_new_tokens=32",
    "distill.batch_size=32",
    "training.num_epochs=24",
    "training.batch_size=128",
    "training.trunk_width=64",
    "training.checkpoint_steps=20",
    "vocabulary.num_phrases=300",
    "vocabulary.min_answers=1",
    "replay.held_out_share=0.1",
    "traces.layers=[1,-1]",
]


class Command:
    """One `phrasedraft fit` that can be begun, killed and begun again."""

    def __init__(self, folder: Path, target: Path, prompts: Path) -> None:
        self.folder = folder
        folder.mkdir()
        settings = [part for setting in SETTINGS for part in ("-o", setting)]
        self._arguments = [sys.executable, "-c", MAIN, "fit", str(target), "--prompts", str(prompts)]
        self._arguments += ["-o", "head", *settings]

    def begin(self) -> subprocess.Popen:
        return subprocess.Popen(
            self._arguments, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def finish(self) -> str:
        process = self.begin()
        output, _ = process.communicate()
        assert process.returncode == 0, output
        return output

    def progress(self) -> dict[str, object]:
        """Something for each stage that changes while the stage makes progress."""
        work = self.folder / "head.work"
        checkpoint = work / "checkpoint.pt"
        return {
            "corpus": sum(path.stat().st_size for path in work.glob("corpus/*.jsonl")),
            "traces": len([*work.glob("traces/*/shard-*.safetensors")]),
            "training": checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0,
        }

    def kill_in(self, stage: str, draw: random.Random) -> str:
        """Begin, wait until the stage (or a later one, where it is over) makes progress, and a little longer, and kill.

        The stage that was killed: the last one that had made progress; empty where all was over before.
        """
        later = STAGES[STAGES.index(stage) :]
        before, process = self.progress(), self.begin()
        while process.poll() is None and all(self.progress()[name] == before[name] for name in later):
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            return ""
        return next(name for name in reversed(STAGES) if self.progress()[name])


def head_of(command: Command) -> dict[str, bytes]:
    files = ("config.json", "model.safetensors", "README.md", "recipe.toml")
    return {name: (command.folder / "head" / name).read_bytes() for name in files}


def test_ten_kills_in_every_stage_give_the_same_head_bit_for_bit(tmp_path):
    target, prompts = (
        save_target(tmp_path / "target", "llama", max_position_embeddings=1024),
        tmp_path / "questions.jsonl",
    )
    prompts.write_text("".join(json.dumps({"prompt": f"question {number}"}) + "\n" for number in range(640)))
    whole = Command(tmp_path / "whole", target, prompts)
    whole.finish()
    draw, killed = random.Random(7), Command(tmp_path / "killed", target, prompts)
    kills = [killed.kill_in(stage, draw) for stage, count in NUM_KILLS.items() for _ in range(count)]
    assert "" not in kills  # every command was still at work when it was killed
    assert set(kills) == set(STAGES)
    killed.finish()
    assert head_of(killed) == head_of(whole)
