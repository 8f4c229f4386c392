"""What `phrasedraft bench` does: set up the methods, run them with progress, write and show the report."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from phrasedraft.budget import AUTO
from phrasedraft.budget.cost import NUM_NODES, measure_pass_cost
from phrasedraft.cli.bench_checks import (
    check_output,
    check_prompts,
    check_same_drafters,
    check_same_prompts,
    check_same_target,
    parse_dtypes,
)
from phrasedraft.cli.bench_entrants import Rival, entrants_of, rivals_of, weights_digest
from phrasedraft.cli.bench_facts import (
    CHOSEN_PROMPTS,
    energy_remarks,
    fertility_lines,
    left_out_remarks,
    load_remarks,
    provenance_of,
    sitting_remarks,
    unused_remarks,
)
from phrasedraft.cli.bench_options import BenchOptions
from phrasedraft.cli.bench_show import finish
from phrasedraft.cli.console import note_console
from phrasedraft.cli.loading import Loaded, head_folder, load
from phrasedraft.cli.options import TargetOptions
from phrasedraft.corpus.prompts import TrainingPrompt
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.errors import OptionError
from phrasedraft.evaluation.bench.crossover import crossovers
from phrasedraft.evaluation.bench.differences import find_differences
from phrasedraft.evaluation.bench.folder import ResultsFolder
from phrasedraft.evaluation.bench.result import Difference, Result
from phrasedraft.evaluation.bench.run import Conditions, expected_keys, make_groups, run_benchmark, warm_up
from phrasedraft.evaluation.bench.summary import POOLED, summarize
from phrasedraft.evaluation.dialogue import Dialogue, dialogue_of
from phrasedraft.evaluation.environment import environment
from phrasedraft.evaluation.prompts import BUNDLED, load_prompts, quick_prompts
from phrasedraft.phrases.pieces import TokenPieces


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What came of one dtype."""

    dtype: str
    results: list[Result]
    differences: list[Difference]
    remarks: list[str]
    rivals: list[Rival]
    target_parameters: int
    is_exact_dtype: bool


def bench_methods(target_options: TargetOptions, options: BenchOptions, *, as_json: bool) -> bool:
    """Run the benchmark and print its report; whether every text was identical where it has to be."""
    notes = note_console()
    check_output(options.output)
    dtypes = parse_dtypes(target_options.dtype)
    folder_of_head = head_folder(target_options.target, target_options.head)
    drafters = {spec.label: spec.load(folder_of_head) for spec in options.specs if not spec.is_the_head}
    sets = _read_sets(options)
    folder: ResultsFolder | None = None
    measured: list[Measured] = []
    for dtype in dtypes:
        loaded = load(replace(target_options, dtype=dtype))
        if _dtype_of(loaded) in {each.dtype for each in measured}:
            notes.print(f"`{dtype}` is {_dtype_of(loaded)} for this target, which is measured once")
            continue
        for drafter in drafters.values():
            drafter.check(loaded.target.identity)
        if folder is None:
            folder = ResultsFolder(options.output, _identity(target_options, options, loaded))
            if options.most_load is not None:
                count = folder.forget_disturbed(options.most_load)
                notes.print(f"{count} turns were disturbed by other programs and are measured again")
            folder.notes["sittings"] = [*folder.notes.get("sittings", []), time.time()]  # kept with the next note
        measured.append(_measure(loaded, options, drafters, sets, folder, notes))
    assert folder is not None
    results = [result for each in measured for result in each.results]
    differences = [difference for each in measured for difference in each.differences]
    remarks = [remark for each in measured for remark in each.remarks]
    provenance = provenance_of(
        target_options,
        options,
        folder,
        {rival.label: rival for each in measured for rival in each.rivals},
        target_parameters=measured[0].target_parameters,
        differences=differences,
        remarks=[
            *dict.fromkeys(remarks),
            *unused_remarks(folder, results),
            *sitting_remarks(folder, results),
            *energy_remarks(),
            *((CHOSEN_PROMPTS,) if options.typical else ()),
            *(crossovers(summarize(results, differences)) if len(options.sizes) > 1 else ()),
        ],
    )
    finish(options, results, provenance, notes, as_json=as_json)
    return not any(each.is_exact_dtype and each.differences for each in measured)


def _read_sets(options: BenchOptions) -> dict[str, tuple[TrainingPrompt, ...]]:
    """The prompts of each set, by the name that tables use."""
    sets: dict[str, tuple[TrainingPrompt, ...]] = {}
    for source, limit in options.sets.items():
        name = source if source in BUNDLED else Path(source).name.removesuffix(".gz").removesuffix(".jsonl")
        if name in sets:
            raise OptionError(f"two prompt sets are called `{name}`", hint="rename one of the files")
        if name == POOLED:
            raise OptionError(f"a prompt set is called `{name}`, which stands for all of them", hint="rename the file")
        is_chosen = options.typical and source in BUNDLED and source not in options.limited
        sets[name] = quick_prompts(source) if is_chosen else load_prompts(source, limit)
    return sets


