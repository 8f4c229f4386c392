"""Stopping where nothing is lost: SIGTERM and Ctrl-C wait for the end of a training step."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 143
"""The exit code of a command that SIGTERM ended: 128 and the signal's number."""


class StopRequests:
    """Whether somebody asked the run to stop, and leaving when it is a good time to."""

    def __init__(self) -> None:
        self._pending: int | None = None
        self._at_once = False

    @property
    def pending(self) -> bool:
        """Whether a signal waits."""
        return self._pending is not None

    def receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - how Python calls a handler
        """Keep the signal for later; leave now where that does no harm, or when the asker insists."""
        insists = self._pending is not None
        self._pending = number
        if self._at_once or insists:
            self.leave_if_asked()

    def leave_if_asked(self) -> None:
        """Raise what a waiting signal stands for: `KeyboardInterrupt`, or `SystemExit` with code 143."""
        if self._pending == signal.SIGINT:
            raise KeyboardInterrupt
        if self._pending is not None:
            raise SystemExit(TERMINATED)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, a signal does not wait."""
        self._at_once = True
        try:
            self.leave_if_asked()
            yield
        finally:
            self._at_once = False


@contextmanager
def stop_requests() -> Iterator[StopRequests]:
    """SIGTERM and Ctrl-C wait inside; the handlers of before come back afterwards.

    Python lets the main thread alone handle signals: elsewhere nothing changes. A signal that was ignored, as in a job
    under `nohup`, stays so.
    """
    requests = StopRequests()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            handler = signal.getsignal(number)
            if handler not in (None, signal.SIG_IGN):
                before[number] = signal.signal(number, requests.receive)
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    requests.leave_if_asked()
