"""`bench --paper`: every table of the paper beside ours, as a page."""

from collections.abc import Sequence
from pathlib import Path

from phrasedraft.evaluation.bench.paper.costs import cost_table
from phrasedraft.evaluation.bench.paper.drafts import category_table, identity_table, words_table
from phrasedraft.evaluation.bench.paper.evidence import ARITHMETIC, COMPARABLE, NOT_MEASURED, Evidence
from phrasedraft.evaluation.bench.paper.figures import phrase_paper
from phrasedraft.evaluation.bench.paper.heads import heads_table
from phrasedraft.evaluation.bench.paper.rows import PaperTable
from phrasedraft.evaluation.bench.paper.sizes import budget_table, fertility_table
from phrasedraft.evaluation.bench.paper.speed import headline_table
from phrasedraft.evaluation.bench.result import Provenance, Result
from phrasedraft.evaluation.bench.summary import Summary, summarize

PAGE = "paper.md"
_TABLES = (
    headline_table,
    heads_table,
    identity_table,
    cost_table,
    category_table,
    budget_table,
    fertility_table,
    words_table,
)


def paper_tables(results: Sequence[Result], provenance: Provenance, summaries: Sequence[Summary]) -> list[PaperTable]:
    """Every figure of the paper beside what `results` say of it; what they say nothing of has a row all the same."""
    evidence = Evidence(phrase_paper(), results, provenance, summaries)
    return [table(evidence) for table in _TABLES]


def write_paper(folder: Path, results: Sequence[Result], provenance: Provenance) -> None:
    """Write `paper.md` into `folder`, which is made where it is missing."""
    tables = paper_tables(results, provenance, summarize(results, provenance.differences, pooled=False))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PAGE).write_text(_page(tables, provenance), encoding="utf-8")


def _page(tables: Sequence[PaperTable], provenance: Provenance) -> str:
    paper = phrase_paper()
    verdicts = [row.verdict for table in tables for row in table.rows]
    alike, own, missing = (verdicts.count(verdict) for verdict in (COMPARABLE, ARITHMETIC, NOT_MEASURED))
    quotes: dict[str, list[str]] = {}
    for figure in paper.figures.values():
        lines = quotes.setdefault(figure.source, [])
        if figure.wording not in lines:
            lines.append(figure.wording)
    parts = [
        "# The paper's tables beside ours",
        f"*{paper.title}* ({paper.name}) measured {paper.setting}. This run: {provenance.target} "
        f"({provenance.target_parameters:,} parameters), {provenance.started} to {provenance.finished}, "
        f"`{provenance.command}`.",
        f"Of {len(verdicts)} rows {alike} can be compared as they are, {len(verdicts) - alike - own - missing} say "
        f"what differs, {missing} were not measured in this run, and {own} work out again how figures of the paper "
        "hang together.",
        "Brackets are 95 % intervals of a bootstrap over prompts unless the row says otherwise; the paper gives none. "
        f"Only answers at batch size {paper.batch_size} are shown; rows at another number of draft tokens than the "
        f"paper's {paper.num_positions} say so.",
        *(table.markdown() for table in tables),
        "## What the paper says, word for word",
        *(
            f"From {source}:\n\n" + "\n".join(f"> {line}\n>" for line in lines).removesuffix("\n>")
            for source, lines in quotes.items()
        ),
    ]
    return "\n\n".join(parts) + "\n"
