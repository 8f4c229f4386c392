"""What `phrasedraft distill` does: prompts are read, the target or a server answers, and the answers are counted."""

import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import typer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from phrasedraft.cli.console import note_console, print_json
from phrasedraft.cli.loading import load_target_quietly
from phrasedraft.cli.options import LoadOptions
from phrasedraft.corpus.answers import Corpus
from phrasedraft.corpus.distill import DistillSettings, distill
from phrasedraft.corpus.endpoint import Endpoint, EndpointSettings, distill_through
from phrasedraft.corpus.prompts import PromptFile, read_prompts
from phrasedraft.corpus.self_prompts import SelfPromptSettings, make_prompts
from phrasedraft.corpus.template import TemplateSettings
from phrasedraft.errors import OptionError, TargetError, first_line
from phrasedraft.target import TransformersTarget
from phrasedraft.target.embedded import EMBEDDED_NAME, embedded_folder
from phrasedraft.training.settings import with_overrides

SELF = "self"
"""The name of the answers to prompts the target made up."""

BATCH_OF_REQUESTS = 256
"""The prompts of a block where a server answers: many, as it is idle while the last of a block are answered."""


@dataclass(frozen=True, kw_only=True)
class DistillOptions:
    """What the verb was given."""

    target: str
    prompts: tuple[Path, ...]
    output: Path
    self_prompts: int
    endpoint: str | None
    model: str | None
    concurrency: int
    overrides: tuple[str, ...]
    template: TemplateSettings
    dtype: str
    device: str


def distill_all(options: DistillOptions, *, as_json: bool) -> None:
    """Answer every prompt file, then the target's own prompts, and say what came of it."""
    start = time.perf_counter()
    endpoint = _endpoint(options)
    settings = with_overrides(
        DistillSettings(batch_size=BATCH_OF_REQUESTS if endpoint else 32, template=options.template), options.overrides
    )
    files = [(read_prompts(path), path) for path in options.prompts]
    outputs = _outputs(options, [file.name for file, _ in files])
    if endpoint is None:
        target = load_target_quietly(options.target, LoadOptions(dtype=options.dtype, device=options.device))
    else:
        target = load_without_weights(options.target)
    lines = []
    for index, output in enumerate(outputs):
        prompts = files[index][0] if index < len(files) else _self_prompts(target, options, settings, endpoint)
        if endpoint is None:
            corpus = distill(target, prompts, settings, output, console=note_console())
        else:
            corpus = distill_through(target, prompts, settings, endpoint, output, console=note_console())
        lines.append(_counted(target, prompts, corpus, output))
    _show(settings, lines, time.perf_counter() - start, as_json=as_json)


def load_without_weights(name: str) -> TransformersTarget:
    """The tokenizer, template and settings of a target, which is all that asking a server needs."""
    folder = str(embedded_folder()) if name == EMBEDDED_NAME else name
    local = {"local_files_only": Path(folder).is_dir()}
    try:
        config = AutoConfig.from_pretrained(folder, **local)
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config).eval()
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        raise TargetError(
            f"tokenizer and settings of `{name}` cannot be loaded: {first_line(error)}",
            hint=f"give `{EMBEDDED_NAME}`, a local folder with a transformers model, or a hub id that can be reached",
        ) from error
    with suppress(OSError):  # not every model has one
        model.generation_config = GenerationConfig.from_pretrained(folder, **local)
    return TransformersTarget(model, tokenizer, packed=False, check=False, name=name)


def _endpoint(options: DistillOptions) -> EndpointSettings | None:
    if not options.prompts and not options.self_prompts:
        raise OptionError("there are no prompts", hint="give `--prompts FILE`, or `--self-prompts 1000`")
    if options.endpoint is None:
        if options.model is not None:
            raise OptionError(f"`--model {options.model}` is the name a server knows", hint="give `--endpoint URL` too")
        return None
    if options.model is None:
        raise OptionError("`--endpoint` needs `--model`, the name the server knows the target by")
    return EndpointSettings(url=options.endpoint, model=options.model, concurrency=options.concurrency)


def _outputs(options: DistillOptions, names: list[str]) -> list[Path]:
    """Where each file of answers goes, the target's own prompts last; no place may be named twice or be a prompt's."""
    names = [*names, SELF] if options.self_prompts else names
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise OptionError(
            f"two files of answers would be called `{twice}.jsonl`", hint="give each prompt file a name of its own"
        )
    outputs = [options.output / f"{name}.jsonl" for name in names]
    for path in options.prompts:
        if path.resolve() in {output.resolve() for output in outputs}:
            raise OptionError(f"the answers would be written over the prompts `{path}`", hint="give another `--output`")
    return outputs


def _self_prompts(
    target: TransformersTarget, options: DistillOptions, settings: DistillSettings, endpoint: EndpointSettings | None
) -> PromptFile:
    """The prompts the target makes up, beside the answers."""
    path = options.output / f"{SELF}.prompts.jsonl"
    own = SelfPromptSettings(batch_size=settings.batch_size, seed=settings.seed, template=settings.template)
    if endpoint is None:
        return _named(make_prompts(target, options.self_prompts, own, path, console=note_console()))
    with Endpoint(target, own.as_distill, endpoint) as server:
        made_by = {"model": endpoint.model}
        return _named(
            make_prompts(
                target,
                options.self_prompts,
                own,
                path,
                answerer=server.answerer,
                made_by=made_by,
                console=note_console(),
            )
        )


def _named(prompts: PromptFile) -> PromptFile:
    return replace(prompts, name=SELF)


def _counted(target: TransformersTarget, prompts: PromptFile, corpus: Corpus, path: Path) -> dict[str, Any]:
    """The figures of one file."""
    cut = sum(answer.response[-1] not in target.eos_token_ids for answer in corpus.answers)
    return {
        "path": str(path),
        "prompts": len(prompts.prompts),
        "answers": len(corpus.answers),
        "left_out": prompts.num_answers - len(corpus.answers),
        "tokens": corpus.num_response_tokens,
        "cut_at_limit": cut,
    }


def _show(settings: DistillSettings, lines: list[dict[str, Any]], seconds: float, *, as_json: bool) -> None:
    if as_json:
        totals = {name: sum(line[name] for line in lines) for name in ("answers", "tokens", "cut_at_limit", "left_out")}
        template = asdict(settings.template)
        print_json({"files": lines, **totals, "seconds": round(seconds, 2), "template": template})
        return
    for line in lines:
        counts = f"{line['answers']} answers\t{line['tokens']} tokens\t{line['cut_at_limit']} cut at the limit"
        typer.echo(f"{line['path']}\t{counts}")
