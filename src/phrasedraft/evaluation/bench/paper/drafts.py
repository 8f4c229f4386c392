"""The tables of what drafts give: tokens per pass, the kinds of phrases they come in, and words against phrases."""

from collections.abc import Sequence

from phrasedraft.evaluation.bench.paper.estimate import Estimate
from phrasedraft.evaluation.bench.paper.evidence import MATHS, SETS, WORDS, Arm, Evidence, PaperSet
from phrasedraft.evaluation.bench.paper.rows import PaperRow, PaperTable, arithmetic, joined, missing
from phrasedraft.phrases.inspection import PhraseCategory

SKELETON = (PhraseCategory.PUNCTUATION, PhraseCategory.LATEX)
PLAIN_WORDS = (PhraseCategory.WORDS,)
REST = tuple(category for category in PhraseCategory if category not in (*SKELETON, *PLAIN_WORDS))
EXACT = 1e-9
"""Two sides of the identity that are this close differ by rounding only."""


def identity_table(evidence: Evidence) -> PaperTable:
    """Tokens per pass = 1 + landing x banked, set by set, and whether that holds on both sides."""
    paper = evidence.paper
    tokens, landing = paper.value("tokens_per_pass_gsm8k"), paper.value("landing_gsm8k")
    rows = [
        arithmetic(
            "GSM8K: banked, (2.730 - 1) / 0.777", f"roughly {paper['banked_gsm8k']}", f"{(tokens - 1) / landing:.3f}"
        )
    ]
    gaps, lines = list[float](), dict[str, list[tuple[Arm, Estimate]]]()
    for each in SETS:
        what, printed = f"{each.name}: tokens per pass = 1 + landing x banked", _paper_identity(evidence, each)
        measured = [(arm, found) for arm in evidence.arms(each) if (found := arm.tokens_per_pass) is not None]
        for arm, found in measured:
            by_counters = 1 + arm.counts.landing * arm.counts.banked
            gaps.append(abs(found.value - by_counters))
            lines.setdefault(each.name, []).append((arm, found))
            rows.append(
                PaperRow(
                    what=what,
                    paper=printed,
                    here=f"{found.text()} = 1 + {_text(arm.landing)} x {_text(arm.banked, '.2f')}",
                    measured=str(arm),
                    verdict=evidence.verdict(arm=arm),
                )
            )
        if not measured:
            rows.append(missing(what, printed))
    return PaperTable(
        title="Tokens per pass", rows=tuple(rows), findings=tuple(_identity_findings(evidence, gaps, lines))
    )


def category_table(evidence: Evidence) -> PaperTable:
    """The kinds of phrases that accepted tokens come in, on maths."""
    paper, rows, findings = evidence.paper, list[PaperRow](), list[str]()
    claims = (("punctuation and LaTeX", SKELETON, "skeleton_share"), ("plain words", PLAIN_WORDS, "words_share"))
    for each in MATHS:
        arms = [arm for arm in evidence.nearest(each) if any(result.categories for result in arm.results)]
        for name, categories, figure in claims:
            what, printed = f"{each.name}: {name}, share of the tokens banked", f"{paper[figure]} on maths"
            rows += [
                PaperRow(
                    what=what,
                    paper=printed,
                    here=_text(arm.share_of(categories), ".1%"),
                    measured=str(arm),
                    verdict=evidence.verdict(arm=arm, more=("our own definition of kinds",)),
                )
                for arm in arms
            ] or [missing(what, printed)]
        findings += [_category_finding(evidence, each, arm, claims) for arm in arms]
    return PaperTable(
        title="Where the accepted tokens come from",
        rows=tuple(rows),
        findings=tuple(findings or ["The run kept no categories of a phrase head on these sets."]),
    )


