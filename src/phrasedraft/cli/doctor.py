"""`phrasedraft doctor`: what works on the user's own model, what falls back, and why."""

from typing import Annotated

import typer

from phrasedraft.cli.options import DEFAULT_TARGET, AsJson, LoadOptions, NumNodes, with_option_groups


@with_option_groups
def doctor(
    load: LoadOptions,
    model: Annotated[str, typer.Argument(help="`smollm2-135m`, a local folder, or a hub id.")] = DEFAULT_TARGET,
    head: Annotated[str | None, typer.Argument(help="The folder of a head to check against it.")] = None,
    nodes: NumNodes = 8,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Passes to time for each number of tokens.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Check on your own MODEL that drafting is exact and what it costs, and that HEAD fits it.

    Leaves with 0 when both can be used and with 2 when not.

    Example: phrasedraft doctor smollm2-135m --repeats 2
    """
    from phrasedraft.cli.checkup import check_up

    if not check_up(model, head, load, nodes=nodes, repeats=repeats, as_json=as_json):
        raise typer.Exit(2)
