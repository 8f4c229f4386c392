"""What `phrasedraft bench` does: set up the methods, run them with progress, write and show the report."""

import hashlib
import resource
import shlex
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from phrasedraft.cli.console import compact_table, data_console, note_console, print_json
from phrasedraft.cli.loading import Loaded, load
from phrasedraft.cli.options import TargetOptions
from phrasedraft.decoding import Decoder, first_divergence
from phrasedraft.drafters import load_drafter
from phrasedraft.errors import OptionError
from phrasedraft.evaluation.benchmark import Result, ResultsFolder, run_benchmark, warm_up
from phrasedraft.evaluation.dialogue import Dialogue, dialogue_of
from phrasedraft.evaluation.methods import GENERATE, PLAIN, Drafting, Method, TransformersGenerate
from phrasedraft.evaluation.plots import plot_speedups
from phrasedraft.evaluation.prompts import load_prompts
from phrasedraft.evaluation.report import Summary, environment, summarize, tables, write_report

BUSY_LOAD = 0.5
"""A load average this far above the threads in use means that something else is running."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is measured, and where it goes."""

    prompts: str
    limit: int
    nodes: str
    drafters: tuple[str, ...]
    max_new_tokens: int
    seed: int
    output: Path

    @property
    def node_counts(self) -> list[int]:
        """The node counts asked for."""
        try:
            counts = [int(part) for part in self.nodes.split(",")]
        except ValueError:
            counts = []
        if not counts or min(counts) < 1 or len(set(counts)) < len(counts):
            raise OptionError(
                f"`--nodes` is `{self.nodes}`, it may be different whole numbers of 1 or more: `4,8,16`",
                hint="our loop without drafts is always measured too",
            )
        return counts


def bench_methods(target_options: TargetOptions, options: BenchOptions, *, as_json: bool) -> bool:
    """Run the benchmark and print its report; whether every text was identical where it has to be."""
    notes = note_console()
    node_counts = options.node_counts
    drafters = {(name, nodes): load_drafter(name) for name in options.drafters for nodes in node_counts}
    prompts = load_prompts(options.prompts, options.limit)
    loaded = load(target_options)
    today = date.today()
    dialogues = [dialogue_of(loaded.target, prompt, today) for prompt in prompts]
    methods: list[Method] = [TransformersGenerate(loaded.target), Drafting(loaded.plain_decoder(), PLAIN)]
    if loaded.head is not None:
        methods += [Drafting(loaded.decoder(nodes), f"phrase, {nodes} nodes") for nodes in node_counts]
    methods += [
        Drafting(Decoder(loaded.target, drafter, num_draft_tokens=nodes), f"{name}, {nodes} nodes")
        for (name, nodes), drafter in drafters.items()  # one each, so that no method learns from another
    ]
    folder = ResultsFolder(options.output, _identity(target_options, options, loaded))
    keys = _keys(dialogues, methods)
    num_missing = sum(key not in folder.results for key in keys)
    warm_up_seconds = warm_up(dialogues[0].tokens([]) or [], methods) if num_missing else 0.0
    notes.print(f"warm-up took {warm_up_seconds:.1f} s and does not count; {num_missing} answers to measure")
    results = _run(dialogues, methods, folder, options, notes)
    summaries = summarize(results)
    remarks = [
        *_load_remarks(results),
        *_left_out_remarks(keys, results, loaded.target.context_limit),
        *_difference_remarks(loaded, dialogues, summaries, results),
    ]
    facts = {
        "command": shlex.join(["phrasedraft", *sys.argv[1:]]),
        **asdict(target_options),
        "head": loaded.head_name,
        **asdict(options),
        "warm-up seconds": f"{warm_up_seconds:.1f}",
        "load average while measuring": f"{_median_load(results):.2f}",
        "peak resident MB": _peak_megabytes(),
        **environment(),
    }
    write_report(options.output / "report.md", summaries, facts, remarks)
    plot_speedups(options.output / "speedup.png", summaries)
    for remark in remarks:
        notes.print(escape(remark))
    if as_json:
        print_json(
            {"methods": [each.as_dict() for each in summaries], "facts": {**facts, "output": str(options.output)}}
        )
    else:
        _show(data_console(), summaries)
    is_exact = all(each.exact_token_parity == each.num_prompts for each in summaries)
    return is_exact or bool(loaded.target.model.dtype != torch.float32)


