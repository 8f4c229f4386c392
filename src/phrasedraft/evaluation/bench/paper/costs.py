"""The table of what a pass costs, and what that leaves of the tokens per pass."""

from collections.abc import Mapping
from typing import Any

from phrasedraft.budget.cost import PassCost, PassTime
from phrasedraft.evaluation.bench.paper.estimate import Estimate, ratio
from phrasedraft.evaluation.bench.paper.evidence import SETS, Arm, Evidence
from phrasedraft.evaluation.bench.paper.rows import PaperRow, PaperTable, arithmetic, missing, times
from phrasedraft.evaluation.bench.result import Result

GSM8K = SETS[0]


def cost_table(evidence: Evidence) -> PaperTable:
    """What a pass over the draft costs more than a pass over one token, and what that leaves of tokens per pass."""
    paper = evidence.paper
    plain, drafting, tokens = (
        paper.value(name) for name in ("plain_milliseconds", "pass_milliseconds", "tokens_per_pass_gsm8k")
    )
    rows = [
        arithmetic(
            "GSM8K: time per token, 41.16 ms / 2.730",
            str(paper["token_milliseconds"]),
            f"{drafting / tokens:.2f} ms",
        ),
        arithmetic(
            "GSM8K: speed-up, 36.06 / 41.16 x 2.730",
            f"{paper['arithmetic_speedup']} ({paper['speedup_gsm8k']} in the abstract)",
            f"{plain / drafting * tokens:.3f}x",
        ),
    ]
    findings = []
    costs = {dtype: _pass_cost(lines) for dtype, lines in evidence.provenance.costs.items() if lines["times"]}
    for dtype, cost in sorted(costs.items()):
        rows += _pass_rows(evidence, dtype, cost)
        if not _reaches(cost, paper.num_positions):
            continue
        findings.append(
            f"A pass over {paper.num_positions} draft tokens costs {cost.ratio(paper.num_positions):.2f} times a pass "
            f"over one token here ({dtype}) and {drafting / plain:.3f} times in the paper: so many tokens a pass have "
            "to come out before drafting pays."
        )
    if not costs:
        rows += [missing(what, printed) for what, printed in _pass_figures(evidence)]
    arms = evidence.nearest(GSM8K)
    for arm in arms:
        rows += _loop_rows(evidence, arm, costs.get(arm.dtype))
        findings += _pays(evidence, arm, costs.get(arm.dtype))
    if not arms:
        rows.append(missing("GSM8K: a whole pass of the loop, drafting included", f"{paper['pass_milliseconds']}"))
    return PaperTable(
        title="What a pass costs",
        rows=tuple(rows),
        findings=tuple(findings or ["Neither pass costs nor a phrase head on GSM8K were measured."]),
    )


def _pass_cost(lines: Mapping[str, Any]) -> PassCost:
    """What `PassCost.as_dict` gave, from JSON too."""
    return PassCost(**{**lines, "times": tuple(PassTime(**each) for each in lines["times"])})


def _pass_figures(evidence: Evidence) -> list[tuple[str, str]]:
    """What the rows of a pass of the target are called, and the paper's figure."""
    paper = evidence.paper
    plain, drafting = paper["plain_milliseconds"], paper["pass_milliseconds"]
    return [
        ("a pass over one token", str(plain)),
        (f"a pass over {paper.num_positions} draft tokens", str(drafting)),
        (
            f"{paper.num_positions} draft tokens against one token",
            f"{drafting.value / plain.value:.3f}x (36.06 → 41.16 ms)",
        ),
    ]


def _pass_rows(evidence: Evidence, dtype: str, cost: PassCost) -> list[PaperRow]:
    """The target's passes alone; quartiles in brackets."""
    count = evidence.paper.num_positions
    counts = {each.num_draft_tokens for each in cost.times}
    how = f"median and quartiles of {cost.repeats} passes, {dtype}, the target alone"
    figures = [_milliseconds(cost, 0), _milliseconds(cost, count), f"{cost.ratio(count):.3f}x"]
    places = [how, how, how] if count in counts else [how, *[f"{how}, between the neighbouring numbers of tokens"] * 2]
    rows = [
        PaperRow(what=what, paper=printed, here=here, measured=place, verdict=evidence.verdict(hardware=True))
        for (what, printed), here, place in zip(_pass_figures(evidence), figures, places, strict=True)
    ]
    if _reaches(cost, count):
        return rows
    return [rows[0], *(missing(row.what, row.paper, f"{dtype}: up to {max(counts)} draft tokens") for row in rows[1:])]