def _identity(target_options: TargetOptions, options: BenchOptions, loaded: Loaded) -> dict[str, Any]:
    """What must be the same for results to belong to one run; prompts, node counts and drafters may be added."""
    return {
        **{name: value for name, value in asdict(target_options).items() if name != "dtype"},
        "head": loaded.head.vocabulary.fingerprint if loaded.head is not None else loaded.head_name,
        "head_weights": weights_digest(loaded.head.scorer) if loaded.head is not None else "",
        "max_new_tokens": options.max_new_tokens,
        "seed": options.seed,
        "head_temperature": loaded.head.config.temperature if loaded.head is not None else 1.0,
        "torch_threads": torch.get_num_threads(),
        **{name: value for name, value in environment().items() if name in ("processor", "accelerator", "versions")},
    }


def _dtype_of(loaded: Loaded) -> str:
    return str(loaded.target.model.dtype).removeprefix("torch.")


def _measure(
    loaded: Loaded,
    options: BenchOptions,
    drafters: Mapping[str, Drafter],
    sets: Mapping[str, Sequence[TrainingPrompt]],
    folder: ResultsFolder,
    notes: Console,
) -> Measured:
    """All batch sizes of one target."""
    target = loaded.target
    today = date.fromisoformat(folder.notes.setdefault("date", date.today().isoformat()))  # templates may write it
    dtype = _dtype_of(loaded)
    dialogues = {name: [dialogue_of(target, each, today) for each in prompts] for name, prompts in sets.items()}
    check_prompts(dialogues, target.context_limit)
    check_same_prompts(sets, folder)
    check_same_target(target, folder, options.output)
    rivals = rivals_of(loaded, options, drafters)
    check_same_drafters(rivals, folder, options.output)
    pieces = None
    if target.tokenizer is not None:
        pieces = TokenPieces.from_tokenizer(target.tokenizer, target.identity.vocab_size)
    results: list[Result] = []
    remarks: list[str] = []
    for size in options.sizes:
        conditions = Conditions(
            dtype=dtype, batch_size=size, max_new_tokens=options.max_new_tokens, seed=options.seed, pieces=pieces
        )
        groups = make_groups(dialogues, size)
        entrants = entrants_of(loaded, rivals, options)  # anew, as some learn from what they are asked
        keys = expected_keys(groups, entrants, conditions)
        if any(key not in folder.results for key in keys):
            _prepare(loaded, rivals, options, dialogues, folder, conditions, notes)
        with _bar(notes, len(keys), sum(key in folder.results for key in keys)) as show:
            found = run_benchmark(groups, entrants, folder, conditions, on_result=show)
        results += found
        remarks += left_out_remarks(keys, found, target.context_limit)
    return Measured(
        dtype=dtype,
        results=results,
        differences=find_differences(target, dialogues, results),
        remarks=[*remarks, *load_remarks(results)],
        rivals=rivals,
        target_parameters=sum(parameter.numel() for parameter in target.model.parameters()),
        is_exact_dtype=target.model.dtype == torch.float32,
    )


def _prepare(
    loaded: Loaded,
    rivals: Sequence[Rival],
    options: BenchOptions,
    dialogues: Mapping[str, Sequence[Dialogue]],
    folder: ResultsFolder,
    conditions: Conditions,
    notes: Console,
) -> None:
    """Warm everything up, and find out once what a pass costs and how the target spells."""
    firsts = [dialogue.tokens([]) or [] for each in dialogues.values() for dialogue in each]
    firsts = firsts[: conditions.batch_size]
    entrants = entrants_of(loaded, rivals, options)  # not those that are measured, which would learn from it
    seconds = warm_up(firsts, [entrant.method for entrant in entrants])
    notes.print(f"warm-up took {seconds:.1f} s and does not count")
    folder.note("warm_up_seconds", folder.notes.get("warm_up_seconds", 0.0) + seconds)
    costs, dtype = folder.notes.get("costs", {}), conditions.dtype
    if dtype not in costs:
        counts = sorted({*NUM_NODES, *(count for rival in rivals for count in rival.node_counts if count != AUTO)})
        costs[dtype] = measure_pass_cost(loaded.target, num_nodes=counts).as_dict()
        folder.note("costs", costs)
    if "fertility" not in folder.notes:
        folder.note("fertility", fertility_lines(loaded))
    folder.note("started", folder.notes.get("started", time.strftime("%Y-%m-%dT%H:%M:%S%z")))


@contextmanager
def _bar(notes: Console, total: int, done: int) -> Iterator[Any]:
    """A bar with a rate and an estimate, drawn between two answers only, so that drawing is never measured."""
    notes.print(f"{total - done} answers to measure")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=notes,
        disable=not notes.is_terminal,
        auto_refresh=False,
        speed_estimate_period=600,
    ) as progress:
        task = progress.add_task("answers", total=total, completed=done, rate="")

        def show(result: Result) -> None:
            progress.update(task, advance=1, rate=f"{len(result.tokens) / result.seconds:.1f} tokens/s")
            progress.refresh()

        yield show
