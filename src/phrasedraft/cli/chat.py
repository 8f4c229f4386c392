"""`phrasedraft chat`: talk to the target in the terminal."""

from typing import Annotated

import typer

from phrasedraft.budget import AUTO
from phrasedraft.cli.options import ChoiceOptions, DraftingOptions, NodesOrAuto, StoppingOptions, with_option_groups


@with_option_groups
def chat(
    target: DraftingOptions,
    choice: ChoiceOptions,
    stopping: StoppingOptions,
    nodes: NodesOrAuto = AUTO,
    system: Annotated[str | None, typer.Option(help="A system message, which is never trimmed.")] = None,
    chat_template_kwargs: Annotated[
        str, typer.Option(metavar="JSON", help="Arguments for the chat template, as a JSON object.")
    ] = "{}",
    show_drafts: Annotated[bool, typer.Option("--show-drafts", help="Mark what was drafted and accepted.")] = False,
) -> None:
    """Talk to the target; the cache of earlier turns is kept.

    `/reset` begins anew, `/stats` says what the drafts gave, `/exit` or Ctrl-D leaves, Ctrl-C stops an answer. With
    input from a pipe each line is a turn.

    Example: echo "Name a colour." | phrasedraft chat --max-new-tokens 16
    """
    from phrasedraft.cli.chatting import ChatOptions, talk

    options = ChatOptions(
        nodes=nodes, system=system, chat_template_kwargs=chat_template_kwargs, show_drafts=show_drafts
    )
    talk(target, choice, stopping, options)
