"""The table of two head sizes: what the small one keeps of the large one, and the paper's head-to-head."""

from collections.abc import Set
from itertools import combinations
from math import isclose, log

from phrasedraft.evaluation.bench.paper.estimate import Amount, Estimate, estimate
from phrasedraft.evaluation.bench.paper.evidence import NOT_MEASURED, SETS, Arm, Evidence, PaperSet
from phrasedraft.evaluation.bench.paper.rows import PaperRow, PaperTable, missing
from phrasedraft.evaluation.bench.paper.speed import over_generate

GSM8K, MT_BENCH = SETS[0], SETS[2]
STUDY = (
    "study in docs/training.md (`python benchmarks/study/study.py --corpus data/corpus/gsm8k_train.max200.jsonl.gz`, "
    "then `python benchmarks/study/report.py benchmarks/study/results.jsonl`)"
)
SAME_RATIO = 0.25
"""Ratios of sizes that are this close, relatively, count as the same."""


def heads_table(evidence: Evidence) -> PaperTable:
    """8,000 entries against 80,000: here any two phrase heads of different size, on the same prompts."""
    paper = evidence.paper
    size_ratio = paper.value("large_parameters") / paper.value("small_parameters")
    what = "GSM8K: what the smaller head keeps of the larger one's tokens per pass"
    printed = f"{paper['small_keeps']}, {size_ratio:.1f} times fewer parameters"
    rows, findings = list[PaperRow](), list[str]()
    for small, large in _pairs(evidence):
        kept = _kept(small, large)
        if kept is None:
            continue
        ours = _parameters(evidence, large) / _parameters(evidence, small)
        same = isclose(ours, size_ratio, rel_tol=SAME_RATIO)
        rows.append(
            PaperRow(
                what=what,
                paper=printed,
                here=f"{kept.text('.1%')}, {ours:.1f} times fewer parameters",
                measured=f"{small}, over {large.method}",
                verdict=evidence.verdict(arm=small, more=() if same else ("other ratio of sizes",)),
            )
        )
        share = paper.value("small_keeps")
        findings.append(
            f"`{small.method}` keeps {kept.text('.1%')} of `{large.method}` ({small.dtype}); the paper's "
            f"{paper['small_keeps']} lies {_place(share, kept)}."
        )
    if not rows:
        rows.append(missing(what, printed, "see below"))
        findings.append(f"The run has no two phrase heads of different size on GSM8K; the {STUDY} has.")
    rows += _head_to_head(evidence)
    return PaperTable(title="8,000 entries against 80,000", rows=tuple(rows), findings=(*findings, _drift(evidence)))


def _pairs(evidence: Evidence) -> list[tuple[Arm, Arm]]:
    """Arms of two heads on GSM8K, the smaller one first, that differ in nothing but the head."""
    arms = sorted(evidence.arms(GSM8K), key=lambda arm: _parameters(evidence, arm))
    return [
        (small, large)
        for small, large in combinations(arms, 2)
        if _parameters(evidence, small) < _parameters(evidence, large)
        and (small.dtype, small.num_draft_tokens) == (large.dtype, large.num_draft_tokens)
    ]


def _parameters(evidence: Evidence, arm: Arm) -> int:
    return int(evidence.provenance.drafters.get(arm.drafter, {}).get("parameters", 0))


def _kept(small: Arm, large: Arm) -> Estimate | None:
    """The ratio of their tokens per pass over the prompts both answered, prompts drawn together."""
    ours, theirs = _by_group(small), _by_group(large)
    shared = [group for group in ours if group in theirs]
    tokens_and_passes = [(*ours[group], *theirs[group]) for group in shared]
    return estimate(_ratio_of_ratios, *zip(*tokens_and_passes, strict=True)) if shared else None


def _by_group(arm: Arm) -> dict[str, tuple[int, int]]:
    groups: dict[str, tuple[int, int]] = {}
    for result in arm.results:
        tokens, passes = groups.get(result.group, (0, 0))
        groups[result.group] = (tokens + sum(result.pass_lengths), passes + len(result.pass_lengths))
    return groups


def _ratio_of_ratios(tokens: Amount, passes: Amount, other_tokens: Amount, other_passes: Amount) -> Amount:
    return (tokens / passes) / (other_tokens / other_passes)


def _place(share: float, kept: Estimate) -> str:
    if kept.low is None or kept.high is None:
        return "above it" if share > kept.value else "below it"
    if kept.low <= share <= kept.high:
        return "inside the interval"
    return "above the interval" if share > kept.high else "below the interval"


def _head_to_head(evidence: Evidence) -> list[PaperRow]:
    """Table 2 of the paper; each of our heads stands beside the row whose size is nearest."""
    paper, rows = evidence.paper, list[PaperRow]()
    sizes = {name: paper.value(f"{name}_parameters") for name in ("small", "large")}
    chosen = _nearest_size(evidence, sizes)
    for name in ("small", "large"):
        for each in (GSM8K, MT_BENCH):
            what = f"{each.name}: phrase head, {paper[f'{name}_entries']} entries, over generate()"
            printed = f"{paper[f'table2_{name}_{each.key}']} (Table 2{each.remark})"
            mine = {drafter for drafter, size in chosen.items() if size == name}
            rows += _beside(evidence, each, what, printed, mine) or [missing(what, printed)]
    for nodes in (16, 60):
        for each in (GSM8K, MT_BENCH):
            rows.append(
                PaperRow(
                    what=f"{each.name}: EAGLE-3, tree of {nodes}, {paper['eagle_parameters']} parameters",
                    paper=f"{paper[f'table2_eagle{nodes}_{each.key}']} (Table 2)",
                    here="",
                    measured="for reference only",
                    verdict=NOT_MEASURED,
                )
            )
    return rows


def _nearest_size(evidence: Evidence, sizes: dict[str, float]) -> dict[str, str]:
    """For each of our phrase heads the paper's head that is nearest in parameters, as a ratio."""
    heads = {arm.drafter: _parameters(evidence, arm) for each in SETS for arm in evidence.arms(each)}
    return {
        drafter: min(sizes, key=lambda name: abs(log(count / sizes[name])))
        for drafter, count in heads.items()
        if count > 0
    }


def _beside(evidence: Evidence, paper_set: PaperSet, what: str, printed: str, drafters: Set[str]) -> list[PaperRow]:
    return [
        PaperRow(
            what=what,
            paper=printed,
            here=str(found),
            measured=str(arm),
            verdict=evidence.verdict(hardware=True, arm=arm),
        )
        for arm in evidence.nearest(paper_set)
        if arm.drafter in drafters and (found := over_generate(evidence, arm)) is not None
    ]


def _drift(evidence: Evidence) -> str:
    """How far the paper's two baselines lie apart: its own noise of a run."""
    value = evidence.paper.value
    shifts = [value(f"table2_large_{each.key}") / value(f"speedup_{each.key}") - 1 for each in (GSM8K, MT_BENCH)]
    ahead = value("table2_large_gsm8k") > value("table2_eagle16_gsm8k")
    behind = all(value(f"table2_large_{each.key}") < value(f"table2_eagle60_{each.key}") for each in (GSM8K, MT_BENCH))
    return (
        f"In the paper the same 21.94M head is {shifts[0]:.1%} (GSM8K) and {shifts[1]:.1%} (MT-Bench) faster in Table "
        f"2 than in the abstract, so much do its baselines differ; Table 2 has it {'ahead of' if ahead else 'behind'} "
        f"EAGLE-3's tree of 16 on GSM8K and {'behind' if behind else 'not behind'} the tree of 60 on both sets."
    )
