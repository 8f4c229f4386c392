import importlib.util
import re

import pytest

from bench_rows import Maker, make_difference, make_provenance, make_rows, makers
from phrasedraft.errors import DataError
from phrasedraft.evaluation.bench.plots import PICTURES
from phrasedraft.evaluation.bench.report import REPORT_FILE, rebuild, summary_sentence, write_report
from phrasedraft.evaluation.bench.report_tables import NUM_DIFFERENCES, headline_table
from phrasedraft.evaluation.bench.result import GENERATE, LOOKUP, PLAIN
from phrasedraft.evaluation.bench.summary import summarize
from phrasedraft.evaluation.bench.table import RESULTS_FILE, write_results

ROWS = make_rows(["gsm8k_test", "mt_bench"], 3, makers((4, 16)))
FEW = make_rows(["gsm8k_test"], 2, makers((4,))[:4])


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The report of rows, written without pictures, which take seconds."""

    def write(rows=ROWS, **changes):
        with monkeypatch.context() as patch:
            patch.setattr(importlib.util, "find_spec", lambda name: None)
            write_report(tmp_path, rows, make_provenance(**changes))
        return (tmp_path / REPORT_FILE).read_text(encoding="utf-8")

    return write


def tables(text):
    """Every table: its lines, as lists of cells."""
    found = re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE)
    return [[line.strip("|").split("|") for line in table.strip().splitlines()] for table in found]


def section(text, title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)[1]


def test_a_report_rebuilt_from_the_parquet_alone_is_the_same_to_the_byte(tmp_path):
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    # a run's own provenance may hold tuples and numbers as keys; what is read back holds lists and strings
    settings = {"nodes": (4, 16), "limits": {4: 3, 16: 2}, "head": None}
    provenance = make_provenance(settings=settings, differences=[make_difference(FEW[3])], remarks=["a remark"])
    write_results(tmp_path / RESULTS_FILE, FEW, provenance)
    write_report(tmp_path, FEW, provenance)
    names = (REPORT_FILE, *PICTURES)
    before = {name: (tmp_path / name).read_bytes() for name in names}
    for name in names:
        (tmp_path / name).unlink()
    rebuild(tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in names} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((*names, RESULTS_FILE))


def test_every_picture_is_embedded(tmp_path):
    pytest.importorskip("matplotlib")
    write_report(tmp_path, FEW, make_provenance())
    text = (tmp_path / REPORT_FILE).read_text(encoding="utf-8")
    assert re.findall(r"!\[.*\]\((.*)\)", text) == list(PICTURES)


def test_without_pictures_none_is_embedded(written):
    assert "![" not in written()


def test_rebuilding_a_folder_without_results_names_the_file(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match=RESULTS_FILE):
        rebuild(tmp_path)


def test_every_line_of_a_table_is_equally_wide(written):
    text = written(differences=[make_difference(ROWS[4])])
    assert len(tables(text)) > 12
    for table in re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE):
        assert len({len(line) for line in table.strip().splitlines()}) == 1


def test_each_set_has_a_section_with_every_method_and_its_figures(written):
    text = written()
    for name in ("gsm8k_test", "mt_bench", "all sets"):
        speed, texts, drafts, times = tables(section(text, name))
        for table in (speed, texts, times):
            assert [row[0].strip() for row in table[2:]] == [maker.method for maker in makers((4, 16))]
        assert drafts[2][0].strip() == PLAIN
    (summary,) = [e for e in summarize(ROWS) if (e.method, e.prompt_set) == ("phrase-head, 4 nodes", "gsm8k_test")]
    row = next(row for row in tables(section(text, "gsm8k_test"))[0] if row[0].strip() == summary.method)
    assert [cell.strip() for cell in row[1:4]] == [str(summary.over_generate), str(summary.over_plain), "3"]


def test_a_column_nobody_has_a_figure_for_is_left_out(written):
    assert "J/token" not in section(written(), "gsm8k_test")
    rows = make_rows(["gsm8k_test"], 2, makers((4,)), energy_joules=40.0)
    assert "J/token" in section(written(rows), "gsm8k_test")


def test_differences_are_listed_with_the_largest_gap_first_and_no_more_than_fit(written):
    assert "None: every answer" in section(written(), "Differences from generate()")
    many = [
        make_difference(each, position=i, top_two_gap=i / 1000) for i, each in enumerate(ROWS[: NUM_DIFFERENCES + 5])
    ]
    text = section(written(differences=[*many, make_difference(ROWS[0], None, None)]), "Differences from generate()")
    (table,) = tables(text)
    assert text.startswith(f"\n{NUM_DIFFERENCES + 6} answers")
    assert len(table) == 2 + NUM_DIFFERENCES
    assert [cell.strip() for cell in table[2][-2:]] == ["54", "0.0540"]


def test_the_load_of_others_and_the_warm_up_are_stated(written):
    rows = [
        *make_rows(["a"], 3, makers((4,))[:1], other_load=0.1),
        *make_rows(["b"], 1, makers((4,))[:1], other_load=0.9),
    ]
    assert "a median of 0.10 cores busy (most: 0.90); 1 of 4 answers (25.0%)" in written(rows, warm_up_seconds=3.25)
    assert "Warm-up took 3.2 s" in written(rows, warm_up_seconds=3.25)
    assert "did not say how busy" in written(make_rows(["a"], 1, makers((4,))[:1], other_load=None))


def test_the_origin_is_there(written):
    text = section(written(remarks=["cores were shared"]), "Where this comes from")
    for fact in (
        make_provenance().command,
        "134,515,008",
        "max_new_tokens",
        "versions torch",
        "2.553%",
        "cores were shared",
    ):
        assert fact in text


def test_fertility_has_a_line_for_each_text(written):
    (table,) = tables(section(written(), "Fertility"))
    assert [cell.strip() for cell in table[3]] == ["telugu", "180", "2,107", "11.71", "-"]
    assert "## Fertility" not in written(fertility=[])


def test_every_column_is_explained(written):
    text = written(make_rows(["gsm8k_test"], 2, makers((4,)), energy_joules=40.0))
    names = {cell.strip() for table in tables(section(text, "gsm8k_test")) for cell in table[0]}
    explained = section(text, "How to read this")
    for name in names - {"method", "answers", "tokens", "parameters"}:
        assert name in explained, name


@pytest.mark.parametrize(
    ("factor", "wording"),
    [
        (0.5, "fastest is `plain loop`, 2.00 [2.00, 2.00] times as fast as `generate()`"),
        (2.0, "nothing is faster than `generate()`; nearest is `plain loop`, 0.50"),
    ],
)
def test_the_sentence_says_what_was_measured(factor, wording):
    makes = [Maker(method=GENERATE, kind=GENERATE), Maker(method=PLAIN)]
    rows = make_rows(["a"], 3, makes[:1], seconds=1.0) + make_rows(["a"], 3, makes[1:], seconds=factor)
    assert summary_sentence(summarize(rows)).startswith(wording)
    assert summary_sentence(summarize(rows)).endswith("3 of 3 answers are identical to those of `generate()`.")


def test_the_sentence_does_not_make_more_of_a_lead_than_its_interval():
    makes = [Maker(method=GENERATE, kind=GENERATE), Maker(method=PLAIN)]
    rows = [
        row for i, s in enumerate((1.0, 0.5, 1.4)) for row in make_rows(["a"], 3, makes[:1], seconds=1.0)[i : i + 1]
    ]
    rows += [row for i, s in enumerate((1.0, 0.5, 1.4)) for row in make_rows(["a"], 3, makes[1:], seconds=s)[i : i + 1]]
    assert "which its interval does not make sure" in summary_sentence(summarize(rows))


def test_the_headline_table_has_methods_by_sets():
    (table,) = tables(headline_table(ROWS, make_provenance()))
    assert [cell.strip() for cell in table[0]] == ["method", "gsm8k_test", "mt_bench", "all sets"]
    assert [row[0].strip() for row in table[2:4]] == [LOOKUP, PLAIN]
    assert re.fullmatch(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\], \d\.\d\d", table[4][1].strip())
    assert re.fullmatch(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]", table[3][1].strip())  # no tokens per pass without drafts


def test_the_headline_table_shows_the_methods_and_conditions_asked_for():
    rows = [*ROWS, *make_rows(["gsm8k_test"], 1, makers((4,)), dtype="bfloat16")]
    (table,) = tables(headline_table(rows, make_provenance(), methods=[PLAIN, "absent"], conditions=("bfloat16", 1)))
    assert [cell.strip() for cell in table[0]] == ["method", "gsm8k_test"]
    assert [row[0].strip() for row in table[2:]] == [PLAIN, "absent"]
    assert table[3][1].strip() == "-"


def test_no_results_make_a_report_that_says_so(written):
    assert "There are no results." in written([])
