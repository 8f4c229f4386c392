"""The tables that need no decoding: what a head weighs, and how many tokens a target spends on a word."""

from typing import Any

from phrasedraft.drafters.head import Head
from phrasedraft.drafters.loading import load_head
from phrasedraft.errors import PhraseDraftError
from phrasedraft.evaluation.bench.paper.evidence import COMPARABLE, PHRASES, WORDS, Evidence
from phrasedraft.evaluation.bench.paper.rows import PaperRow, PaperTable, arithmetic, joined, missing

LANGUAGES = ("english", "hindi", "telugu")


def head_facts(head: Head) -> dict[str, Any]:
    """What `Provenance.drafters` should say of a head beside its parameters and source, counted in its weights.

    `kind` is what it drafts, `entries` how many it chooses from, `parameters_per_entry` the weights of the output layer
    over the entries.
    """
    output = sum(parameter.numel() for parameter in head.scorer.output.parameters())
    entries = len(head.vocabulary)
    return {
        "kind": head.name,
        "entries": entries,
        "parameters_per_entry": output / entries if entries else 0.0,
    }


def budget_table(evidence: Evidence) -> PaperTable:
    """Parameters of heads, their share of the target, and what an entry costs."""
    paper, value = evidence.paper, evidence.paper.value
    grown = value("large_parameters") - value("small_parameters")
    per_entry = grown / (value("large_entries") - value("small_entries"))
    rows = [
        arithmetic(
            "parameters per entry, (21.94M - 3.434M) / 72,000 entries",
            str(paper["parameters_per_entry"]),
            f"{per_entry:.1f}",
        ),
        arithmetic(
            "8,000 entries against EAGLE-3's drafter, 218M / 3.434M",
            str(paper["times_smaller"]),
            f"{value('eagle_parameters') / value('small_parameters'):.1f}x",
        ),
    ]
    heads = {
        name: {**_counted(evidence, facts), **facts}
        for name, facts in evidence.provenance.drafters.items()
        if facts.get("parameters") and evidence.kind(name) in (PHRASES, WORDS)
    }
    rows += _share_rows(evidence, heads) + _entry_rows(evidence, heads)
    return PaperTable(title="The parameter budget", rows=tuple(rows), findings=_budget_findings(evidence, heads))


def fertility_table(evidence: Evidence) -> PaperTable:
    """Tokens per word, language by language; a count, so there is no interval."""
    paper = evidence.paper
    lines = {str(line["text"]): line for line in evidence.provenance.fertility}
    rows = []
    for language in LANGUAGES:
        what, printed = f"{language.title()}: tokens per word", str(paper[f"fertility_{language}"])
        line = lines.get(language)
        rows.append(
            missing(what, printed)
            if line is None
            else PaperRow(
                what=what,
                paper=printed,
                here=f"{line['tokens_per_word']:.2f}",
                measured=f"{line['tokens']:,} tokens, {line['words']:,} words of the bundled text, a count",
                verdict=evidence.verdict(more=("other text",)),
            )
        )
    found = {language: float(lines[language]["tokens_per_word"]) for language in LANGUAGES if language in lines}
    return PaperTable(
        title="Tokens per word", rows=tuple(rows), findings=tuple(_fertility_findings(evidence, found, lines))
    )


def _counted(evidence: Evidence, facts: dict[str, Any]) -> dict[str, Any]:
    """What the head itself says, for results that kept only where it lay; nothing where it lies there no more."""
    if "parameters_per_entry" in facts:
        return {}
    for name in (str(facts.get("source", "")), evidence.provenance.target):
        try:
            head = load_head(name)
        except PhraseDraftError:
            continue
        if head.num_parameters == facts["parameters"]:
            return head_facts(head)
    return {}


def _share_rows(evidence: Evidence, heads: dict[str, dict[str, Any]]) -> list[PaperRow]:
    """Parameters and share of the target."""
    paper = evidence.paper
    sizes = {"small": "8,000 entries: parameters, share of the target", "large": "80,000 entries: the same"}
    printed = {name: f"{paper[f'{name}_parameters']}, {paper[f'{name}_share']}" for name in sizes}
    rows = []
    for name, what in sizes.items():
        implied = paper.value(f"{name}_parameters") / paper.value(f"{name}_share")
        rows.append(arithmetic(what, printed[name], f"a target of {implied / 1e9:.2f}B parameters"))
    for name, facts in heads.items():
        parameters = int(facts["parameters"])
        entries = f", {facts['entries']:,} entries" if facts.get("entries") else ""
        rows.append(
            PaperRow(
                what=f"`{name}`: parameters, share of the target",
                paper="; ".join(printed.values()),
                here=f"{parameters:,}, {parameters / evidence.provenance.target_parameters:.3%}",
                measured=f"{evidence.provenance.target_parameters:,} parameters of the target{entries}",
                verdict=evidence.verdict(),
            )
        )
    return rows


def _entry_rows(evidence: Evidence, heads: dict[str, dict[str, Any]]) -> list[PaperRow]:
    """What an entry costs: a row of the output layer and its bias, whatever the target."""
    printed = str(evidence.paper["parameters_per_entry"])
    rows = [
        PaperRow(
            what=f"`{name}`: parameters per entry",
            paper=printed,
            here=f"{facts['parameters_per_entry']:g}",
            measured=f"the output layer over {facts['entries']:,} entries, a count",
            verdict=COMPARABLE,
        )
        for name, facts in heads.items()
        if "parameters_per_entry" in facts
    ]
    return rows or [missing("parameters per entry of our heads", printed)]


def _budget_findings(evidence: Evidence, heads: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    if not heads:
        return ("The run has no phrase head.",)
    target, findings = evidence.provenance.target_parameters, []
    shares = [
        f"{facts['parameters'] / target:.2%} of {evidence.provenance.target} for `{name}`"
        for name, facts in heads.items()
    ]
    findings.append(f"A head weighs {joined(shares)}: the smaller the target, the larger the share of the same head.")
    printed = evidence.paper.value("parameters_per_entry")
    rows = {name: facts["parameters_per_entry"] for name, facts in heads.items() if "parameters_per_entry" in facts}
    equal = [name for name, count in rows.items() if count == printed]
    if rows:
        findings.append(f"{len(equal)} of {len(rows)} heads have exactly {printed:g} parameters an entry.")
    return tuple(findings)


def _fertility_findings(evidence: Evidence, found: dict[str, float], lines: dict[str, dict[str, Any]]) -> list[str]:
    if not found:
        return ["The run counted no fertility: `phrasedraft fertility` does."]
    theirs = {language: evidence.paper.value(f"fertility_{language}") for language in found}
    findings = []
    if "english" in found:
        findings += [
            f"A word of {language.title()} takes {found[language] / found['english']:.1f} times the tokens of an "
            f"English one here, {theirs[language] / theirs['english']:.1f} times in the paper."
            for language in found
            if language != "english"
        ]
    replayed = {name: line["tokens_per_pass"] for name, line in lines.items() if line.get("tokens_per_pass")}
    if replayed:
        passes = [f"{value:.2f} ({name})" for name, value in replayed.items()]
        findings.append(f"Tokens per pass of the head on these texts, which it was not trained for: {joined(passes)}.")
    return findings
