"""Two benchmarks side by side: has a method become slower, or its text another one?"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.bench.markdown import Row, number
from phrasedraft.evaluation.bench.result import Provenance, Result
from phrasedraft.evaluation.bench.summary import Summary, summarize
from phrasedraft.evaluation.bench.table import read_results

Key = tuple[str, str, str, int]
"""Prompt set, method, dtype, batch size."""

_NAMES: Row = ("method", "set", "dtype", "batch")


@dataclass(frozen=True, kw_only=True)
class ComparedLine:
    """One method on one prompt set in both benchmarks; `failures` say what got worse.

    Speed-ups are over `generate()` of the same benchmark; `identical` is the share of answers with `generate()`'s
    tokens. None where a benchmark does not have the figure.
    """

    prompt_set: str
    method: str
    dtype: str
    batch_size: int
    speedup_before: float | None
    speedup_after: float | None
    tokens_per_pass_before: float | None
    tokens_per_pass_after: float | None
    identical_before: float | None
    identical_after: float | None
    failures: tuple[str, ...]

    @property
    def key(self) -> Key:
        """What the line is about."""
        return self.prompt_set, self.method, self.dtype, self.batch_size


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The lines both benchmarks have, those only one has, and what the two were not measured alike in."""

    tolerance: float
    lines: tuple[ComparedLine, ...]
    only_before: tuple[Key, ...]
    only_after: tuple[Key, ...]
    remarks: tuple[str, ...]

    @property
    def failures(self) -> list[str]:
        """What got worse by more than the tolerance allows or is there no more, a sentence for each."""
        worse = [f"{_named(line.key)}: {failure}" for line in self.lines for failure in line.failures]
        return worse + [f"{_named(key)}: was not measured again" for key in self.only_before]

    def tables(self) -> list[tuple[Row, list[Row]]]:
        """What there is to show, each a header and its rows: figures, lines of one side only, and what got worse."""
        lines = [
            (
                *_cells(line.key),
                f"{number(line.speedup_before)} -> {number(line.speedup_after)}",
                f"{number(line.tokens_per_pass_before, 3)} -> {number(line.tokens_per_pass_after, 3)}",
                f"{_percent(line.identical_before)} -> {_percent(line.identical_after)}",
                "worse" if line.failures else "",
            )
            for line in self.lines
        ]
        alone = [("before", *_cells(key)) for key in self.only_before]
        alone += [("after", *_cells(key)) for key in self.only_after]
        worse = [(*_cells(line.key), failure) for line in self.lines for failure in line.failures]
        found: list[tuple[Row, list[Row]]] = [
            ((*_NAMES, "over generate()", "tokens/pass", "identical", ""), [*lines]),
            (("only", *_NAMES), [*alone]),
            ((*_NAMES, "worse"), [*worse]),
        ]
        return [(header, rows) for header, rows in found if rows]

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {**asdict(self), "failures": self.failures}


def compare(before: Path, after: Path, tolerance: float) -> Comparison:
    """Compare two benchmarks, each a `results.parquet` or the folder it is in.

    A line fails where its speed-up over `generate()` or its tokens per pass fell by more than the share `tolerance` of
    what it was, where its share of identical answers fell at all, and where one of these figures, or the whole line, is
    there no more. Intervals are not looked at: give a tolerance above the noise of a run. Seconds are never compared:
    the two may come from different machines.
    """
    if not 0 <= tolerance < 1:
        raise OptionError(
            f"the tolerance is {tolerance}, it may be 0 or more and less than 1",
            hint="0.05 lets figures fall by 5 % of what they were",
        )
    (rows_before, where_before), (rows_after, where_after) = read_results(before), read_results(after)
    earlier, later = (
        {_key(each): each for each in summarize(rows, pooled=False)} for rows in (rows_before, rows_after)
    )
    shared = [key for key in earlier if key in later]
    if not shared:
        raise DataError(
            f"`{before}` and `{after}` have no method on the same prompts in common",
            hint="compare benchmarks of the same prompt sets, methods, dtypes and batch sizes",
        )
    return Comparison(
        tolerance=tolerance,
        lines=tuple(_line(earlier[key], later[key], tolerance) for key in shared),
        only_before=tuple(key for key in earlier if key not in later),
        only_after=tuple(key for key in later if key not in earlier),
        remarks=(*_places(where_before, where_after), *_prompts(rows_before, rows_after)),
    )


def _line(before: Summary, after: Summary, tolerance: float) -> ComparedLine:
    speedups = [each.over_generate.ratio if each.over_generate else None for each in (before, after)]
    passes = [before.tokens_per_pass, after.tokens_per_pass]
    identical = [each.num_identical / each.num_compared if each.num_compared else None for each in (before, after)]
    failures = (
        _fallen("speed-up over generate()", speedups, tolerance),
        _fallen("tokens per pass", passes, tolerance),
        _fallen("share of identical answers", identical, 0.0),
    )
    return ComparedLine(
        prompt_set=after.prompt_set,
        method=after.method,
        dtype=after.dtype,
        batch_size=after.batch_size,
        speedup_before=speedups[0],
        speedup_after=speedups[1],
        tokens_per_pass_before=passes[0],
        tokens_per_pass_after=passes[1],
        identical_before=identical[0],
        identical_after=identical[1],
        failures=tuple(failure for failure in failures if failure is not None),
    )


def _fallen(name: str, values: Sequence[float | None], tolerance: float) -> str | None:
    before, after = values
    if before is None:
        return None
    if after is None:
        return f"{name} was {before:.3f} and was not measured again"
    if after >= before * (1 - tolerance):
        return None
    return f"{name} fell from {before:.3f} to {after:.3f} ({after / before - 1:+.1%})"


def _places(before: Provenance, after: Provenance) -> list[str]:
    """What the two runs themselves differ in."""
    remarks = []
    if before.target != after.target:
        remarks.append(f"the target was `{before.target}` and is `{after.target}`")
    for name, earlier, later in (
        ("machine", before.machine, after.machine),
        ("settings", before.settings, after.settings),
    ):
        names = (name for name in dict.fromkeys((*earlier, *later)) if name != "output")
        changed = [key for key in names if earlier.get(key) != later.get(key)]
        if changed:
            remarks.append(f"the {name} differ in {', '.join(f'`{key}`' for key in changed)}")
    return remarks


def _prompts(before: Sequence[Result], after: Sequence[Result]) -> list[str]:
    """How many prompts only one of the two has; a prompt is known by its id and its length at its first turn."""
    earlier, later = ({_prompt(result) for result in rows if result.turn == 1} for rows in (before, after))
    if earlier == later:
        return []
    return [
        f"the prompts differ: {len(earlier - later)} were answered only before, {len(later - earlier)} only after, "
        f"{len(earlier & later)} both times"
    ]


def _prompt(result: Result) -> tuple[Any, ...]:
    return result.prompt_set, result.answer_id, result.num_prompt_tokens


def _key(summary: Summary) -> Key:
    return summary.prompt_set, summary.method, summary.dtype, summary.batch_size


def _named(key: Key) -> str:
    return f"{key[1]} on {key[0]}, {key[2]}, batch size {key[3]}"


def _cells(key: Key) -> Row:
    return key[1], key[0], key[2], str(key[3])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
