"""`phrasedraft trace`: the hidden states behind a target's answers, written once and used by every training."""

from pathlib import Path
from typing import Annotated, Any

import typer

from phrasedraft.cli.console import note_console, print_json
from phrasedraft.cli.loading import load_target_quietly
from phrasedraft.cli.options import AsJson, LoadOptions
from phrasedraft.corpus.answers import check_tokens, read_corpora
from phrasedraft.errors import OptionError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.guards import check_served
from phrasedraft.training.traces import check_traces, collect_traces, read_traces


def trace(
    target: Annotated[str, typer.Argument(help="`smollm2-135m`, a local folder, or a hub id.")],
    corpus: Annotated[
        list[Path], typer.Option("--corpus", metavar="FILE", help="Answers of the target, `.jsonl[.gz]`; repeat it.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder of traces; `fit --work DIR` looks in DIR/traces.")
    ],
    layers: Annotated[
        str, typer.Option(help="Which hidden states: `-1` is what the language-model head reads; `15,22,-1` are three.")
    ] = "-1",
    dtype: Annotated[str, typer.Option(help="`auto`, `float32`, `bfloat16` or `float16`.")] = "auto",
    device: Annotated[str, typer.Option(help="`auto` or a torch device.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Write the hidden states of TARGET at every token of its answers, and check them against the passes of serving.

    Size and time are announced first; whole shards are kept, so a run that was stopped goes on.

    Example: phrasedraft trace smollm2-135m --corpus answers.jsonl -o my-head.work/traces --layers 15,22,-1
    """
    features = FeatureSpec(layers=_layers(layers))
    corpora = read_corpora(corpus)
    host = load_target_quietly(target, LoadOptions(dtype=dtype, device=device))
    lines: list[dict[str, Any]] = []
    for part in corpora:
        check_tokens(part, host.identity.vocab_size, host.identity.name)
        folder = output / part.name
        collect_traces(host, part.answers, features, folder, console=note_console())
        found = read_traces(folder, part.answers, features.layers)
        check_traces(host, found, features)
        own = check_served(host, found, features)
        num_bytes = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        lines.append(
            {
                "corpus": part.name,
                "folder": str(folder),
                "answers": len(part.answers),
                "rows": part.num_response_tokens,
                "bytes": num_bytes,
                "first_choice_share": own,
            }
        )
    if as_json:
        print_json({"layers": list(features.layers), "traces": lines})
        return
    for line in lines:
        typer.echo(
            f"{line['folder']}: {line['answers']:,} answers, {line['rows']:,} rows, {line['bytes'] / 1e6:,.0f} MB; "
            f"{line['first_choice_share']:.0%} of the tokens checked are the target's first choice"
        )


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise OptionError(
            f"`--layers` is `{text}`, it must be whole numbers like `-1` or `15,22,-1`",
            hint="0 is the embedding, the number of layers (or -1) the output of the last one after the final norm",
        ) from None
