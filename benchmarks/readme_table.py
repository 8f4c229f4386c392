"""Write the README's table from the committed results: `python benchmarks/readme_table.py [--check]`."""

import sys
from pathlib import Path

from phrasedraft.evaluation.bench.report_tables import headline_table
from phrasedraft.evaluation.bench.table import read_results

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "full" / "results.parquet"
BEGIN, END = "<!-- begin: benchmarks/readme_table.py -->", "<!-- end -->"


def table() -> str:
    results, provenance = read_results(RESULTS)
    return f"{headline_table(results, provenance)}\n\nMade by `{provenance.command}`"


def with_table(readme: str) -> str:
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"README.md has no `{BEGIN}` ... `{END}`")
    return f"{before}{begin}\n{table()}\n{end}{after}"


def main() -> None:
    path = ROOT / "README.md"
    readme = path.read_text(encoding="utf-8")
    made = with_table(readme)
    if "--check" in sys.argv[1:]:
        sys.exit(
            0 if made == readme else "README.md's table is not that of the results: run benchmarks/readme_table.py"
        )
    path.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
