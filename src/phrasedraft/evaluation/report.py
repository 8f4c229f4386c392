"""From results to figures: one summary a method, and the tables that show them."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from phrasedraft.decoding import DecodingStats
from phrasedraft.evaluation.benchmark import Result, first_difference
from phrasedraft.evaluation.methods import GENERATE, PLAIN
from phrasedraft.evaluation.statistics import SpeedUp, Timing, paired_speedup

VERSIONS = ("phrasedraft", "torch", "transformers", "numpy", "scipy")
_COUNTERS = frozenset(field.name for field in fields(DecodingStats))


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A text that is not the one of `generate()`; `position` is None where only the reason to stop differs."""

    prompt_id: str
    position: int | None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One method over all prompts. Speed-ups are None against itself and where there is nothing to compare with.

    `num_prompts` counts answers, one a turn. Speed-ups are paired over conversations, whose turns are not independent.
    """

    method: str
    num_prompts: int
    num_tokens: int
    seconds: float
    exact_token_parity: int
    same_finish_reason: int
    differences: tuple[Difference, ...]
    stats: DecodingStats | None
    over_generate: SpeedUp | None
    over_plain: SpeedUp | None

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens over all seconds, prompts included."""
        return self.num_tokens / self.seconds if self.seconds else 0.0

    @property
    def milliseconds_per_pass(self) -> float | None:
        """The loop's time per pass of the target, everything in it."""
        if self.stats is None or not self.stats.num_passes:
            return None
        return self.stats.decode_seconds / self.stats.num_passes * 1e3

    def as_dict(self) -> dict[str, Any]:
        """Every figure, ready for JSON."""
        return {
            **{name: value for name, value in vars(self).items() if name not in _NESTED},
            "tokens_per_second": self.tokens_per_second,
            "milliseconds_per_pass": self.milliseconds_per_pass,
            "differences": [asdict(difference) for difference in self.differences],
            "stats": self.stats.as_dict() if self.stats else None,
            "over_generate": self.over_generate.as_dict() if self.over_generate else None,
            "over_plain": self.over_plain.as_dict() if self.over_plain else None,
        }


_NESTED = ("differences", "stats", "over_generate", "over_plain")


def summarize(results: Sequence[Result]) -> list[Summary]:
    """A summary for each method, in the order they appear; speed-ups are over the prompts all methods answered."""
    by_method: dict[str, dict[str, Result]] = {}
    for result in results:
        by_method.setdefault(result.method, {})[result.prompt_id] = result
    shared = [prompt for prompt in next(iter(by_method.values())) if all(prompt in each for each in by_method.values())]
    rows = {method: [each[prompt] for prompt in shared] for method, each in by_method.items()}
    return [_summary(method, mine, rows.get(GENERATE), rows.get(PLAIN)) for method, mine in rows.items()]


def _summary(
    method: str, mine: Sequence[Result], generated: Sequence[Result] | None, plain: Sequence[Result] | None
) -> Summary:
    stats = _total_stats(mine)
    reference = generated or mine
    pairs = list(zip(mine, reference, strict=True))
    return Summary(
        method=method,
        num_prompts=len(mine),
        num_tokens=sum(len(result.tokens) for result in mine),
        seconds=sum(result.seconds for result in mine),
        exact_token_parity=sum(first_difference(a.tokens, b.tokens) is None for a, b in pairs),
        same_finish_reason=sum(a.finish_reason == b.finish_reason for a, b in pairs),
        differences=tuple(
            Difference(prompt_id=a.prompt_id, position=first_difference(a.tokens, b.tokens))
            for a, b in pairs
            if a.tokens != b.tokens or a.finish_reason != b.finish_reason
        ),
        stats=stats,
        over_generate=_speedup(generated, mine),
        over_plain=_speedup(plain, mine),
    )


def _total_stats(results: Sequence[Result]) -> DecodingStats | None:
    """The counts of all answers together, None for a method that keeps none."""
    total = DecodingStats()
    for result in results:
        if result.stats is None:
            return None
        total.add(DecodingStats(**{name: value for name, value in result.stats.items() if name in _COUNTERS}))
    return total


