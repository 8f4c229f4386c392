"""The headline table: speed-ups over `generate()`."""

from collections.abc import Sequence

from phrasedraft.evaluation.bench.paper.evidence import SETS, Arm, Evidence, PaperSet
from phrasedraft.evaluation.bench.paper.rows import PaperRow, PaperTable, joined, missing
from phrasedraft.evaluation.statistics import SpeedUp


def headline_table(evidence: Evidence) -> PaperTable:
    """The speed-ups of the abstract, set by set, at every number of draft tokens."""
    rows, findings = [], []
    for each in SETS:
        printed = f"{evidence.paper[f'speedup_{each.key}']} (21.94M head{each.remark})"
        what = f"{each.name}, over generate()"
        measured = [(arm, found) for arm in evidence.arms(each) if (found := over_generate(evidence, arm)) is not None]
        rows += [
            PaperRow(
                what=what,
                paper=printed,
                here=str(found),
                measured=str(arm),
                verdict=evidence.verdict(hardware=True, arm=arm),
            )
            for arm, found in measured
        ] or [missing(what, printed)]
        if measured:
            findings.append(_fastest(each, measured))
    findings += _order(evidence)
    return PaperTable(
        title="Headline speed-ups",
        rows=tuple(rows),
        findings=tuple(findings or ["No phrase head was measured against generate() on these sets."]),
    )


def over_generate(evidence: Evidence, arm: Arm) -> SpeedUp | None:
    """The speed-up over `generate()` of the same prompts."""
    summary = evidence.summary(arm)
    return summary.over_generate if summary is not None else None


def _fastest(paper_set: PaperSet, measured: Sequence[tuple[Arm, SpeedUp]]) -> str:
    arm, best = max(measured, key=lambda pair: pair[1].ratio)
    num_sure = sum(found.low is not None and found.low > 1 for _, found in measured)
    return (
        f"{paper_set.name}: `{arm.method}` ({arm.dtype}) is the fastest with {best}; {num_sure} of {len(measured)} "
        "rows are faster than generate() with their whole interval."
    )


def _order(evidence: Evidence) -> list[str]:
    """Whether the sets come in the paper's order, for each dtype and head measured on all of them."""
    lines: dict[tuple[str, str], dict[str, float]] = {}
    for each in SETS:
        for arm in evidence.nearest(each):
            if (found := over_generate(evidence, arm)) is not None:
                lines.setdefault((arm.method, arm.dtype), {})[each.name] = found.ratio
    theirs = _ranking({each.name: evidence.paper.value(f"speedup_{each.key}") for each in SETS})
    return [
        f"From fastest to slowest the sets are {joined(ours)} for `{method}` ({dtype})"
        + (", as in the paper." if ours == theirs else f"; in the paper {joined(theirs)}.")
        for (method, dtype), found in lines.items()
        if len(found) == len(SETS) and (ours := _ranking(found))
    ]


def _ranking(values: dict[str, float]) -> list[str]:
    return sorted(values, key=lambda name: -values[name])
