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
SETTINGS = [
    "distill.max_new_tokens=32",
    "distill.batch_size=16",
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

    def sign_of(self, stage: str) -> object:
        """Something that changes while a stage makes progress."""
        work = self.folder / "head.work"
        if stage == "corpus":
            return sum(path.stat().st_size for path in work.glob("corpus/*.jsonl"))
        if stage == "traces":
            return len([*work.glob("traces/*/*")])
        return (work / "checkpoint.pt").stat().st_mtime_ns if (work / "checkpoint.pt").exists() else 0

    def kill_in(self, stage: str, draw: random.Random) -> bool:
        """Begin, wait until the stage makes progress and a little longer, kill; False where it was over before."""
        before, process = self.sign_of(stage), self.begin()
        while process.poll() is None and self.sign_of(stage) == before:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return process.returncode == -signal.SIGKILL


def head_of(command: Command) -> dict[str, bytes]:
    files = ("config.json", "model.safetensors", "README.md", "recipe.toml")
    return {name: (command.folder / "head" / name).read_bytes() for name in files}


def test_ten_kills_in_every_stage_give_the_same_head_bit_for_bit(tmp_path):
    target, prompts = (
        save_target(tmp_path / "target", "llama", max_position_embeddings=1024),
        tmp_path / "questions.jsonl",
    )
    prompts.write_text("".join(json.dumps({"prompt": f"question {number}"}) + "\n" for number in range(300)))
    whole = Command(tmp_path / "whole", target, prompts)
    whole.finish()
    draw, killed = random.Random(7), Command(tmp_path / "killed", target, prompts)
    kills = [killed.kill_in(stage, draw) for stage, count in NUM_KILLS.items() for _ in range(count)]
    assert sum(kills) >= 9  # the last one may come when all is done
    killed.finish()
    assert head_of(killed) == head_of(whole)
