"""`report.md` and its pictures: what a benchmark found, in sentences and tables, made from its results alone."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from phrasedraft.evaluation.bench.markdown import markdown_table, number, without_empty_columns
from phrasedraft.evaluation.bench.plots import PICTURES, draw_plots
from phrasedraft.evaluation.bench.report_tables import (
    NUM_DIFFERENCES,
    difference_table,
    fertility_table,
    headline,
    summary_tables,
)
from phrasedraft.evaluation.bench.result import GENERATE, Provenance, Result
from phrasedraft.evaluation.bench.summary import (
    DISTURBING_LOAD,
    POOLED,
    Summary,
    chief_sections,
    main_conditions,
    sections,
    summarize,
)
from phrasedraft.evaluation.bench.table import read_results
from phrasedraft.whole_file import replace_file

REPORT_FILE = "report.md"

READING_HELP = (
    ("over generate(), over plain loop", "seconds per token of the baseline over those of the method, all answers both "
     "have taken together; in brackets the 95 % bootstrap interval over prompts (batches where there are any), over "
     "all sets with as many prompts of each set as it has; `pairs` says how many there are: under some ten, a "
     "bootstrap interval is too narrow"),
    ("tokens/s", "generated tokens over wall-clock seconds, the reading of the prompt included"),
    ("first token ms", "median wait for the first token"),
    ("identical, same end", "answers with the same tokens, and with the same reason to stop, as `generate()`'s of the "
     "same dtype and batch size"),
    ("worst gap", "where a text parts from `generate()`'s, the difference of the target's two largest logits; the "
     "largest one"),
    ("tokens/pass", "tokens per pass of the target, the bonus token (the target's own) included; in brackets the 95 % "
     "bootstrap interval over prompts"),
    ("nodes/pass", "draft tokens checked per pass, those passes included that drafted nothing"),
    ("landing", "share of passes that accept at least one draft token"),
    ("banked", "draft tokens accepted per pass that accepts any; tokens/pass = 1 + landing x banked"),
    ("acceptance", "accepted draft tokens over drafted ones"),
    ("ms/pass", "time of our own loop per pass of the target; in it `draft` proposes, `verify` runs the target, `keep` "
     "commits to the cache, `other` is the rest"),
    ("prompt s", "seconds spent reading prompts, all answers together"),
    ("peak MB", "most memory the process held (10^6 bytes), every loaded model in it, and what was freed but kept"),
    ("what learns", "sources beside a head, token recycling and the choice of nodes learn from prompt to prompt and "
     "set to set, in the order of the run; a single answer in a new process begins with nothing"),
    ("J/token", "energy per generated token by the machine's counters; - where it has none"),
)  # fmt: skip

CAPTIONS = {
    "speedup.png": "Speed-up over `generate()` with 95 % intervals",
    "tokens_per_pass.png": "Tokens per pass against draft tokens a pass, 95 % intervals",
    "cost.png": "The time of a pass against its draft tokens (band: quartiles), and where each method runs",
    "accepted_lengths.png": "How many draft tokens a pass accepts",
    "categories.png": "Accepted tokens by the kind of phrase they came in",
}


def write_report(folder: Path, results: Sequence[Result], provenance: Provenance) -> None:
    """Write `report.md` and its pictures into `folder`; without matplotlib there are no pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    provenance = Provenance.from_dict(json.loads(json.dumps(provenance.as_dict())))
    summaries = summarize(results, provenance.differences, provenance.drafters)
    pictures = draw_plots(folder, results, summaries, provenance) if summaries else []
    replace_file(folder / REPORT_FILE, _report(results, provenance, summaries, pictures).encode())


def rebuild(folder: Path) -> None:
    """Write the report anew from `results.parquet` in `folder`, and nothing else."""
    write_report(folder, *read_results(folder))


def _report(
    results: Sequence[Result], provenance: Provenance, summaries: Sequence[Summary], pictures: Sequence[str]
) -> str:
    parts = [f"# Benchmark: {provenance.target}"]
    if summaries:
        conditions = _named(main_conditions(summaries))
        parts += [_sentences(summaries)]
        parts += [f"Speed-up over `generate()` with its 95 % interval, and tokens per pass ({conditions}):"]
        parts += [headline(summaries)]
    else:
        parts += ["There are no results."]
    parts += [f"![{CAPTIONS[name]}]({name})\n\n*{CAPTIONS[name]}*" for name in PICTURES if name in pictures]
    parts += _set_sections(summaries)
    if provenance.fertility:
        parts += ["## Fertility", fertility_table(provenance.fertility)]
    parts += ["## Differences from generate()", _differences(provenance)]
    parts += ["## Load", _load(results, provenance)]
    parts += ["## How to read this", "\n".join(f"- **{name}**: {meaning}." for name, meaning in READING_HELP)]
    parts += ["## Where this comes from", *_origin(provenance)]
    return "\n\n".join(parts) + "\n"