def words_table(evidence: Evidence) -> PaperTable:
    """A drafter of single words: often accepted, with little in it."""
    paper, rows, findings = evidence.paper, list[PaperRow](), list[str]()
    for each in SETS:
        for arm in evidence.nearest(each, WORDS):
            verdict = evidence.verdict(arm=arm)
            rows += [
                PaperRow(
                    what=f"words, {each.name}: share of passes that accept a word",
                    paper=str(paper["words_accepted"]),
                    here=_text(arm.landing, ".1%"),
                    measured=str(arm),
                    verdict=verdict,
                ),
                PaperRow(
                    what=f"words, {each.name}: tokens banked when one is accepted",
                    paper=str(paper["words_banked"]),
                    here=_text(arm.banked),
                    measured=str(arm),
                    verdict=verdict,
                ),
            ]
            findings += _words_findings(evidence, each, arm)
    if not rows:
        rows = [
            missing("words: share of passes that accept a word", str(paper["words_accepted"])),
            missing("words: tokens banked when one is accepted", str(paper["words_banked"])),
        ]
    banked = (paper.value("tokens_per_pass_gsm8k") - 1) / paper.value("landing_gsm8k")
    findings.append(
        f"In the paper a landing banks {banked / paper.value('words_banked'):.2f} times as many tokens with phrases "
        "(GSM8K) as with words."
    )
    return PaperTable(title="Words against phrases", rows=tuple(rows), findings=tuple(findings))


def _paper_identity(evidence: Evidence, paper_set: PaperSet) -> str:
    """The paper's side; tokens per pass are printed for GSM8K only, elsewhere they follow from the speed-up."""
    value = evidence.paper.value
    landing = value(f"landing_{paper_set.key}")
    name = f"tokens_per_pass_{paper_set.key}"
    if name in evidence.paper.figures:
        tokens, origin = value(name), ""
    else:
        tokens = value(f"speedup_{paper_set.key}") * value("pass_milliseconds") / value("plain_milliseconds")
        origin = " (from its speed-up, at 41.16 / 36.06 ms a pass)"
    return f"{tokens:.3f} = 1 + {landing:.3f} x {(tokens - 1) / landing:.2f}{origin}"


def _identity_findings(
    evidence: Evidence, gaps: Sequence[float], lines: dict[str, list[tuple[Arm, Estimate]]]
) -> list[str]:
    value = evidence.paper.value
    theirs = 1 + value("landing_gsm8k") * value("banked_gsm8k") - value("tokens_per_pass_gsm8k")
    findings = [f"With its rounded 2.2 the paper's identity misses its 2.730 by {abs(theirs):.3f}."]
    if not gaps:
        return findings
    agreement = "agree" if max(gaps) < EXACT else f"differ by up to {max(gaps):.3f}"
    findings.append(
        "Here tokens per pass come from the lengths of the passes, landing and banked from the loop's counters: over "
        f"{len(gaps)} rows the two sides {agreement}."
    )
    for name, found in lines.items():
        arm, best = max(found, key=lambda pair: pair[1].value)
        findings.append(f"Most tokens per pass on {name}: {best.text()}, `{arm.method}` ({arm.dtype}).")
    return findings


def _category_finding(
    evidence: Evidence,
    paper_set: PaperSet,
    arm: Arm,
    claims: Sequence[tuple[str, Sequence[PhraseCategory], str]],
) -> str:
    parts = []
    for name, categories, figure in claims:
        printed, ours = evidence.paper[figure], arm.share_of(categories)
        if ours is not None and printed.high is not None:
            parts.append(
                f"{name} supply {ours.text('.1%')}, {ours.against(printed.value, printed.high)} the paper's range of "
                f"{printed}"
            )
    rest = arm.share_of(REST)
    others = (
        f"; {_text(rest, '.1%')} come in {joined([each.value for each in REST])} phrases" if rest is not None else ""
    )
    return f"{paper_set.name}, `{arm.method}` ({arm.dtype}): {joined(parts)}{others}."


def _words_findings(evidence: Evidence, paper_set: PaperSet, arm: Arm) -> list[str]:
    """How much more a landing banks with phrases, at the same number of draft tokens."""
    place = (arm.dtype, arm.num_draft_tokens)
    return [
        f"{paper_set.name}: a landing of `{other.method}` banks {other.banked.value / arm.banked.value:.2f} times as "
        f"many tokens as one of `{arm.method}`, and {other.landing.value / arm.landing.value:.2f} times as many passes "
        "land."
        for other in evidence.arms(paper_set)
        if (other.dtype, other.num_draft_tokens) == place
        and other.banked is not None
        and other.landing is not None
        and arm.banked is not None
        and arm.landing is not None
    ]


def _text(found: Estimate | None, form: str = ".3f") -> str:
    return "" if found is None else found.text(form)
