"""Every kind of bad input: one error with the value and a hint, exit code 2, nothing left half-written."""

import json
import shutil
from pathlib import Path

import pytest


def refused(result, *parts: str) -> None:
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert result.stdout == ""
    for part in ("error: ", *parts):
        assert part in result.stderr


@pytest.fixture
def copied_head(head, tmp_path) -> Path:
    return Path(shutil.copytree(head, tmp_path / "head"))


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_an_empty_prompt(run, llama, prompt):
    refused(run("generate", prompt, "--target", llama, "--head", "none"), f"the prompt is `{prompt}`")
    refused(run("generate", "-", "--target", llama, "--head", "none", stdin=prompt), "the prompt is `")


def test_a_prompt_over_the_context_limit(run, llama):
    refused(run("generate", "x" * 3000, "--target", llama, "--head", "none"), "context limit of 1024", "hint: ")


def test_a_head_for_another_target(run, wider, head):
    refused(run("generate", "hello", "--target", wider, "--head", head), "hidden size 32", "has 64", "hint: ")


def test_a_truncated_head(run, llama, copied_head):
    weights = copied_head / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused(run("generate", "hello", "--target", llama, "--head", str(copied_head)), "truncated", "hint: ")


def test_a_tampered_head(run, llama, copied_head):
    weights = copied_head / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    refused(run("inspect", str(copied_head)), "was altered", "hint: ")


def test_a_pickle_is_never_opened(run, llama, copied_head):
    (copied_head / "model.safetensors").rename(copied_head / "pytorch_model.bin")
    result = run("demo", "--target", llama, "--head", str(copied_head))
    refused(result, "`pytorch_model.bin`, a pickle", "hint: ")


def test_no_head_for_a_target_that_comes_without_one(run, llama):
    refused(run("generate", "hello", "--target", llama), "no head is known for target", "--head none", "hint: ")


def test_nan_logits(run, broken):
    refused(run("generate", "hello", "--target", broken, "--head", "none"), "NaN", "hint: ")


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--temperature", "-1", ">= 0"),
        ("--top-k", "0", ">= 1"),
        ("--top-p", "1.5", "at most 1"),
        ("--repetition-penalty", "0", "> 0"),
        ("--seed", "-4", "0 to 2**64 - 1"),
        ("--min-new-tokens", "9999", "0 to `max_new_tokens`"),
        ("--dtype", "int3", "`bfloat16`"),
        ("--device", "toaster", "toaster"),
        ("--attn-implementation", "psychic", "psychic"),
        ("--stop", "", "one character or more"),
    ],
)
def test_an_option_value_that_cannot_be(run, llama, option, value, allowed):
    result = run("generate", "hello", "--target", llama, "--head", "none", option, value)
    refused(result, value, allowed)


@pytest.mark.parametrize(("option", "value"), [("--nodes", "many"), ("--nodes", "-1"), ("--max-new-tokens", "0")])
def test_an_option_value_the_parser_refuses_is_named(run, llama, option, value):
    result = run("generate", "hello", "--target", llama, option, value)
    assert result.exit_code == 2
    assert option in result.stderr
    assert f"`{value}`" in result.stderr
    assert "phrasedraft generate --help" in result.stderr.replace("root", "phrasedraft")


def test_an_unknown_option_or_verb_leaves_with_2(run):
    assert run("generate", "hello", "--no-such-option").exit_code == 2
    result = run("gnerate")
    assert result.exit_code == 2
    assert "Did you mean 'generate'?" in result.stderr


def test_a_system_message_without_a_template(run, bloom):
    result = run("generate", "hello", "--target", bloom, "--head", "none", "--system", "be brief")
    refused(result, "`--system` is `be brief`", "hint: ")


def test_a_benchmark_of_a_broken_target_leaves_no_results(run, broken):
    refused(run("bench", "--target", broken, "--head", "none", "--limit", "1", "-o", "out"), "NaN")
    assert not Path("out").exists()


def test_an_unexpected_error_keeps_its_traceback(run, llama, monkeypatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("phrasedraft.cli.answering.load", fail)
    with pytest.raises(ZeroDivisionError, match="surprise"):
        run("generate", "hello", "--target", llama)


def test_ctrl_c_leaves_with_130_and_without_a_traceback(run, llama, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("phrasedraft.cli.answering.load", interrupt)
    result = run("generate", "hello", "--target", llama)
    assert result.exit_code == 130
    assert result.stderr.strip() == "interrupted"


def test_an_interrupted_benchmark_goes_on_where_it_was(run, llama, head, monkeypatch):
    from phrasedraft.evaluation.methods import Drafting

    arguments = ("bench", "--target", llama, "--head", head, "--limit", "2", "--nodes", "4", "--max-new-tokens", "8")
    answer, calls = Drafting.answer, []

    def interrupted(self, *rest):
        calls.append(self.name)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return answer(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Drafting, "answer", interrupted)
        assert run(*arguments, "-o", "out").exit_code == 130
    kept = [json.loads(line) for line in Path("out/results.jsonl").read_text().splitlines()]
    assert 0 < len(kept) < 8
    again = run(*arguments, "-o", "out")
    assert again.exit_code == 0
    assert f"{8 - len(kept)} answers to measure" in again.stderr


def test_a_device_that_is_not_there(run, llama):
    for device in ("cuda:9", "banana"):
        result = run("generate", "hello", "--target", llama, "--head", "none", "--device", device)
        refused(result, f"`device` is `{device}`", "hint: ")


@pytest.mark.parametrize("verb", ["generate", "distill", "mine", "trace", "train", "replay"])
def test_a_verb_without_its_argument(run, verb):
    result = run(verb)
    assert result.exit_code == 2
    assert "Missing argument" in result.stderr
    assert "Traceback" not in result.output


def test_fit_without_a_target_or_anything_to_learn_from(run, llama):
    refused(run("fit"), "the recipe names no target", "hint: ")
    refused(run("fit", llama, "-o", "head"), "the recipe names no prompts and no answers", "hint: ")


def test_fit_into_a_file_is_refused_before_the_target_answers(run, llama, tmp_path):
    (tmp_path / "questions.jsonl").write_text('{"prompt": "hello"}')
    (tmp_path / "head").write_text("mine")
    refused(run("fit", llama, "--prompts", "questions.jsonl", "-o", "head"), "`head` is a file", "hint: ")
    assert (tmp_path / "head").read_text() == "mine"
    assert not (tmp_path / "head.work").exists()
