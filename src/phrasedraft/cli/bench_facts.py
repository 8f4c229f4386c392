"""Where the results of a benchmark come from."""

import os
import shlex
import statistics
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from phrasedraft.cli.bench_entrants import Rival
from phrasedraft.cli.bench_options import BenchOptions
from phrasedraft.cli.loading import Loaded
from phrasedraft.cli.options import TargetOptions
from phrasedraft.drafters.head import Head
from phrasedraft.evaluation.bench.folder import ResultsFolder
from phrasedraft.evaluation.bench.meter import has_locked_counters
from phrasedraft.evaluation.bench.paper import head_facts
from phrasedraft.evaluation.bench.result import Difference, Provenance, Result
from phrasedraft.evaluation.bench.summary import DISTURBING_LOAD
from phrasedraft.evaluation.environment import environment
from phrasedraft.evaluation.fertility import bundled_texts, fertility, replay_text
from phrasedraft.phrases.pieces import TokenPieces

FERTILITY_NODES = 8
CHOSEN_PROMPTS = (
    "the prompts of a quick run were chosen to stand for their sets, not drawn: intervals are of them alone"
)


def provenance_of(
    target_options: TargetOptions,
    options: BenchOptions,
    folder: ResultsFolder,
    rivals: Mapping[str, Rival],
    *,
    target_parameters: int,
    differences: Sequence[Difference],
    remarks: Sequence[str],
) -> Provenance:
    """Command, machine, drafters, and what was found out once for the run."""
    settings = {**asdict(target_options), **asdict(options), "output": str(options.output)}
    return Provenance(
        command=shlex.join(["phrasedraft", *sys.argv[1:]]),
        started=folder.notes["started"],
        finished=datetime.now().astimezone().strftime("%Y-%m-%dT%H:%M:%S%z"),
        target=target_options.target,
        target_parameters=target_parameters,
        settings=settings,
        machine=environment(),
        drafters={label: _describe(rival, target_parameters) for label, rival in rivals.items()},
        warm_up_seconds=folder.notes.get("warm_up_seconds", 0.0),
        costs=folder.notes.get("costs", {}),
        fertility=folder.notes.get("fertility", []),
        differences=list(differences),
        remarks=list(remarks),
    )


def _describe(rival: Rival, target_parameters: int) -> dict[str, Any]:
    facts = {
        "parameters": rival.num_parameters,
        "target_share": rival.num_parameters / target_parameters,
        "source": rival.source,
    }
    return {**facts, **head_facts(rival.drafter)} if isinstance(rival.drafter, Head) else facts


def fertility_lines(loaded: Loaded) -> list[dict[str, Any]]:
    """The tokens a word of each bundled text takes, and the head's tokens a pass there, untrained for it."""
    target, lines = loaded.target, []
    if target.tokenizer is None:
        return []
    pieces = TokenPieces.from_tokenizer(target.tokenizer, max(target.identity.vocab_size, len(target.tokenizer)))
    for language, text in bundled_texts().items():
        counted = fertility(target.tokenizer, pieces, text)
        line: dict[str, Any] = {
            "text": language,
            "words": counted.num_words,
            "tokens": counted.num_tokens,
            "tokens_per_word": counted.tokens_per_word,
        }
        replayed = None
        if loaded.head is not None:
            replayed = replay_text(loaded.head, target, text, num_draft_tokens=FERTILITY_NODES)
        if replayed is not None:
            line |= {"tokens_per_pass": replayed.tokens_per_pass, "num_draft_tokens": FERTILITY_NODES}
        lines.append(line)
    return lines


def unused_remarks(folder: ResultsFolder, results: Sequence[Result]) -> list[str]:
    """Say that the folder has more than the report: it was measured with other options."""
    count = len(folder.results) - len(results)
    if not count:
        return []
    return [f"{count:,} answers measured before, with other options, are in results.jsonl and not in this report"]


def sitting_remarks(folder: ResultsFolder, results: Sequence[Result]) -> list[str]:
    """Say that a run was stopped and taken up again, and what that means."""
    starts = sorted(folder.notes.get("sittings", []))
    turns: dict[tuple[str, str, str, int], set[int]] = {}
    for result in results:
        place = (result.prompt_set, result.answer_id, result.dtype, result.batch_size)
        turns.setdefault(place, set()).add(bisect_right(starts, result.started_at))
    num_sittings, mixed = len(set().union(*turns.values())), sum(len(each) > 1 for each in turns.values())
    if num_sittings < 2:
        return []
    return [
        f"measured in {num_sittings} sittings: what learns as it goes (drafters, chosen nodes) began anew in each, and "
        f"in {mixed} of {len(turns):,} turns methods of different sittings are paired"
    ]


def energy_remarks() -> list[str]:
    """Say that there are counters of energy which only the system's owner may read."""
    return ["the processor's energy counters may not be read by this user"] if has_locked_counters() else []


def load_remarks(results: Sequence[Result]) -> list[str]:
    """How busy other programs were, where that matters or is not known."""
    loads = [result.other_load for result in results if result.other_load is not None]
    if not loads:
        return ["how busy other programs were is not known: `pip install psutil`"]
    disturbed = sum(load > DISTURBING_LOAD for load in loads) / len(loads)
    if disturbed < 0.05:
        return []
    return [
        f"other programs kept more than {DISTURBING_LOAD} of the {os.cpu_count()} cores busy during {disturbed:.0%} of "
        f"the answers (median {statistics.median(loads):.2f}): times are unsure"
    ]


def left_out_remarks(
    keys: Sequence[tuple[str, str, str, str, int]], results: Sequence[Result], context_limit: int | None
) -> list[str]:
    """The turns that were not answered."""
    answered = {result.key for result in results}
    return [
        f"{key[1]}: left out for {key[2]}, the conversation fills the target's context of {context_limit} tokens"
        for key in keys
        if key not in answered
    ]
