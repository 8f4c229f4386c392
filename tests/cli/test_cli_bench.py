import json
from pathlib import Path

from phrasedraft.evaluation.report import DRAFT_HEADER, TIME_HEADER

SHORT = ("--limit", "2", "--nodes", "4,8", "--max-new-tokens", "12")


def test_every_method_answers_every_prompt_and_the_report_is_written(run, llama, head):
    result = run("bench", "--target", llama, "--head", head, *SHORT, "-o", "out")
    assert result.exit_code == 0
    lines = [json.loads(line) for line in Path("out/results.jsonl").read_text().splitlines()]
    assert len(lines) == 2 * 4
    assert len({line["sha256"] for line in lines if line["prompt_id"] == "gsm8k-test-0"}) == 1
    report = Path("out/report.md").read_text()
    for name in (
        *DRAFT_HEADER,
        *TIME_HEADER,
        "generate()",
        "plain loop",
        "phrase, 8 nodes",
        "warm-up",
        "load average",
        "versions",
    ):
        assert name in report
    assert "phrase, 4 nodes" in result.stdout
    assert "warm-up took" in result.stderr


def test_finished_answers_are_not_measured_again(run, answer_of, llama, head):
    arguments = ("bench", "--target", llama, "--head", head, *SHORT, "-o", "out")
    first = answer_of(*arguments)
    results = Path("out/results.jsonl")
    whole = results.read_text()
    results.write_text(whole[:-40])  # killed while the last line was being written
    again = run(*arguments)
    assert "1 answers to measure" in again.stderr
    lines = results.read_text().splitlines()
    assert lines[:-1] == whole.splitlines()[:-1]
    assert json.loads(lines[-1])["tokens"] == json.loads(whole.splitlines()[-1])["tokens"]
    assert [method["method"] for method in first["methods"]][:2] == ["generate()", "plain loop"]


def test_json_holds_every_figure(answer_of, llama, head):
    found = answer_of("bench", "--target", llama, "--head", head, *SHORT, "-o", "out")
    drafted = found["methods"][-1]
    assert drafted["exact_token_parity"] == drafted["same_finish_reason"] == drafted["num_prompts"] == 2
    assert drafted["stats"]["num_drafts"] > 0
    assert set(drafted["over_generate"]) == {"ratio", "low", "high", "num_prompts"}
    assert drafted["over_plain"]["ratio"] > 0
    assert found["facts"]["peak resident MB"] > 0
    assert found["facts"]["versions"]["torch"]


def test_a_folder_of_another_run_is_refused_and_left_alone(run, llama, head):
    arguments = ("bench", "--target", llama, "--head", head, "--limit", "1", "--nodes", "4", "-o", "out")
    assert run(*arguments, "--max-new-tokens", "8").exit_code == 0
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    result = run(*arguments, "--max-new-tokens", "9")
    assert result.exit_code == 2
    assert "`max_new_tokens` = `8`, this run has `9`" in result.stderr
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before


def test_own_prompts_are_read_from_a_file(answer_of, llama):
    Path("mine.jsonl").write_text('{"id": "a", "turns": ["hello"]}\n{"id": "b", "turns": ["you"]}\n')
    found = answer_of("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl", *SHORT, "-o", "out")
    assert [method["method"] for method in found["methods"]] == ["generate()", "plain loop"]
    assert found["methods"][0]["num_prompts"] == 2


def test_a_wrong_line_of_a_prompt_file_is_named(run, llama):
    Path("mine.jsonl").write_text('{"id": "a", "turns": ["hello"]}\n{"id": "b"}\n')
    result = run("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl", "-o", "out")
    assert result.exit_code == 2
    assert "`mine.jsonl` line 2: has none of `turns`" in result.stderr
    assert not Path("out").exists()


def test_node_counts_that_cannot_be_are_refused(run, llama, head):
    for nodes in ("0", "4,x", "4,4", ""):
        result = run("bench", "--target", llama, "--head", head, "--nodes", nodes, "-o", "out")
        assert result.exit_code == 2
        assert f"`--nodes` is `{nodes}`" in result.stderr
    assert not Path("out").exists()


def test_every_turn_of_a_conversation_is_answered_and_told_apart(answer_of, run, llama, head, bloom):
    Path("mine.jsonl").write_text('{"id": "a", "turns": ["hello", "and you?"]}\n{"id": "b", "turns": ["you"]}\n')
    found = answer_of("bench", "--target", llama, "--head", head, "--prompts", "mine.jsonl", *SHORT, "-o", "out")
    lines = [json.loads(line) for line in Path("out/results.jsonl").read_text().splitlines()]
    assert {(line["prompt_id"], line["turn"]) for line in lines} == {("a", 1), ("a#2", 2), ("b", 1)}
    assert len(lines) == 3 * 4
    for name in ("a", "a#2", "b"):
        assert len({line["sha256"] for line in lines if line["prompt_id"] == name}) == 1
    for method in found["methods"]:
        assert method["exact_token_parity"] == method["num_prompts"] == 3
    assert found["methods"][-1]["over_generate"]["num_prompts"] == 2
    refused = run("bench", "--target", bloom, "--head", "none", "--prompts", "mine.jsonl", *SHORT, "-o", "other")
    assert refused.exit_code == 2
    assert "prompt `a` is a conversation" in refused.stderr
    assert not Path("other").exists()


def test_turns_beyond_the_context_are_left_out_and_the_report_says_so(run, llama):
    Path("mine.jsonl").write_text(json.dumps({"id": "a", "turns": ["hello", "x" * 1100]}) + "\n")
    result = run("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl", *SHORT, "-o", "out")
    assert result.exit_code == 0
    assert "a#2: left out for plain loop, the conversation fills the target's context of 1024 tokens" in result.stderr
    assert "a#2: left out for generate()" in Path("out/report.md").read_text()
