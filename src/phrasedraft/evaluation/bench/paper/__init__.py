"""The figures of the phrase paper (arXiv 2611.12464) beside those of a benchmark, row by row."""

from phrasedraft.evaluation.bench.paper.page import PAGE, paper_tables, write_paper
from phrasedraft.evaluation.bench.paper.rows import PaperRow, PaperTable
from phrasedraft.evaluation.bench.paper.sizes import head_facts

__all__ = ["PAGE", "PaperRow", "PaperTable", "head_facts", "paper_tables", "write_paper"]
