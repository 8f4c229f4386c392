"""Every Python snippet on a page runs, top to bottom, as a reader would run it; every link leads somewhere."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def _snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.embedded
@pytest.mark.parametrize("page", [page for page in PAGES if _snippets(page)], ids=lambda page: page.stem)
def test_the_snippets_of_a_page_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile("\n".join(_snippets(page)), str(page), "exec"), {"__name__": "page"})


@pytest.mark.embedded
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example.read_text(), str(example), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_stays_under_150_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_the_readme_shows_the_committed_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["readme_table.py", "--check"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(ROOT / "benchmarks" / "readme_table.py"), run_name="__main__")
    assert left.value.code == 0
