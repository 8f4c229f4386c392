"""From results to figures: one summary for each prompt set, dtype, batch size and method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.evaluation.bench.result import BASELINES, GENERATE, PLAIN, Difference, Result
from phrasedraft.evaluation.bench.row_figures import Rows, joules_per_token, pass_interval, speedup, total_stats
from phrasedraft.evaluation.statistics import SpeedUp

POOLED = "all"
"""The prompt set of summaries over all sets together."""

DISTURBING_LOAD = 0.3
"""An answer is disturbed when other programs kept more cores than this busy meanwhile."""

PHASES = ("draft", "verify", "keep", "other")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One method on one prompt set (`POOLED`: on all of them), in one dtype and batch size.

    `num_compared` of its answers are `generate()`'s too; `num_identical` of these have the same tokens. `worst_gap` is
    the largest top-two gap where they do not, None where none is known. Speed-ups are paired over the answers both
    methods have, the turns and batch mates of a group drawn together (their `num_prompts` counts groups), over all sets
    as many groups from each set as it has. They are None for the method itself and where nothing is shared.

    `stats`, and what follows from it, is None for methods that are not our own loop. Seconds per token, peak memory in
    megabytes (10^6 bytes), loads in cores.
    """

    prompt_set: str
    dtype: str
    batch_size: int
    method: str
    drafter: str
    num_draft_tokens: int
    num_parameters: int | None
    num_answers: int
    num_tokens: int
    seconds: float
    num_compared: int
    num_identical: int
    num_same_finish_reason: int
    worst_gap: float | None
    stats: DecodingStats | None
    tokens_per_pass_interval: tuple[float, float] | None
    over_generate: SpeedUp | None
    over_plain: SpeedUp | None
    median_first_token_seconds: float | None
    peak_megabytes: float | None
    joules_per_token: float | None
    median_other_load: float | None
    disturbed_share: float | None

    @property
    def conditions(self) -> tuple[str, int]:
        """What is the same for all methods compared: dtype and batch size."""
        return self.dtype, self.batch_size

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens over all seconds, prompts included."""
        return self.num_tokens / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_pass(self) -> float | None:
        """Tokens per pass of the target, the bonus token included."""
        return None if self.stats is None else self.stats.mean_acceptance_length

    @property
    def landing(self) -> float | None:
        """The share of passes that accepted something."""
        return None if self.stats is None else self.stats.landing

    @property
    def banked(self) -> float | None:
        """Tokens accepted per pass that accepted something."""
        return None if self.stats is None else self.stats.banked

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted tokens as a share of drafted tokens."""
        return None if self.stats is None else self.stats.acceptance_rate

    @property
    def milliseconds_per_pass(self) -> float | None:
        """The loop's time per pass of the target, everything in it but the reading of the prompt."""
        if self.stats is None or not self.stats.num_passes:
            return None
        return self.stats.decode_seconds / self.stats.num_passes * 1e3

    @property
    def phase_milliseconds(self) -> dict[str, float] | None:
        """That time by what it was spent on: `PHASES`."""
        stats = self.stats
        if stats is None or not stats.num_passes:
            return None
        return {phase: getattr(stats, f"{phase}_seconds") / stats.num_passes * 1e3 for phase in PHASES}

    @property
    def phase_shares(self) -> dict[str, float] | None:
        """The shares of that time; they add up to 1."""
        stats = self.stats
        if stats is None or not stats.decode_seconds:
            return None
        return {phase: getattr(stats, f"{phase}_seconds") / stats.decode_seconds for phase in PHASES}

    def as_dict(self) -> dict[str, Any]:
        """Every figure, ready for JSON."""
        interval = self.tokens_per_pass_interval
        return {
            **vars(self),
            "stats": self.stats.as_dict() if self.stats else None,
            "tokens_per_pass_interval": list(interval) if interval else None,
            "over_generate": self.over_generate.as_dict() if self.over_generate else None,
            "over_plain": self.over_plain.as_dict() if self.over_plain else None,
            "tokens_per_second": self.tokens_per_second,
            "tokens_per_pass": self.tokens_per_pass,
            "milliseconds_per_pass": self.milliseconds_per_pass,
            "phase_milliseconds": self.phase_milliseconds,
            "phase_shares": self.phase_shares,
        }


def summarize(
    results: Sequence[Result],
    differences: Sequence[Difference] = (),
    drafters: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    pooled: bool = True,
) -> list[Summary]:
    """The summaries, set by set, then those over all sets where there are several and `pooled` asks for them.

    Methods come in the order baselines, then drafters as `drafters` (of the provenance) names them, by nodes.
    """
    drafters = drafters or {}
    tables: dict[tuple[str, str, int], dict[str, dict[tuple[str, str], Result]]] = {}
    for result in sorted(results, key=_order(results, drafters)):
        for name in (result.prompt_set, POOLED):
            methods = tables.setdefault((name, result.dtype, result.batch_size), {})
            methods.setdefault(result.method, {})[result.prompt_set, result.answer_id] = result
    num_sets = {conditions: sum(key[1:] == conditions for key in tables) - 1 for conditions in {k[1:] for k in tables}}
    sets = list(dict.fromkeys(result.prompt_set for result in results))
    wanted = sorted((key for key in tables if key[0] != POOLED), key=lambda key: sets.index(key[0]))
    wanted += [key for key in tables if key[0] == POOLED and pooled and num_sets[key[1:]] > 1]
    return [
        _summary(key[0], rows, tables[key], differences, drafters) for key in wanted for rows in tables[key].values()
    ]


