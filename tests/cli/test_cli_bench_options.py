"""Which prompts and methods `phrasedraft bench` measures, what it measures again, and what it refuses to mix."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bench_runs import SHORT, lines_of
from phrasedraft.evaluation.bench.result import PLAIN
from phrasedraft.evaluation.bench.table import read_results
from phrasedraft.evaluation.prompts import BUNDLED, load_prompts, quick_prompts


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    monkeypatch.setattr("phrasedraft.evaluation.bench.report.draw_plots", lambda *_: [])


def test_disturbed_answers_are_measured_again_where_that_is_asked_for(run, answer_of, llama, head):
    arguments = ("bench", "--target", llama, "--head", head, *SHORT, "-o", "out")
    answer_of(*arguments)
    path = Path("out/results.jsonl")
    lines = lines_of()
    for line, load in zip(lines, [0.9, 0.2, *[0.0] * 8], strict=True):
        line["other_load"] = load
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "0 answers to measure" in run(*arguments).stderr
    again = run(*arguments, "--most-load", "0.5")
    assert "1 turns were disturbed by other programs and are measured again" in again.stderr
    assert "\n5 answers to measure" in again.stderr
    after = lines_of()
    assert after[:10] == lines
    assert {line["answer_id"] for line in after[10:]} == {lines[0]["answer_id"]}
    results, _ = read_results(Path("out"))
    shown = {each.started_at for each in results if each.answer_id == lines[0]["answer_id"]}
    assert shown == {line["started_at"] for line in after[10:]}


def test_a_quick_run_takes_typical_prompts_unless_told_how_many(run, llama):
    arguments = ("bench", "--target", llama, "--head", "none", "--quick", "--max-new-tokens", "2")
    run(*arguments, "-o", "out")
    typical = {name for source in BUNDLED for prompt in quick_prompts(source) for name in prompt.answer_ids}
    assert {line["answer_id"] for line in lines_of()} == typical
    assert len(lines_of()) == 3 * len(typical)
    run(*arguments, "--limit", "1", "-o", "first")
    first = {name for source in BUNDLED for name in load_prompts(source, 1)[0].answer_ids}
    assert {line["answer_id"] for line in lines_of("first")} == first


def test_a_prompt_set_may_have_a_limit_of_its_own(run, llama):
    arguments = ("bench", "--target", llama, "--head", "none", "--prompts", "gsm8k_test", "--prompts", "mt_bench@1")
    run(*arguments, "--limit", "3", "--max-new-tokens", "2", "-o", "out")
    counts = Counter(line["prompt_set"] for line in lines_of() if line["method"] == PLAIN)
    assert counts == {"gsm8k_test": 3, "mt_bench": 2}
    refused = run("bench", "--target", llama, "--head", "none", "--prompts", "mt_bench@none", "-o", "out")
    assert refused.exit_code == 2
    assert "followed by `none`, it may be a whole number" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rebuild", "--nodes", "8"), "`--rebuild` measures nothing, so `--nodes` would have no effect"),
        (("--compare", "a", "b", "--quick", "--twice"), "so `--twice`, `--quick` would have no effect"),
        (("--compare", "a", "b", "--rebuild"), "so `--rebuild` would have no effect"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(run, arguments, message):
    refused = run("bench", *arguments)
    assert refused.exit_code == 2
    assert message in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--nodes", "8", "--drafter", "suffix-automaton@8", "--drafter", "head@8"),
            "two methods are called `phrase-head, 8",
        ),
        (("--prompts", "all.jsonl"), "a prompt set is called `all`, which stands for all of them"),
    ],
)
def test_what_would_be_measured_twice_or_mixed_is_refused(run, llama, head, arguments, message):
    Path("all.jsonl").write_text('{"id": "a", "turns": ["hello"]}\n')
    refused = run("bench", "--target", llama, "--head", head, "--limit", "1", "--max-new-tokens", "2", *arguments)
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_a_precision_that_is_named_twice_is_measured_once(run, llama):
    arguments = ("--limit", "1", "--max-new-tokens", "2", "--dtype", "auto,float32", "-o", "out")
    result = run("bench", "--target", llama, "--head", "none", *arguments)
    assert result.exit_code == 0
    assert "`float32` is float32 for this target, which is measured once" in result.stderr
    assert len(lines_of()) == 3


def test_a_run_is_not_gone_on_with_on_other_weights_and_says_that_it_was_taken_up_again(run, answer_of, llama, head):
    arguments = ("bench", "--target", llama, "--head", head, *SHORT, "-o", "out")
    answer_of(*arguments)
    path = Path("out/results.jsonl")
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines()[:-3]))
    found = answer_of(*arguments)
    (remark,) = [each for each in found["facts"]["remarks"] if "sittings" in each]
    assert remark.startswith("measured in 2 sittings")
    assert "in 1 of 2 turns" in remark
    run_file = Path("out/run.json")
    known = json.loads(run_file.read_text())
    known["notes"]["target_weights"] = dict.fromkeys(known["notes"]["target_weights"], "others")
    run_file.write_text(json.dumps(known))
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert "holds results of other weights" in refused.stderr
