from dataclasses import replace

import pytest

from bench_rows import Maker, make_provenance, make_rows
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.bench.compare import compare
from phrasedraft.evaluation.bench.result import GENERATE, PLAIN
from phrasedraft.evaluation.bench.table import RESULTS_FILE, write_results

pytest.importorskip("pyarrow")

BASE = Maker(method=GENERATE, kind=GENERATE)
HEAD = Maker(method="head, 4 nodes", drafter="head", num_draft_tokens=4, landing=0.6, banked=2.0)
ROWS = make_rows(["a", "b"], 3, [BASE, Maker(method=PLAIN), HEAD])


@pytest.fixture
def compared(tmp_path):
    """Compares rows with `ROWS`."""

    def run(rows, tolerance=0.05, **changes):
        for name, results, provenance in (
            ("before", ROWS, make_provenance()),
            ("after", rows, make_provenance(**changes)),
        ):
            (tmp_path / name).mkdir(exist_ok=True)
            write_results(tmp_path / name / RESULTS_FILE, results, provenance)
        return compare(tmp_path / "before", tmp_path / "after", tolerance)

    return run


def changed(change, method=HEAD.method, prompt_set="a"):
    return [change(each) if (each.method, each.prompt_set) == (method, prompt_set) else each for each in ROWS]


def slower(factor):
    return lambda each: replace(each, seconds=each.seconds * factor)


def test_a_benchmark_compared_with_itself_fails_nowhere(compared):
    found = compared(ROWS, tolerance=0.0)
    assert found.failures == []
    assert (found.only_before, found.only_after, found.remarks) == ((), (), ())
    assert len(found.lines) == 6
    assert all(line.speedup_before == line.speedup_after for line in found.lines)


def test_a_slower_method_fails_beyond_the_tolerance_only(compared):
    assert compared(changed(slower(1.04))).failures == []
    (failure,) = compared(changed(slower(1.1))).failures
    assert failure.startswith("head, 4 nodes on a, float32, batch size 1: speed-up over generate() fell from")
    assert failure.endswith("(-9.1%)")


def test_a_machine_half_as_fast_fails_nowhere_since_ratios_are_compared(compared):
    found = compared([slower(2.0)(each) for each in ROWS], machine={"processor": "another"})
    assert found.failures == []
    assert found.remarks == ("the machine differ in `processor`, `torch_threads`, `versions`",)


def test_fewer_tokens_per_pass_fail(compared):
    def worse(each):
        return replace(each, stats={**each.stats, "num_accepted_tokens": each.stats["num_accepted_tokens"] // 2})

    found = compared(changed(worse))
    (failure,) = found.failures
    assert "tokens per pass fell" in failure


def test_one_text_that_is_another_fails_whatever_the_tolerance(compared):
    first = next(each for each in ROWS if each.method == HEAD.method)
    rows = [replace(each, tokens=[*each.tokens[:-1], 1]) if each is first else each for each in ROWS]
    (failure,) = compared(rows, tolerance=0.9).failures
    assert "share of identical answers fell from 1.000 to 0.667" in failure


def test_texts_that_have_become_identical_do_not_fail(tmp_path, compared):
    first = next(each for each in ROWS if each.method == HEAD.method)
    compared([replace(each, tokens=[*each.tokens[:-1], 1]) if each is first else each for each in ROWS])
    assert compare(tmp_path / "after", tmp_path / "before", 0.05).failures == []


def test_lines_of_one_side_are_named_and_those_that_are_no_more_fail(compared):
    rows = [
        replace(each, method="new") if each.method == HEAD.method and each.prompt_set == "b" else each for each in ROWS
    ]
    found = compared(rows)
    assert found.only_before == (("b", HEAD.method, "float32", 1),)
    assert found.only_after == (("b", "new", "float32", 1),)
    assert found.failures == ["head, 4 nodes on b, float32, batch size 1: was not measured again"]
    assert [row[:2] for row in found.tables()[1][1]] == [("before", HEAD.method), ("after", "new")]


def test_a_figure_that_is_there_no_more_fails(compared):
    found = compared([each for each in ROWS if each.method != GENERATE])
    assert (
        len(found.failures) == 8 + 2
    )  # two methods on two sets: no speed-up, nothing to be identical to; `generate()`
    assert "speed-up over generate() was" in found.failures[0]


def test_another_target_other_settings_and_other_prompts_are_said(compared):
    rows = [replace(each, num_prompt_tokens=9) if each.answer_id == "a-0" else each for each in ROWS]
    found = compared(rows, target="another", settings={**make_provenance().settings, "max_new_tokens": 64})
    assert found.remarks == (
        "the target was `smollm2-135m` and is `another`",
        "the settings differ in `max_new_tokens`",
        "the prompts differ: 1 were answered only before, 1 only after, 5 both times",
    )


def test_nothing_in_common_is_an_error_and_not_a_success(compared):
    with pytest.raises(DataError, match="in common"):
        compared([replace(each, dtype="bfloat16") for each in ROWS])


@pytest.mark.parametrize("tolerance", [-0.1, 1.0, float("nan")])
def test_a_tolerance_that_makes_no_sense_is_refused(compared, tolerance):
    with pytest.raises(OptionError, match="tolerance"):
        compared(ROWS, tolerance=tolerance)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        compare(tmp_path / "nowhere", tmp_path, 0.05)


def test_tables_and_json_hold_every_line_and_failure(compared):
    found = compared(changed(slower(1.5)))
    header, rows = found.tables()[0]
    assert len(rows) == 6
    assert all(len(row) == len(header) for row in rows)
    assert [row[-1] for row in rows].count("worse") == 1
    assert len(found.tables()) == 2
    stored = found.as_dict()
    assert stored["failures"] == found.failures
    assert len(stored["lines"]) == 6