def main_conditions(summaries: Sequence[Summary]) -> tuple[str, int]:
    """The dtype and batch size with the most answers; the first one of equals."""
    counts: dict[tuple[str, int], int] = {}
    for each in summaries:
        if each.prompt_set != POOLED:
            counts[each.conditions] = counts.get(each.conditions, 0) + each.num_answers
    return max(counts, key=lambda conditions: counts[conditions])


def sections(summaries: Sequence[Summary]) -> dict[tuple[str, tuple[str, int]], list[Summary]]:
    """The summaries that belong side by side, by prompt set and conditions, those of the main conditions first."""
    main = [main_conditions(summaries)] if summaries else []
    order = list(dict.fromkeys((*main, *(each.conditions for each in summaries))))
    found: dict[tuple[str, tuple[str, int]], list[Summary]] = {}
    for each in sorted(summaries, key=lambda each: order.index(each.conditions)):
        found.setdefault((each.prompt_set, each.conditions), []).append(each)
    return found


def chief_sections(summaries: Sequence[Summary]) -> dict[tuple[str, tuple[str, int]], list[Summary]]:
    """Each prompt set under the main conditions; of other conditions all sets together, or the only set."""
    found = sections(summaries)
    main = next(iter(found), ("", None))[1]
    pooled = {conditions for prompt_set, conditions in found if prompt_set == POOLED}
    return {key: mine for key, mine in found.items() if key[1] == main or key[0] == POOLED or key[1] not in pooled}


def _order(results: Sequence[Result], drafters: Mapping[str, Any]) -> Any:  # a key function of results
    """Dtypes in the order of the run, batch sizes by size, baselines first, drafters by name and nodes."""
    dtypes, names, methods = (
        {value: place for place, value in enumerate(dict.fromkeys(values))}
        for values in (
            (result.dtype for result in results),
            (*drafters, *(result.drafter for result in results)),
            (*BASELINES, *(result.method for result in results)),
        )
    )

    def key(result: Result) -> tuple[int, ...]:
        place = methods[result.method]
        nodes = (names[result.drafter], result.num_draft_tokens) if place >= len(BASELINES) else (-1, 0)
        return dtypes[result.dtype], result.batch_size, *nodes, place

    return key


def _summary(
    prompt_set: str,
    rows: Rows,
    methods: Mapping[str, Rows],
    differences: Sequence[Difference],
    drafters: Mapping[str, Mapping[str, Any]],
) -> Summary:
    mine = list(rows.values())
    one = mine[0]
    generated = methods.get(GENERATE, {})
    compared = [(result, generated[key]) for key, result in rows.items() if key in generated]
    gaps = [each.top_two_gap for each in differences if _is_of(each, one, prompt_set) and each.top_two_gap is not None]
    loads = [result.other_load for result in mine if result.other_load is not None]
    waits = [result.first_token_seconds for result in mine if result.first_token_seconds is not None]
    peaks = [result.peak_bytes for result in mine if result.peak_bytes is not None]
    stats = total_stats(mine)
    return Summary(
        prompt_set=prompt_set,
        dtype=one.dtype,
        batch_size=one.batch_size,
        method=one.method,
        drafter=one.drafter,
        num_draft_tokens=one.num_draft_tokens,
        num_parameters=drafters.get(one.drafter, {}).get("parameters"),
        num_answers=len(mine),
        num_tokens=sum(len(result.tokens) for result in mine),
        seconds=sum(result.seconds for result in mine),
        num_compared=len(compared),
        num_identical=sum(a.tokens == b.tokens for a, b in compared),
        num_same_finish_reason=sum(a.finish_reason == b.finish_reason for a, b in compared),
        worst_gap=max(gaps, default=None),
        stats=stats,
        tokens_per_pass_interval=pass_interval(mine) if stats is not None else None,
        over_generate=speedup(methods.get(GENERATE), rows),
        over_plain=speedup(methods.get(PLAIN), rows),
        median_first_token_seconds=median(waits) if waits else None,
        peak_megabytes=max(peaks) / 1e6 if peaks else None,
        joules_per_token=joules_per_token(mine),
        median_other_load=median(loads) if loads else None,
        disturbed_share=sum(load > DISTURBING_LOAD for load in loads) / len(loads) if loads else None,
    )


def _is_of(difference: Difference, result: Result, prompt_set: str) -> bool:
    same = (difference.method, difference.dtype, difference.batch_size) == (
        result.method,
        result.dtype,
        result.batch_size,
    )
    return same and prompt_set in (POOLED, difference.prompt_set)
