"""The options that several verbs share, in groups; a verb takes a group as one parameter."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any

import typer

from phrasedraft.budget import AUTO, NumDraftTokens

DEFAULT_TARGET = "smollm2-135m"


def parse_nodes(value: str | int) -> NumDraftTokens:
    """The value of `--nodes`: a number of 0 or more, or `auto`.

    >>> parse_nodes("8"), parse_nodes("auto")
    (8, 'auto')
    """
    if value == AUTO:
        return AUTO
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < 0:
        raise typer.BadParameter(f"it may be 0 or more, a whole number, or `{AUTO}`")
    return number


TargetName = Annotated[
    str, typer.Option("--target", "-t", metavar="TARGET", help="`smollm2-135m`, a local folder, or a hub id.")
]
HeadName = Annotated[
    str | None,
    typer.Option(
        "--head", metavar="FOLDER", help="The head that drafts; `none`: nothing does. `smollm2-135m` comes with one."
    ),
]
SourceNames = Annotated[
    str | None,
    typer.Option(
        "--sources",
        metavar="NAMES",
        help="What drafts beside the head, comma-separated; `none`. Unless given: suffix-automaton,token-recycling.",
    ),
]
NumNodes = Annotated[int, typer.Option("--nodes", "-n", min=0, help="Most draft tokens a pass; 0 drafts nothing.")]
NodesOrAuto = Annotated[
    Any,  # NumDraftTokens; typer knows no union
    typer.Option(
        "--nodes",
        "-n",
        metavar="INTEGER|auto",
        parser=parse_nodes,
        help="Most draft tokens a pass; 0 drafts nothing, `auto` as many as are worth their time.",
    ),
]
MaxNewTokens = Annotated[int, typer.Option("--max-new-tokens", min=1, help="Most tokens of an answer.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How a target is loaded."""

    dtype: Annotated[str, typer.Option(help="`auto`, `float32`, `bfloat16` or `float16`.")] = "auto"
    device: Annotated[str, typer.Option(help="`auto`, or a torch device such as `cuda:0`.")] = "auto"
    attn_implementation: Annotated[
        str | None, typer.Option(help="`sdpa`, `eager` or another of transformers' implementations.")
    ] = None
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the target.")
    ] = False
    packed: Annotated[
        bool, typer.Option(" /--no-packed", help="Leave the linears as they are (CPU, float32).", show_default=False)
    ] = True


@dataclass(frozen=True, kw_only=True)
class TargetOptions(LoadOptions):
    """Which target answers, and which head drafts for it."""

    target: TargetName = DEFAULT_TARGET
    head: HeadName = None


@dataclass(frozen=True, kw_only=True)
class DraftingOptions(TargetOptions):
    """The same, and what drafts beside the head."""

    sources: SourceNames = None


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """How the target chooses each token."""

    temperature: Annotated[float, typer.Option(help="0 takes the most probable token.")] = 0.0
    top_k: Annotated[int | None, typer.Option(help="Draw from this many tokens.")] = None
    top_p: Annotated[float | None, typer.Option(help="Draw from the tokens that hold this much probability.")] = None
    repetition_penalty: Annotated[float, typer.Option(help="Above 1 makes earlier tokens less probable.")] = 1.0
    seed: Annotated[int | None, typer.Option(help="Repeats a drawn text; a fresh one unless given.")] = None


@dataclass(frozen=True, kw_only=True)
class StoppingOptions:
    """When an answer ends."""

    max_new_tokens: MaxNewTokens = 256
    min_new_tokens: Annotated[int, typer.Option(help="No end of text before this many tokens.")] = 0
    stop: Annotated[list[str] | None, typer.Option(help="End the answer before this text; repeat for more.")] = None
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after an end-of-text token.")] = False


def with_option_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """`verb` as typer can read it: a parameter that is a group of options stands for the group's options."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += [_parameter(field.name, field.default, field.type) for field in fields(parameter.annotation)]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(verb)
    def call(**values: Any) -> None:
        built = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        verb(**values, **built)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
