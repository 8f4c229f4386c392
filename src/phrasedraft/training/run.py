"""A training run: progress, replay on held-out answers, checkpoints, stopping and going on, and the best epoch."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.errors import DataError
from phrasedraft.training.checkpoint import RunKey, RunState, load_checkpoint, save_checkpoint
from phrasedraft.training.loggers import MetricLogger, open_logger
from phrasedraft.training.signals import StopRequests, stop_requests
from phrasedraft.training.trainer import Trainer

Replayed = Callable[[PhraseScorer], DecodingStats]
"""Replays a scorer on held-out answers."""


def run_epochs(
    trainer: Trainer, replayed: Replayed, checkpoint: Path, key: RunKey, console: Console
) -> tuple[PhraseScorer, list[dict[str, float]]]:
    """The scorer of the epoch with the most replayed tokens a pass, and what each epoch came to.

    A run that was killed goes on from its last checkpoint to the same result; SIGTERM and Ctrl-C save one first.
    `DataError` where no held-out draft is accepted in the end, whatever the loss: then labels, traces and vocabulary do
    not belong together.
    """
    run = _Run(trainer, replayed, checkpoint, key, console)
    run.go_on()
    logs = open_logger(trainer.settings.logger, checkpoint.parent, trainer.num_steps)
    with stop_requests() as stop, logs as logger, _bar(trainer, console) as progress:
        while not run.is_over:
            run.train_epoch(stop, logger, progress)
            run.judge_epoch(stop, logger, progress)
    _refuse_useless(run.history)
    return run.best, run.history


class _Run:
    """What a run has come to so far."""

    def __init__(self, trainer: Trainer, replayed: Replayed, checkpoint: Path, key: RunKey, console: Console) -> None:
        self.trainer = trainer
        self.best = trainer.trained()
        self.history: list[dict[str, float]] = []
        self._losses: list[float] = []  # of the epoch that is under way
        self._replayed, self._checkpoint, self._key, self._console = replayed, checkpoint, key, console

    @property
    def is_over(self) -> bool:
        """Whether every step is done and judged, or the last epochs brought nothing."""
        patience = self.trainer.settings.patience
        if patience and _epochs_without_gain(self.history) >= patience:
            return True
        return bool(self.history) and not self._losses and self.trainer.num_steps >= self.trainer.total_steps

    def go_on(self) -> None:
        """Take up the run where its checkpoint left off."""
        state = load_checkpoint(self._checkpoint, self._key)
        if state is None:
            return
        self.trainer.load_state_dict(state.trainer)
        self.best.load_state_dict(state.best)
        self.history, self._losses = state.history, state.losses
        steps = f" and {len(self._losses):,} of {self.trainer.steps_per_epoch:,} steps" if self._losses else ""
        self._console.print(
            f"going on after epoch {len(self.history)}{steps} from {self._checkpoint.parent}", soft_wrap=True
        )

    def save(self) -> None:
        """Write a checkpoint."""
        state = RunState(
            trainer=self.trainer.state_dict(), history=self.history, best=self.best.state_dict(), losses=self._losses
        )
        save_checkpoint(self._checkpoint, self._key, state)

    def train_epoch(self, stop: StopRequests, logger: MetricLogger, progress: Progress) -> None:
        """The steps of the next epoch that are still to be done."""
        task = progress.task_ids[0]
        for loss in self.trainer.run_epoch(len(self.history), start=len(self._losses)):
            self._losses.append(loss)
            logger.log(self.trainer.num_steps, {"loss": loss, "learning_rate": self.trainer.learning_rate})
            progress.update(task, advance=1, loss=f"loss {loss:.3f}", rate=_rate(progress))
            if stop.pending or self.trainer.num_steps % self.trainer.settings.checkpoint_steps == 0:
                self.save()
            self._leave_if_asked(stop)

    def judge_epoch(self, stop: StopRequests, logger: MetricLogger, progress: Progress) -> None:
        """Replay the weights an epoch ended with, and keep them where they are the best."""
        scorer = self.trainer.trained()
        try:
            with stop.at_once():
                stats = self._replayed(scorer)
        except (KeyboardInterrupt, SystemExit):
            self.save()
            self._say_stopped()
            raise
        line = _line(self._losses, stats)
        self.history.append(line)
        self._losses = []
        if line["tokens_per_pass"] >= max(line["tokens_per_pass"] for line in self.history):
            self.best = scorer
        self.save()
        logger.log(self.trainer.num_steps, {f"epoch/{name}": value for name, value in line.items()})
        progress.update(progress.task_ids[0], replayed=f"{stats.mean_acceptance_length:.3f} tokens a pass")
        progress.console.print(
            f"epoch {len(self.history)}: loss {line['loss']:.3f}, held-out answers replay at "
            f"{stats.mean_acceptance_length:.3f} tokens a pass "
            f"(landing {stats.landing:.3f}, banked {stats.banked:.2f})",
            soft_wrap=True,
        )

    def _leave_if_asked(self, stop: StopRequests) -> None:
        if stop.pending:
            self._say_stopped()
        stop.leave_if_asked()

    def _say_stopped(self) -> None:
        self._console.print(
            f"stopped after step {self.trainer.num_steps:,}; the same command goes on from there", soft_wrap=True
        )


def _bar(trainer: Trainer, console: Console) -> Progress:
    """The live bar: loss, replayed tokens a pass, steps a second, time left."""
    fields = (TextColumn("{task.fields[" + name + "]}") for name in ("loss", "replayed", "rate"))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *fields)
    progress = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console)
    progress.add_task("training", total=trainer.total_steps, completed=trainer.num_steps, loss="", replayed="", rate="")
    return progress


def _rate(progress: Progress) -> str:
    return f"{progress.tasks[0].speed or 0:.2f} steps/s"


def _line(losses: Sequence[float], stats: DecodingStats) -> dict[str, float]:
    return {
        "loss": round(sum(losses) / max(len(losses), 1), 4),
        "tokens_per_pass": round(stats.mean_acceptance_length, 4),
        "landing": round(stats.landing, 4),
        "banked": round(stats.banked, 4),
    }


def _epochs_without_gain(history: Sequence[dict[str, float]]) -> int:
    """How many epochs came after the first of the best ones."""
    figures = [line["tokens_per_pass"] for line in history]
    return len(figures) - 1 - figures.index(max(figures)) if figures else 0


def _refuse_useless(history: Sequence[dict[str, float]]) -> None:
    """An epoch that lands nothing is the end of learning the wrong thing, even where early guesses landed by chance."""
    if history[-1]["landing"] == 0:
        raise DataError(
            f"after {len(history)} epochs no draft on held-out answers was accepted (loss {history[-1]['loss']})",
            hint="labels may be shifted against the hidden states, or traces and corpus are of different targets",
        )
