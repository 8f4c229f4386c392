"""What `phrasedraft replay` does: read the head, gather answers and traces, replay, show the account."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from phrasedraft.cli.console import data_console, note_console, print_json
from phrasedraft.cli.loading import load_target_quietly
from phrasedraft.cli.options import DEFAULT_TARGET, LoadOptions
from phrasedraft.cli.replay_tables import show_replay
from phrasedraft.cli.replayed_answers import AnswerSet, generate_set, read_sets, record
from phrasedraft.drafters import Drafter, head_of, load_drafter, load_head
from phrasedraft.drafters.loading import TRAINING_FREE
from phrasedraft.errors import OptionError, TargetError
from phrasedraft.evaluation.replay import RecordedAnswer, refuse_observer
from phrasedraft.evaluation.replay_plots import plot_replay, require_matplotlib
from phrasedraft.evaluation.replay_sets import NodeCountReport, ReplaySettings, replay_sets
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.target import TransformersTarget, cache_folder
from phrasedraft.target.protocol import Support

MAX_NEW_TOKENS = 256
"""Most tokens of an answer to a prompt, unless given."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What is replayed, how, and where things are kept."""

    head: str
    target: str | None
    prompts: tuple[str, ...]
    corpora: tuple[Path, ...]
    nodes: str
    limit: int | None
    work: Path | None
    max_new_tokens: int | None
    trained_on: bool
    plots: Path | None

    def __post_init__(self) -> None:
        if not self.prompts and not self.corpora:
            raise OptionError(
                "there is nothing to replay: no prompts and no answers were given",
                hint="give `--corpus FILE` with answers of the target, or `--prompts FILE`, such as `gsm8k_test`",
            )

    @property
    def settings(self) -> ReplaySettings:
        """The node counts asked for."""
        try:
            return ReplaySettings(node_counts=tuple(int(part) for part in self.nodes.split(",")))
        except ValueError:  # `OptionError` is one
            raise OptionError(
                f"`--nodes` is `{self.nodes}`, it may be different whole numbers of 1 or more: `4,8,16`",
                hint="a draft of no tokens would be plain decoding, one token a pass",
            ) from None


def replay_head(load: LoadOptions, options: ReplayOptions, *, as_json: bool) -> None:
    """Replay a drafter and print the account; nothing is loaded before the options are known to be right."""
    settings = options.settings
    notes = note_console()
    if options.plots is not None:
        require_matplotlib()
    if options.max_new_tokens is not None and not options.prompts:
        warnings.warn("`--max-new-tokens` has no effect on a corpus, whose answers are there", stacklevel=1)
    is_named = options.head in TRAINING_FREE or "+" in options.head
    drafter = load_drafter(options.head) if is_named else load_head(options.head)
    refuse_observer(drafter)
    work = options.work or cache_folder() / "replay"
    given = read_sets(options.corpora, drafter, limit=options.limit, trained_on=options.trained_on, notes=notes)
    target = _load(load, options, drafter)
    drafter.check(target.identity)
    sets = _unique([*given, *_generate(options, drafter, target, work, notes)])
    recorded = {name: record(answers, drafter, target, work, notes) for name, answers in sets.items()}
    if target.support is not Support.TREE:
        settings = replace(settings, chain_only=True)
        notes.print(escape(f"drafts are replayed as one path: {'; '.join(target.notes)}"), soft_wrap=True)
    started = time.perf_counter()
    reports = _replay(drafter, recorded, settings, target, notes)
    seconds = time.perf_counter() - started
    drawn = plot_replay(options.plots, reports) if options.plots is not None else []
    for path in drawn:
        notes.print(f"wrote {escape(str(path))}", soft_wrap=True)
    if as_json:
        print_json(
            {
                "head": options.head,
                "target": target.identity.name,
                "temperature": head.config.temperature if (head := head_of(drafter)) is not None else None,
                "seconds": round(seconds, 2),
                "sets": {name: _facts(answers) for name, answers in sets.items()},
                "nodes": {str(report.num_nodes): report.as_dict() for report in reports},
                "plots": [str(path) for path in drawn],
            }
        )
        return
    show_replay(data_console(), reports)


def _load(load: LoadOptions, options: ReplayOptions, drafter: Drafter) -> TransformersTarget:
    head = head_of(drafter)
    named = head.config.target_name if head is not None else DEFAULT_TARGET
    try:
        return load_target_quietly(options.target or named, load)
    except TargetError as error:
        if options.target is not None:
            raise
        raise TargetError(
            f"the head names a target that is not here: {error}", hint="give the target with `--target`"
        ) from error


def _generate(
    options: ReplayOptions, drafter: Drafter, target: TransformersTarget, work: Path, notes: Console
) -> list[AnswerSet]:
    return [
        generate_set(
            source,
            drafter,
            target,
            limit=options.limit,
            max_new_tokens=options.max_new_tokens or MAX_NEW_TOKENS,
            work=work,
            notes=notes,
        )
        for source in options.prompts
    ]


def _unique(sets: Sequence[AnswerSet]) -> dict[str, AnswerSet]:
    """The sets by name; a second one of the same name is numbered."""
    named: dict[str, AnswerSet] = {}
    for answers in sets:
        name, number = answers.name, 1
        while name in named:
            number += 1
            name = f"{answers.name}-{number}"
        named[name] = answers
    return named


def _replay(
    drafter: Drafter,
    recorded: Mapping[str, Sequence[RecordedAnswer]],
    settings: ReplaySettings,
    target: TransformersTarget,
    notes: Console,
) -> list[NodeCountReport]:
    """Replay with a bar that shows passes a second."""
    if target.tokenizer is None:
        raise OptionError(f"target `{target.identity.name}` has no tokenizer, which tells the kinds of phrases apart")
    pieces = TokenPieces.from_tokenizer(target.tokenizer, target.identity.vocab_size)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=notes, disable=not notes.is_terminal
    ) as progress:
        task = progress.add_task("replayed answers", total=sum(map(len, recorded.values())), rate="")
        started, num_passes = time.perf_counter(), 0

        def show(passes: int) -> None:
            nonlocal num_passes
            num_passes += passes
            rate = num_passes / max(time.perf_counter() - started, 1e-9)
            progress.update(task, advance=1, rate=f"{rate:,.0f} passes/s")

        return replay_sets(drafter, recorded, settings, target.embed, pieces, on_answer=show)


def _facts(answers: AnswerSet) -> dict[str, str | int]:
    return {
        "answers": len(answers.answers),
        "tokens": answers.num_tokens,
        "max_new_tokens": answers.max_new_tokens,
        "sha256": answers.sha256,
    }