def _reaches(cost: PassCost, count: int) -> bool:
    """Whether passes of so many draft tokens, or more, were timed."""
    return max(each.num_draft_tokens for each in cost.times) >= count


def _milliseconds(cost: PassCost, count: int) -> str:
    context = min(each.context_tokens for each in cost.times)
    one = next((t for t in cost.times if (t.num_draft_tokens, t.context_tokens) == (count, context)), None)
    if one is None:
        return f"{cost.milliseconds(count):.2f} ms"
    return f"{one.milliseconds:.2f} ms [{one.low_milliseconds:.2f}, {one.high_milliseconds:.2f}]"


def _loop_rows(evidence: Evidence, arm: Arm, cost: PassCost | None) -> list[PaperRow]:
    """A pass of the decoding loop, and the speed-up that its cost leaves."""
    paper, plain = evidence.paper, evidence.plain(arm)
    whole = pass_milliseconds(arm)
    bare = pass_milliseconds(plain) if plain is not None else None
    verdict = evidence.verdict(hardware=True, arm=arm)
    rows = []
    if whole is not None:
        beside = f"; plain loop {bare.text('.2f')} ms" if bare is not None else ""
        rows.append(
            PaperRow(
                what="GSM8K: a whole pass of the loop, drafting included",
                paper=f"{paper['pass_milliseconds']}; plain {paper['plain_milliseconds']}",
                here=f"{whole.text('.2f')} ms{beside}",
                measured=str(arm),
                verdict=verdict,
            )
        )
    tokens = arm.tokens_per_pass
    if cost is not None and tokens is not None and _reaches(cost, arm.num_draft_tokens):
        count = arm.num_draft_tokens
        rows.append(
            PaperRow(
                what="GSM8K: tokens per pass over the cost of the pass, drafting left out",
                paper=f"{paper.value('tokens_per_pass_gsm8k'):.3f} / {_paper_ratio(evidence):.3f} = "
                f"{paper.value('tokens_per_pass_gsm8k') / _paper_ratio(evidence):.2f}x",
                here=f"{tokens.value:.3f} / {cost.ratio(count):.3f} = {times(tokens.value / cost.ratio(count))}",
                measured=str(arm),
                verdict=verdict,
            )
        )
    return rows


def _pays(evidence: Evidence, arm: Arm, cost: PassCost | None) -> list[str]:
    """What the cost of the pass leaves, and what was measured over the plain loop."""
    summary, tokens = evidence.summary(arm), arm.tokens_per_pass
    over_plain = summary.over_plain if summary is not None else None
    if cost is None or tokens is None or over_plain is None or not _reaches(cost, arm.num_draft_tokens):
        return []
    expected = tokens.value / cost.ratio(arm.num_draft_tokens)
    at_their_cost = tokens.value / _paper_ratio(evidence)
    return [
        f"By the target's passes alone `{arm.method}` ({arm.dtype}) would be {times(expected)} the plain loop on "
        f"GSM8K; {over_plain} was measured; with passes as cheap as the paper's its tokens per pass would be worth "
        f"{times(at_their_cost)}."
    ]


def pass_milliseconds(arm: Arm) -> Estimate | None:
    """The loop's milliseconds per pass of the target, everything but the reading of the prompt in them."""

    def milliseconds(result: Result) -> float:
        return result.counts.decode_seconds * 1e3 if result.counts is not None else 0.0

    return arm.of_sums(ratio, milliseconds, lambda result: result.counts.num_passes if result.counts is not None else 0)


def _paper_ratio(evidence: Evidence) -> float:
    return evidence.paper.value("pass_milliseconds") / evidence.paper.value("plain_milliseconds")
