"""`phrasedraft inspect`: what is in a head."""

from typing import Annotated

import typer

from phrasedraft.cli.options import DEFAULT_TARGET, AsJson, with_option_groups


@with_option_groups
def inspect(
    head: Annotated[str, typer.Argument(help="The folder of a head, or the name of a shipped one.")] = DEFAULT_TARGET,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="Whose tokenizer shows phrases as text; `none` for lengths only."),
    ] = None,
    num_top: Annotated[int, typer.Option("--top", min=0, help="How many phrases to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a head's size, phrases, parameters and origin.

    Text needs the tokenizer of the target the head names; without it (`--target none`) lengths are shown.

    Example: phrasedraft inspect --top 10
    """
    from phrasedraft.cli.inspection import inspect_head

    inspect_head(head, target, num_top=num_top, as_json=as_json)
