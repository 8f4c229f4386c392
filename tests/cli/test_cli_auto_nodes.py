"""`--nodes auto` and `NAME@auto`, from the command line to the report."""

from pathlib import Path

import pytest

from phrasedraft import load_target
from phrasedraft.evaluation.bench.table import read_results
from simulation import keep_flat_cost

SHORT = ("--max-new-tokens", "60")


@pytest.fixture(autouse=True)
def costs(monkeypatch, tmp_path):
    """Where the costs of passes are kept: a folder of the test's own."""
    monkeypatch.setenv("PHRASEDRAFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "costs"


def test_generate_chooses_nodes_and_says_how_many(run, answer_of, costs, llama, head):
    keep_flat_cost(load_target(llama))
    arguments = ("generate", "hello", "--target", llama, "--head", head, *SHORT)
    chosen, fixed = answer_of(*arguments, "--nodes", "auto", "--verify"), answer_of(*arguments)
    assert chosen["tokens"] == fixed["tokens"]
    assert chosen["identical"] is True
    assert chosen["num_draft_tokens"] == "auto"
    assert chosen["stats"]["num_drafts"] > 0
    assert sum(chosen["stats"]["num_passes_per_size"]) == chosen["stats"]["num_passes"]
    assert len(list(costs.iterdir())) == 1
    assert "nodes a pass" in run(*arguments, "-n", "auto", "--stats").stderr
    assert "nodes a pass" not in run(*arguments, "-n", "8", "--stats").stderr


def test_chat_chooses_nodes_too(run, llama, head):
    result = run("chat", "--target", llama, "--head", head, "--nodes", "auto", *SHORT, stdin="hello\n/stats\n")
    assert result.exit_code == 0
    assert "nodes a pass" in result.stderr


def test_without_a_head_there_is_nothing_to_choose(answer_of, costs, llama):
    found = answer_of("generate", "hello", "--target", llama, "--head", "none", *SHORT, "--nodes", "auto")
    assert found["stats"]["num_draft_tokens"] == 0
    assert not costs.exists()


@pytest.mark.pictures
def test_a_benchmark_measures_fixed_and_chosen_nodes_side_by_side(run, llama, head):
    keep_flat_cost(load_target(llama))
    arguments = ("--drafter", "head@auto", "--drafter", "suffix-automaton@2,auto", "--limit", "2", "--nodes", "46")
    result = run("bench", "--target", llama, "--head", head, *arguments, *SHORT, "-o", "out")
    assert result.exit_code == 0, result.stderr
    results, _ = read_results(Path("out"))
    methods = {each.method: each.num_draft_tokens for each in results if each.drafter}
    assert methods["phrase-head, 46 nodes"] == methods["phrase-head@auto"] == 46
    assert methods["suffix-automaton, 2 nodes"] == 2
    assert methods["suffix-automaton@auto"] == 46
    texts = {(each.answer_id, tuple(each.tokens)) for each in results}
    assert len(texts) == 2
    chosen = next(each for each in results if each.method == "phrase-head@auto")
    assert chosen.counts is not None
    assert sum(chosen.counts.num_passes_per_size) == chosen.counts.num_passes
    report = Path("out/report.md").read_text()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in report.splitlines()]
    place, column = next(
        (number, line.index("nodes/pass")) for number, line in enumerate(lines) if "nodes/pass" in line
    )
    row = next(line for line in lines[place:] if line[0] == "phrase-head@auto")
    assert 0 < float(row[column]) < 46
    assert Path("out/cost.png").exists()


@pytest.mark.parametrize("option", ["--nodes", "--drafter"])
def test_a_benchmark_takes_auto_once_and_nothing_like_it(run, llama, head, option):
    for value in ("auto,auto", "automatic", "4,AUTO"):
        given = value if option == "--nodes" else f"head@{value}"
        result = run("bench", "--target", llama, "--head", head, option, given, "-o", "out")
        assert result.exit_code == 2
        assert f"`{value}`" in result.stderr
        assert "auto" in result.stderr


def test_batch_sizes_are_numbers(run, llama, head):
    result = run("bench", "--target", llama, "--head", head, "--batch-sizes", "auto", "-o", "out")
    assert result.exit_code == 2
    assert "or `auto`" not in result.stderr


def test_doctor_takes_a_number(run, llama):
    result = run("doctor", llama, "--nodes", "auto")
    assert result.exit_code == 2
    assert "--nodes" in result.stderr
