"""Heads fitted to a real tiny target in a second, for tests of what comes before and after the training."""

import io
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from answering import ending_target, question_file, quiet, with_template
from phrasedraft import TransformersTarget
from phrasedraft.corpus.distill import DistillSettings, distill
from phrasedraft.corpus.template import TemplateSettings
from phrasedraft.phrases import VocabularySettings
from phrasedraft.training.fit import FitResult, fit
from phrasedraft.training.fit_settings import FitSettings, ReplaySettings
from phrasedraft.training.trainer import TrainingSettings
from texts import CHAT_TEMPLATE

SETTINGS = FitSettings(
    vocabulary=VocabularySettings(num_phrases=200, min_count=2, min_answers=1),
    training=TrainingSettings(num_epochs=10, batch_size=32, learning_rate=1e-2, trunk_width=32),
    replay=ReplaySettings(held_out_share=0.25, num_draft_tokens=(8, 4)),
)


def target() -> TransformersTarget:
    return ending_target(0.4)


def questions(kinds: str = "abcdefgh", count: int = 24) -> list[str]:
    """A few questions again and again, so that answers that are held out were also trained on."""
    return [f"question {kinds[number % len(kinds)]}" for number in range(count)]


def corpus(folder: Path, texts: Sequence[str] = (), *, name: str = "train", **template: Any) -> Path:
    """The tiny target's own answers."""
    settings = DistillSettings(max_new_tokens=24, template=TemplateSettings(**template))
    path = folder / f"{name}.jsonl"
    prompts = question_file(folder / "prompts", texts or questions(), name=name)
    distill(template_target(**template), prompts, settings, path, console=quiet())
    return path


def template_target(**template: Any) -> TransformersTarget:
    """The target, with a template that has a thinking switch where one is set."""
    if "thinking" not in template:
        return target()
    switch = "{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}"
    return with_template(target(), CHAT_TEMPLATE + switch)


def fitted(path: Path, folder: Path, settings: FitSettings = SETTINGS, **arguments: Any) -> FitResult:
    """A head in `folder / "head"`, with `folder / "work"` kept between calls."""
    arguments = {"target": target(), "work": folder / "work", "console": quiet(), **arguments}
    return fit(arguments.pop("target"), [path], folder / "head", settings, command="phrasedraft fit tiny", **arguments)


class Interrupting(Console):
    """A console that sends SIGTERM to its own process when an epoch is reported."""

    def __init__(self, after: str) -> None:
        super().__init__(file=io.StringIO(), width=200)
        self._after = after

    def print(self, *objects: Any, **arguments: Any) -> None:
        super().print(*objects, **arguments)
        if any(str(each).startswith(self._after) for each in objects):
            os.kill(os.getpid(), signal.SIGTERM)
