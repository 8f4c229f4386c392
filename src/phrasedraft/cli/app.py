"""The command itself: which verbs there are, and what every one of them does about errors, warnings and Ctrl-C."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from phrasedraft.cli.console import show_error, show_interrupt, show_warning
from phrasedraft.errors import PhraseDraftError


@dataclass(frozen=True)
class Verb:
    """A line of `phrasedraft --help`; the function of the verb's own name in `phrasedraft.cli.<name>` is called."""

    summary: str


VERBS = {
    "demo": Verb("Answer eight questions with generate() and with phrase drafting, and compare."),
    "generate": Verb("Answer one prompt."),
    "chat": Verb("Talk to the target in the terminal."),
    "doctor": Verb("Check on your own model what works, what falls back and why."),
    "inspect": Verb("Show what is in a head."),
    "bench": Verb("Compare decoding methods, prompt by prompt."),
    "fit": Verb("Train a head for a target: all of the stages below, from prompts to a head that works."),
    "distill": Verb("Let a target answer training prompts."),
    "mine": Verb("Find the phrases of a target's answers."),
    "trace": Verb("Write down the hidden states behind a target's answers."),
    "train": Verb("Train a head on phrases and traces that exist."),
    "replay": Verb("Show what a head would save on answers, without running the target again."),
    "fertility": Verb("Count a target's tokens a word in six languages."),
}


class LazyGroup(TyperGroup):
    """Knows its verbs by name and imports one only when it is called, so that `--help` needs no model library."""

    _arguments: tuple[str, ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - what the parser calls
        """The verbs, in the order a newcomer meets them."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - what the parser calls
        """The verb as a line of help, which is all that listing and completion need."""
        if cmd_name not in VERBS:
            return None
        return _command(cmd_name, lambda: None, help=VERBS[cmd_name].summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The verb itself, with its own options."""
        self.commands = {name: self.get_command(ctx, name) for name in VERBS}  # where typos look for a neighbour
        name, _, rest = super().resolve_command(ctx, args)
        self._arguments = tuple(rest)
        function = getattr(import_module(f"phrasedraft.cli.{name}"), str(name))
        return name, _command(str(name), function), rest

    def invoke(self, ctx: Any) -> Any:
        """Run a verb. Errors we know are two lines on stderr and exit code 2; the others keep their traceback."""
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            try:
                return super().invoke(ctx)
            except typer.BadParameter as error:
                _name_value(error, self._arguments)
                raise
            except PhraseDraftError as error:
                show_error(error)
                raise typer.Exit(2) from None
            except KeyboardInterrupt:
                show_interrupt()
                raise typer.Exit(130) from None


def _name_value(error: Any, arguments: Sequence[str]) -> None:
    """Put the refused value of an option into the parser's message, which may leave it out."""
    for option in getattr(error.param, "opts", ()):
        for argument, following in zip(arguments, (*arguments[1:], ""), strict=False):
            name, equals, value = argument.partition("=")
            if name == option:
                error.message = f"`{value if equals else following}`: {error.message}"


def _command(name: str, function: Any, **settings: Any) -> Any:
    """A function as the command-line parser knows it."""
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    single.command(name, **settings)(function)
    return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"phrasedraft {version('phrasedraft')}")
        raise typer.Exit
    return wanted


@app.callback()
def phrasedraft(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Phrase-level speculative decoding: a frozen language model answers faster, and says what it would have said.

    Example: phrasedraft generate "What is 12 times 12?"
    """


def main() -> None:
    """Run the command line; the process ends with its exit code."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # read when transformers is imported
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    app(prog_name="phrasedraft")
