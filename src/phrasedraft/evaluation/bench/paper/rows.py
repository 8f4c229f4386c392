"""The shape of the tables: a row for every figure, the paper's and ours."""

from collections.abc import Sequence
from dataclasses import dataclass

from phrasedraft.evaluation.bench.markdown import markdown_table
from phrasedraft.evaluation.bench.paper.evidence import ARITHMETIC, NOT_MEASURED

HEADER = ("what", "the paper", "here", "measured as", "comparable?")


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """What the paper says of a thing and what we measured of it; `verdict` says whether the two may be compared."""

    what: str
    paper: str
    here: str
    measured: str
    verdict: str

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as `HEADER` names it."""
        return self.what, self.paper, self.here, self.measured, self.verdict


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table of the page; `findings` are the sentences below it, made from its figures."""

    title: str
    rows: tuple[PaperRow, ...]
    findings: tuple[str, ...]

    def markdown(self) -> str:
        """The table and its findings under a heading."""
        table = markdown_table(HEADER, [row.cells for row in self.rows], num_left=len(HEADER))
        return "\n\n".join([f"## {self.title}", table, " ".join(self.findings)])


def missing(what: str, paper: str, how: str = "") -> PaperRow:
    """The row of something the run has no figure of; `how` says where one is to be had."""
    return PaperRow(what=what, paper=paper, here="", measured=how, verdict=NOT_MEASURED)


def arithmetic(what: str, paper: str, here: str) -> PaperRow:
    """The row of a relation between the paper's own figures, worked out again."""
    return PaperRow(what=what, paper=paper, here=here, measured="worked out again", verdict=ARITHMETIC)


def joined(parts: Sequence[str]) -> str:
    """Parts of a sentence with commas and an `and`.

    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def times(ratio: float) -> str:
    """A speed-up as the pages write it."""
    return f"{ratio:.2f}x"
