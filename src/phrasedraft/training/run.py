"""The epochs of a training run: progress, replay on held-out answers, checkpoints, and the best epoch."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.drafters.phrase_head import PhraseScorer
from phrasedraft.errors import DataError
from phrasedraft.training.checkpoint import load_checkpoint, save_checkpoint
from phrasedraft.training.trainer import Trainer

Replayed = Callable[[PhraseScorer], DecodingStats]
"""Replays a scorer on held-out answers."""


def run_epochs(
    trainer: Trainer, replayed: Replayed, checkpoint: Path, key: str, console: Console
) -> tuple[PhraseScorer, list[dict[str, float]]]:
    """The scorer of the epoch with the most replayed tokens a pass, and what each epoch came to.

    `DataError` where no held-out draft was ever accepted, whatever the loss: then labels, traces and vocabulary do not
    belong together.
    """
    best = trainer.trained()
    history: list[dict[str, float]] = []
    found = load_checkpoint(checkpoint, key, trainer)
    if found is not None:
        history, weights = found
        best.load_state_dict(weights)
        console.print(f"going on after epoch {len(history)} from {checkpoint}", soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        total = trainer.settings.num_epochs * trainer.steps_per_epoch
        task = progress.add_task("training", total=total, completed=len(history) * trainer.steps_per_epoch, loss="")
        for epoch in range(len(history), trainer.settings.num_epochs):
            losses = []
            for loss in trainer.run_epoch(epoch):
                losses.append(loss)
                progress.update(task, advance=1, loss=f"loss {loss:.3f}")
            scorer = trainer.trained()
            stats = replayed(scorer)
            history.append(_line(losses, stats))
            if history[-1]["tokens_per_pass"] >= max(line["tokens_per_pass"] for line in history):
                best = scorer
            save_checkpoint(checkpoint, key, trainer, history, best.state_dict())
            progress.console.print(
                f"epoch {epoch + 1}: loss {history[-1]['loss']:.3f}, held-out answers replay at "
                f"{stats.mean_acceptance_length:.3f} tokens a pass "
                f"(landing {stats.landing:.3f}, banked {stats.banked:.2f})",
                soft_wrap=True,
            )
    _refuse_useless(history)
    return best, history


def _line(losses: Sequence[float], stats: DecodingStats) -> dict[str, float]:
    return {
        "loss": round(sum(losses) / max(len(losses), 1), 4),
        "tokens_per_pass": round(stats.mean_acceptance_length, 4),
        "landing": round(stats.landing, 4),
        "banked": round(stats.banked, 4),
    }


def _refuse_useless(history: Sequence[dict[str, float]]) -> None:
    if max(line["landing"] for line in history) == 0:
        raise DataError(
            f"after {len(history)} epochs no draft on held-out answers was accepted (loss {history[-1]['loss']})",
            hint="labels may be shifted against the hidden states, or traces and corpus are of different targets",
        )
