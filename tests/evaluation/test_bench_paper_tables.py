"""Every figure of ours beside the paper's is the one counted by hand."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench_rows import make_row, make_rows
from paper_rows import (
    LARGE,
    METHODS,
    NOT_MEASURED,
    SMALL,
    costs,
    heads,
    one,
    phrase,
    provenance,
    rows,
    tables,
    with_passes,
)
from phrasedraft.drafters import PhraseHead, load_head
from phrasedraft.evaluation.bench.paper import head_facts
from phrasedraft.evaluation.bench.paper.estimate import Estimate, estimate, ratio

DASH = "\N{EN DASH}"


@pytest.fixture(scope="module")
def results():
    return make_rows(("gsm8k_test", "math500", "mt_bench"), 6, METHODS)


@pytest.fixture(scope="module")
def made(results):
    return tables(results)


def test_tokens_per_pass_landing_and_banked_are_those_counted_by_hand():
    made = [with_passes([1, 3, 4]), with_passes([1, 2], prompt=1)]  # 11 tokens in 5 passes, 3 land, 6 accepted
    row = one(tables(made)["passes"], "GSM8K: tokens")
    values = [
        float(number) for number in re.sub(r"\[.*?\]", "", row.here).replace("x", "=").replace("1 +", "").split("=")
    ]
    assert values == pytest.approx([11 / 5, 3 / 5, 6 / 3])
    assert row.paper == "2.730 = 1 + 0.777 x 2.23"


def test_the_identity_is_checked_between_two_ways_to_count(results, made):
    assert "the two sides agree." in made["passes"].findings[1]
    row = with_passes([1, 3, 4])
    wrong = replace(row, stats={**row.stats, "num_accepted_tokens": 2})
    assert "differ by up to 1.000." in tables([wrong])["passes"].findings[1]


def test_the_paper_is_worked_out_again(made):
    assert one(made["passes"], "GSM8K: banked").here == "2.227"
    assert one(made["cost"], "GSM8K: time per token").here == "15.08 ms"
    assert one(made["cost"], "GSM8K: speed-up").here == "2.392x"
    assert one(made["budget"], "parameters per entry, ").here == "257.0"
    assert one(made["budget"], "8,000 entries against").here == "63.5x"
    assert one(made["cost"], "46 draft tokens against").paper.startswith("1.141x")
    assert "misses its 2.730 by 0.021" in made["passes"].findings[0]


def test_the_cost_of_a_pass_is_that_of_the_run_for_every_dtype(results):
    measured = {"float32": costs(_0=20.0, _8=24.0, _46=50.0), "bfloat16": costs(_0=10.0, _8=11.0, _46=14.0)}
    table = tables(results, provenance(costs=measured))["cost"]
    assert [row.here for row in rows(table, "46 draft tokens against one")] == ["1.400x", "2.500x"]
    assert [row.here for row in rows(table, "a pass over 46")] == ["14.00 ms [13.00, 15.00]", "50.00 ms [49.00, 51.00]"]
    tokens = one(table, "GSM8K: tokens per pass over")
    value, cost, speedup = map(float, re.findall(r"[\d.]+(?=x| |$)", tokens.here))
    assert cost == 2.5
    assert speedup == pytest.approx(value / cost, abs=0.006)
    assert "costs 1.40 times a pass over one token here (bfloat16) and 1.141 times in the paper" in table.findings[0]


def test_a_pass_that_was_not_timed_is_read_between_its_neighbours_and_never_beyond_them(results):
    between = tables(results, provenance(costs={"float32": costs(_0=20.0, _40=40.0, _60=60.0)}))["cost"]
    row = one(between, "a pass over 46")
    assert row.here == "46.00 ms"
    assert "between" in row.measured
    beyond = tables(results, provenance(costs={"float32": costs(_0=20.0, _16=30.0)}))["cost"]
    assert one(beyond, "a pass over 46").verdict == NOT_MEASURED
    assert one(beyond, "a pass over one").here == "20.00 ms [19.00, 21.00]"
    assert not [row for row in beyond.rows if row.what.startswith("GSM8K: tokens per pass over")]


def test_a_whole_pass_has_drafting_in_it(made):
    here = one(made["cost"], "GSM8K: a whole pass").here
    ours, plain = (float(number) for number in re.findall(r"([\d.]+) \[", here))
    assert 128 + 5 < ours < 128 + 5 + 6  # the builder's pass, its draft, and what is left
    assert plain < 60


def test_shares_of_kinds_are_those_of_the_accepted_tokens_and_are_set_against_the_papers_range():
    counts = {"punctuation": 40, "latex": 20, "words": 25, "mixed": 15}
    made = [make_row(prompt=prompt, maker=phrase(), categories=counts) for prompt in range(4)]
    table = tables(made)["kinds"]
    assert one(table, "GSM8K: punctuation and LaTeX").here == "60.0% [60.0%, 60.0%]"
    assert one(table, "GSM8K: plain words").here == "25.0% [25.0%, 25.0%]"
    assert one(table, "MATH-500: plain words").verdict == NOT_MEASURED
    (finding,) = table.findings
    assert f"60.0%], inside the paper's range of 57{DASH}63%" in finding
    assert f"25.0%], above the paper's range of 5.5{DASH}7.3%" in finding
    assert "15.0% [15.0%, 15.0%] come in digits, code, mixed and special phrases" in finding


def test_two_heads_are_compared_on_the_prompts_they_share_and_one_points_at_the_study(results, made):
    row = rows(made["heads"], "GSM8K: what the smaller")[0]
    assert (row.here, row.verdict) == ("", NOT_MEASURED)
    assert "benchmarks/study/study.py" in made["heads"].findings[0]
    assert (Path(__file__).parents[2] / "benchmarks" / "study" / "study.py").is_file()
    small = [with_passes([2, 2], prompt=prompt) for prompt in range(3)]
    large = [
        replace(with_passes([2, 3], prompt=prompt), method="large, 46 nodes", drafter="large") for prompt in range(1, 5)
    ]
    known = provenance(drafters=heads(phrase=SMALL, large=LARGE))
    table = tables([*small, *large], known)["heads"]
    row = one(table, "GSM8K: what the smaller")
    assert row.here == f"80.0% [80.0%, 80.0%], {LARGE / SMALL:.1f} times fewer parameters"
    assert row.verdict == "other target"
    assert "92.3% lies above the interval" in table.findings[0]
    near = tables([*small, *large], provenance(drafters=heads(phrase=SMALL, large=2 * SMALL)))["heads"]
    assert one(near, "GSM8K: what the smaller").verdict == "other target, other ratio of sizes"
    alike = tables([*small, *large], provenance(drafters=heads(phrase=SMALL, large=SMALL)))["heads"]
    assert one(alike, "GSM8K: what the smaller").verdict == NOT_MEASURED


def test_a_head_stands_beside_the_papers_head_that_is_nearest_in_size(results, made):
    assert one(made["heads"], "GSM8K: phrase head, 8,000").here
    assert one(made["heads"], "GSM8K: phrase head, 80,000").verdict == NOT_MEASURED
    large = tables(results, provenance(drafters=heads(phrase=LARGE)))["heads"]
    assert one(large, "GSM8K: phrase head, 8,000").verdict == NOT_MEASURED
    assert one(large, "GSM8K: phrase head, 80,000").here
    assert {row.verdict for row in large.rows if "EAGLE-3" in row.what} == {NOT_MEASURED}


@pytest.fixture(scope="module")
def shipped():
    return load_head("smollm2-135m")


def test_what_an_entry_costs_is_counted_in_the_heads_own_weights(shipped):
    facts = head_facts(shipped)
    assert facts == {"kind": "phrase-head", "entries": 8000, "parameters_per_entry": 257.0}
    run = {"phrase": {"parameters": shipped.num_parameters, "target_share": 0.02, "source": "nowhere", **facts}}
    table = tables([], provenance(drafters=run))["budget"]
    row = one(table, "`phrase`: parameters per entry")
    assert (row.here, row.verdict) == ("257", "comparable")
    assert "1 of 1 heads have exactly 257" in table.findings[1]
    share = one(table, "`phrase`: parameters, share")
    assert share.here == f"{shipped.num_parameters:,}, {shipped.num_parameters / 134_515_008:.3%}"
    run["phrase"]["parameters_per_entry"] = 129.0
    assert "0 of 1 heads have exactly 257" in tables([], provenance(drafters=run))["budget"].findings[1]


def test_a_head_that_lies_where_the_run_says_is_asked_itself_unless_it_is_another_one(shipped, tmp_path):
    shipped.save_pretrained(tmp_path / "head")
    assert isinstance(load_head(tmp_path / "head"), PhraseHead)
    for parameters, is_known in ((shipped.num_parameters, True), (shipped.num_parameters + 1, False)):
        run = {"phrase": {"parameters": parameters, "target_share": 0.02, "source": str(tmp_path / "head")}}
        table = tables([], provenance(drafters=run))["budget"]
        assert any(row.what == "`phrase`: parameters per entry" for row in table.rows) is is_known
    run["phrase"] |= {"source": "the target's head", "parameters": shipped.num_parameters}
    assert one(tables([], provenance(drafters=run))["budget"], "`phrase`: parameters per entry").here == "257"
    elsewhere = provenance(drafters=run, target="another")
    assert one(tables([], elsewhere)["budget"], "parameters per entry of").verdict == NOT_MEASURED


def test_fertility_is_that_of_the_run(made):
    assert one(made["words"], "English").here == f"{402 / 310:.2f}"
    assert one(made["words"], "Telugu").here == f"{2107 / 180:.2f}"
    assert one(made["words"], "Hindi").verdict == NOT_MEASURED
    times = (2107 / 180) / (402 / 310)
    assert f"Telugu takes {times:.1f} times the tokens of an English one here, 8.5" in made["words"].findings[0]
    assert "1.62 (english)" in made["words"].findings[1]


def test_words_stand_beside_phrases_of_the_same_number_of_draft_tokens():
    words = [with_passes([1, 2, 2], prompt=prompt) for prompt in range(2)]
    words = [replace(row, method="words-head, 46 nodes", drafter="words-head") for row in words]
    table = tables([*words, *(with_passes([1, 1, 5], prompt=prompt) for prompt in range(2))])["unit"]
    accepted, banked = table.rows
    assert (accepted.paper, accepted.here) == ("71.1%", "66.7% [66.7%, 66.7%]")
    assert (banked.paper, banked.here) == ("1.049", "1.000 [1.000, 1.000]")
    assert "banks 4.00 times as many tokens" in table.findings[0]
    assert "0.50 times as many passes land" in table.findings[0]


def test_an_interval_is_over_prompts_and_says_where_it_lies():
    assert estimate(ratio, [1.0], [2.0]) == Estimate(value=0.5, low=None, high=None, num_groups=1)
    assert estimate(ratio, [0.0, 0.0], [0.0, 0.0]) is None
    assert estimate(ratio, [], []) is None
    found = estimate(ratio, [1.0, 3.0], [4.0, 4.0])
    assert (found.low, found.value, found.high) == pytest.approx((0.25, 0.5, 0.75))
    assert found.text(".2f") == "0.50 [0.25, 0.75]"
    assert found.against(0.4, 0.6) == "inside"
    assert found.against(0.6, 0.7) == "below, though the interval reaches into it"
    assert found.against(0.1, 0.2) == "above"