def section_title(prompt_set: str, conditions: tuple[str, int], summaries: Sequence[Summary]) -> str:
    """The name of a set, with dtype and batch size where they differ within the run."""
    name = "all sets" if prompt_set == POOLED else prompt_set
    several = len({each.conditions for each in summaries}) > 1
    return f"{name}, {_named(conditions)}" if several else name


def _named(conditions: tuple[str, int]) -> str:
    return f"{conditions[0]}, batch size {conditions[1]}"


def _sentences(summaries: Sequence[Summary]) -> str:
    return "\n".join(
        f"- **{section_title(*key, summaries)}**: {summary_sentence(mine)}"
        for key, mine in chief_sections(summaries).items()
    )


def summary_sentence(summaries: Sequence[Summary]) -> str:
    """What one set comes to, in a sentence: the fastest method, and whether texts are those of `generate()`.

    Of methods that answered fewer prompts than others nothing is said.
    """
    raced = [each for each in summaries if each.over_generate is not None]
    most = max((each.over_generate.num_prompts for each in raced if each.over_generate), default=0)
    raced = [each for each in raced if each.over_generate and each.over_generate.num_prompts == most]
    others = [each for each in summaries if each.method != GENERATE]
    num_identical, num_compared = sum(e.num_identical for e in others), sum(e.num_compared for e in others)
    texts = f"{num_identical:,} of {num_compared:,} answers are identical to those of `generate()`."
    if not raced:
        return f"nothing was measured against `generate()`; {texts}"
    best = max(raced, key=lambda each: each.over_generate.ratio if each.over_generate else 0.0)
    assert best.over_generate is not None
    ratio, low = best.over_generate.ratio, best.over_generate.low
    passes = f" at {best.tokens_per_pass:.2f} tokens per pass" if best.stats is not None and best.drafter else ""
    found = f"`{best.method}`, {best.over_generate} times as fast as `generate()`{passes}"
    if ratio <= 1:
        return f"nothing is faster than `generate()`; nearest is {found}; {texts}"
    sure = "" if low is not None and low > 1 else ", which its interval does not make sure"
    return f"fastest is {found}{sure}; {texts}"


def _set_sections(summaries: Sequence[Summary]) -> list[str]:
    parts = []
    for key, mine in sections(summaries).items():
        parts.append(f"## {section_title(*key, summaries)}")
        parts += [markdown_table(*without_empty_columns(header, rows)) for header, rows in summary_tables(mine) if rows]
    return parts


def _differences(provenance: Provenance) -> str:
    count = len(provenance.differences)
    if not count:
        return "None: every answer has the tokens and the reason to stop of `generate()`'s."
    shown = "" if count <= NUM_DIFFERENCES else f" The {NUM_DIFFERENCES} with the largest gaps:"
    return (
        f"{count:,} answers are not those of `generate()` under the same dtype and batch size.{shown} `position` is "
        "the first token that differs (-: only the reason to stop does), `gap` the difference of the target's two "
        f"largest logits there (-: earlier turns differ already).\n\n{difference_table(provenance)}"
    )


def _load(results: Sequence[Result], provenance: Provenance) -> str:
    warm_up = f"Warm-up took {provenance.warm_up_seconds:.1f} s and counts in no figure."
    loads = [result.other_load for result in results if result.other_load is not None]
    if not loads:
        return f"The system did not say how busy other programs were. {warm_up}"
    disturbed = sum(load > DISTURBING_LOAD for load in loads)
    return (
        f"While methods answered, other programs kept a median of {median(loads):.2f} cores busy (most: "
        f"{max(loads):.2f}); {disturbed:,} of {len(loads):,} answers ({disturbed / len(loads):.1%}) had more than "
        f"{DISTURBING_LOAD} cores beside them. {warm_up}"
    )


def _origin(provenance: Provenance) -> list[str]:
    parameters = f"{provenance.target_parameters:,} parameters"
    parts = [
        f"```sh\n{provenance.command}\n```",
        f"From {provenance.started} to {provenance.finished}, target `{provenance.target}` ({parameters}).",
        _facts("setting", provenance.settings),
        _facts("machine", provenance.machine),
    ]
    if provenance.drafters:
        rows = [
            (name, str(facts.get("source", "-")), number(facts.get("parameters"), 0), f"{facts['target_share']:.3%}"
             if facts.get("target_share") is not None else "-")
            for name, facts in provenance.drafters.items()
        ]  # fmt: skip
        parts.append(markdown_table(("drafter", "source", "parameters", "of the target"), rows, num_left=2))
    return [*parts, *(["\n".join(f"- {remark}" for remark in provenance.remarks)] if provenance.remarks else [])]


def _facts(title: str, facts: Mapping[str, Any]) -> str:
    rows: list[tuple[str, ...]] = []
    for name, value in facts.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        rows += [(f"{name} {key}".strip(), each if isinstance(each, str) else json.dumps(each)) for key, each in inner]
    return markdown_table((title, "value"), rows, num_left=2)
