"""The progress bar of runs that generate text: answers done, tokens a second, time left."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class AnswerProgress:
    """Shows how far a run of `total` answers is; until answers are done, each is expected to take `longest` tokens."""

    def __init__(self, console: Console, description: str, *, total: int, completed: int, longest: int) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
        )
        self._bar = Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[left]}"), console=console)
        self._task = self._bar.add_task(description, total=total, completed=completed, rate="", left="")
        self._left = total - completed
        self._longest = longest
        self._num_answers = self._num_tokens = self._num_tokens_of_answers = 0
        self._start = time.perf_counter()

    def __enter__(self) -> "AnswerProgress":
        self._bar.start()
        self._start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def tokens(self, count: int) -> None:
        """The target has just produced `count` tokens."""
        self._num_tokens += count
        self._show()

    def finished(self, count: int) -> None:
        """`count` more answers are done, or known not to come."""
        self._left -= count
        self._num_answers += count
        self._num_tokens_of_answers = self._num_tokens
        self._bar.advance(self._task, count)
        self._show()

    def _show(self) -> None:
        rate = self._num_tokens / max(time.perf_counter() - self._start, 1e-6)
        each = self._num_tokens_of_answers / self._num_answers if self._num_answers else self._longest
        ahead = max(self._left * each - (self._num_tokens - self._num_tokens_of_answers), 0.0)
        minutes, seconds = divmod(round(ahead / max(rate, 1e-6)), 60)
        hours, minutes = divmod(minutes, 60)
        left = f"{hours}:{minutes:02}:{seconds:02} left" if self._left > 0 and self._num_tokens else ""
        self._bar.update(self._task, rate=f"{rate:,.0f} tokens/s", left=left)