def _identity(target_options: TargetOptions, options: BenchOptions, loaded: Loaded) -> dict[str, Any]:
    """What must be the same for results to belong to one run."""
    return {
        **asdict(target_options),
        "head": loaded.head.vocabulary.fingerprint if loaded.head is not None else loaded.head_name,
        "head_weights": _weights_digest(loaded),
        "prompts": options.prompts,
        "max_new_tokens": options.max_new_tokens,
        "torch_threads": torch.get_num_threads(),
    }


def _weights_digest(loaded: Loaded) -> str:
    if loaded.head is None:
        return ""
    digest = hashlib.sha256()
    for tensor in loaded.head.scorer.state_dict().values():
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _run(
    dialogues: Sequence[Dialogue],
    methods: Sequence[Method],
    folder: ResultsFolder,
    options: BenchOptions,
    notes: Console,
) -> list[Result]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    keys = _keys(dialogues, methods)
    done = sum(key in folder.results for key in keys)
    shows = notes.is_terminal
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=notes, disable=not shows, auto_refresh=False
    ) as progress:
        task = progress.add_task("answers", total=len(keys), completed=done, rate="")

        def show(result: Result) -> None:  # drawn between two answers only, so that drawing is never measured
            progress.update(task, advance=1, rate=f"{len(result.tokens) / result.seconds:.1f} tokens/s")
            progress.refresh()

        return run_benchmark(
            dialogues,
            methods,
            folder,
            max_new_tokens=options.max_new_tokens,
            seed=options.seed,
            on_result=show,
        )


def _median_load(results: Sequence[Result]) -> float:
    return statistics.median(result.load_average for result in results)


def _load_remarks(results: Sequence[Result]) -> list[str]:
    load, own = _median_load(results), torch.get_num_threads()
    if load <= own + BUSY_LOAD:
        return []
    return [
        f"the load average was {load:.1f}, this run alone makes {own}: something else was running, times are unsure"
    ]


def _keys(dialogues: Sequence[Dialogue], methods: Sequence[Method]) -> list[tuple[str, str]]:
    """Every answer there is to be, as results are kept: by its id and the method's name."""
    return [(answer_id, each.name) for dialogue in dialogues for answer_id in dialogue.answer_ids for each in methods]


def _left_out_remarks(
    keys: Sequence[tuple[str, str]], results: Sequence[Result], context_limit: int | None
) -> list[str]:
    """The turns that were not answered."""
    answered = {(result.prompt_id, result.method) for result in results}
    return [
        f"{answer_id}: left out for {method}, the conversation fills the target's context of {context_limit} tokens"
        for answer_id, method in keys
        if (answer_id, method) not in answered
    ]


def _difference_remarks(
    loaded: Loaded, dialogues: Sequence[Dialogue], summaries: Sequence[Summary], results: Sequence[Result]
) -> list[str]:
    """For each text that is not the one of generate(): where they part and how close the target's choice was."""
    by_key = {(result.prompt_id, result.method): result for result in results}
    places = {name: (each, turn) for each in dialogues for turn, name in enumerate(each.answer_ids)}
    remarks = []
    for summary in summaries:
        for difference in summary.differences:
            mine = by_key[difference.prompt_id, summary.method]
            theirs = by_key[difference.prompt_id, GENERATE]
            dialogue, turn = places[difference.prompt_id]
            earlier, own_earlier = (
                [by_key[name, method].tokens for name in dialogue.answer_ids[:turn]]
                for method in (GENERATE, summary.method)
            )
            if earlier != own_earlier:
                remarks.append(
                    f"{difference.prompt_id}: {summary.method} and {GENERATE} go on from different earlier answers"
                )
                continue
            prompt = dialogue.tokens(earlier) or []
            parting = first_divergence(loaded.target, prompt, theirs.tokens, mine.tokens)
            what = (
                f"part at token {parting.position}, top-2 gap {parting.top_two_gap:.2e}"
                if parting is not None
                else f"are the same but end for `{mine.finish_reason}` instead of `{theirs.finish_reason}`"
            )
            remarks.append(f"{difference.prompt_id}: the texts of {summary.method} and {GENERATE} {what}")
    return remarks


def _peak_megabytes() -> int:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes // (1024 * 1024 if sys.platform == "darwin" else 1024)


def _show(console: Console, summaries: Sequence[Summary]) -> None:
    for header, rows in tables(summaries):
        table = compact_table(header)
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
