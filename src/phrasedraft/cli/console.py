"""Where output goes: data to stdout, everything else to stderr, colour and progress in terminals only."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phrasedraft.errors import PhraseDraftError

PIPED_WIDTH = 140
"""The width of tables that go into a file or pipe."""

_PACKAGE_FOLDER = str(Path(__file__).parent.parent)


def data_console() -> Console:
    """The console for what a verb is asked for."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def note_console() -> Console:
    """The console for progress, logs and warnings."""
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else PIPED_WIDTH)


def show_stage(text: str) -> None:
    """Say on stderr what is being done, to a person who waits; into a file or pipe nothing goes."""
    console = note_console()
    if console.is_terminal:
        console.print(f"[dim]{escape(text)} ...[/]")


def compact_table(header: Sequence[str], footer: Sequence[str] = ()) -> Table:
    """An empty table narrow enough for 80 columns: the first column to the left and never cut, numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_footer=bool(footer))
    for index, name in enumerate(header):
        table.add_column(
            escape(name),
            footer=escape(footer[index]) if footer else "",
            justify="right" if index else "left",
            no_wrap=not index,
        )
    return table


def print_json(value: Any) -> None:
    """Write one JSON object on one line of stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


def show_error(error: PhraseDraftError) -> None:
    """Say on stderr what went wrong and what to do about it."""
    console = note_console()
    console.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
    if error.hint:
        console.print(f"[bold]hint:[/] {escape(error.hint)}", soft_wrap=True)


def show_interrupt() -> None:
    """Say on stderr that Ctrl-C ended the command."""
    note_console().print("interrupted")


def show_warning(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001 - the signature of `warnings.showwarning`
    filename: str,
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    """Say on stderr what this library warns about; what its dependencies warn about is not the user's to mend."""
    if filename.startswith(_PACKAGE_FOLDER):
        note_console().print(f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, so that what is done is kept and its exit code is the same."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