def _speedup(baseline: Sequence[Result] | None, mine: Sequence[Result]) -> SpeedUp | None:
    if baseline is None or baseline is mine:
        return None
    return paired_speedup(_timings(baseline), _timings(mine))


def _timings(results: Sequence[Result]) -> list[Timing]:
    """What each conversation took, all its turns together."""
    turns: dict[str, list[Timing]] = {}
    for result in results:
        turns.setdefault(result.conversation, []).append(result.timing)
    return [
        Timing(seconds=sum(each.seconds for each in timings), num_tokens=sum(each.num_tokens for each in timings))
        for timings in turns.values()
    ]


Row = tuple[str, ...]

SPEED_HEADER: Row = (
    "method",
    "identical",
    "same end",
    "tokens",
    "seconds",
    "tokens/s",
    "over generate()",
    "over plain",
)
DRAFT_HEADER: Row = ("method", "tokens a pass", "landing", "banked", "acceptance", "ms a pass")
TIME_HEADER: Row = ("method", "draft s", "verify s", "keep s", "other s", "prompt s", "outside target")


def speed_rows(summaries: Sequence[Summary]) -> list[Row]:
    """How fast each method is, and whether its texts are those of `generate()`."""
    return [
        (
            each.method,
            f"{each.exact_token_parity}/{each.num_prompts}",
            f"{each.same_finish_reason}/{each.num_prompts}",
            f"{each.num_tokens}",
            f"{each.seconds:.1f}",
            f"{each.tokens_per_second:.2f}",
            str(each.over_generate or ""),
            str(each.over_plain or ""),
        )
        for each in summaries
    ]


def draft_rows(summaries: Sequence[Summary]) -> list[Row]:
    """What drafts gave, for the methods that are our own loop."""
    return [
        (
            each.method,
            f"{stats.mean_acceptance_length:.3f}",
            f"{stats.landing:.3f}",
            f"{stats.banked:.2f}",
            f"{stats.acceptance_rate:.3f}",
            f"{each.milliseconds_per_pass or 0:.1f}",
        )
        for each in summaries
        if (stats := each.stats) is not None
    ]


def time_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Where the time of our own loop went, and the share of the loop outside the target's pass."""
    return [
        (
            each.method,
            f"{stats.draft_seconds:.2f}",
            f"{stats.verify_seconds:.2f}",
            f"{stats.keep_seconds:.2f}",
            f"{stats.other_seconds:.2f}",
            f"{stats.prefill_seconds:.2f}",
            f"{stats.outside_share:.1%}",
        )
        for each in summaries
        if (stats := each.stats) is not None
    ]


def tables(summaries: Sequence[Summary]) -> list[tuple[Row, list[Row]]]:
    """The three tables of a report, each a header and its rows."""
    return [
        (SPEED_HEADER, speed_rows(summaries)),
        (DRAFT_HEADER, draft_rows(summaries)),
        (TIME_HEADER, time_rows(summaries)),
    ]


def markdown_table(header: Row, rows: Sequence[Row]) -> str:
    """A table as Markdown.

    >>> print(markdown_table(("a", "b"), [("1", "2")]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, *rows)).replace(
        "\n", "\n|" + "---|" * len(header) + "\n", 1
    )


def environment() -> dict[str, Any]:
    """The machine and the versions results were made with."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch_threads": torch.get_num_threads(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "versions": {name: _version(name) for name in VERSIONS},
    }


def write_report(path: Path, summaries: Sequence[Summary], facts: Mapping[str, Any], remarks: Sequence[str]) -> None:
    """Write `report.md`: the tables, what there is to remark, and where the figures come from."""
    lines = [f"- {name}: {value}" for name, value in facts.items()]
    parts = [
        "# Benchmark",
        *(markdown_table(header, rows) for header, rows in tables(summaries)),
        "Speed-ups are ratios of total seconds per token, in brackets the 95 % interval of a bootstrap over prompts. "
        "Tokens a pass count the target's own token; landing is the share of passes that accept a draft, banked the "
        "tokens accepted when one does, acceptance the accepted share of drafted tokens.",
        "\n".join(f"- {remark}" for remark in remarks) or "Nothing to remark.",
        "## Where this comes from",
        "\n".join(lines),
    ]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
