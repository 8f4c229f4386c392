import json
import warnings
from pathlib import Path

import pytest
import torch

from answering import lines_of, write_jsonl
from completions import Completions, served
from phrasedraft import load_target
from phrasedraft.cli.distilling import load_without_weights
from phrasedraft.corpus.answers import read_corpora
from phrasedraft.corpus.block_file import read_recipe
from phrasedraft.corpus.prompts import read_prompts

QUICK = ("--set", "max_new_tokens=6", "--set", "batch_size=3")


@pytest.fixture
def prompts(tmp_path):
    write_jsonl(tmp_path / "prompts" / "one.jsonl", [{"id": f"one-{n}", "prompt": f"question {n}"} for n in range(4)])
    write_jsonl(
        tmp_path / "prompts" / "two.jsonl", [{"id": "two-0", "turns": ["hello", "and?"]}, {"text": "once upon"}]
    )
    return ("--prompts", "prompts/one.jsonl", "--prompts", "prompts/two.jsonl")


def test_every_prompt_file_becomes_a_file_of_answers_that_fit_reads(answer_of, llama, prompts):
    summary = answer_of("distill", llama, *prompts, "-o", "out", *QUICK)
    one, two = read_corpora([Path("out/one.jsonl"), Path("out/two.jsonl")])
    assert [answer.id for answer in one.answers] == [f"one-{n}" for n in range(4)]
    assert [answer.id for answer in two.answers] == ["two-0", "two-0#2", "two:2"]
    tokens = one.num_response_tokens + two.num_response_tokens
    cut = sum(line["finish"] == "length" for name in ("one", "two") for line in lines_of(Path(f"out/{name}.jsonl")))
    assert (summary["answers"], summary["tokens"], summary["cut_at_limit"], summary["left_out"]) == (7, tokens, cut, 0)
    assert summary["seconds"] > 0
    assert [(file["path"], file["prompts"], file["answers"]) for file in summary["files"]] == [
        ("out/one.jsonl", 4, 4),
        ("out/two.jsonl", 2, 3),
    ]


def test_the_same_command_again_changes_nothing_and_another_one_is_refused(run, llama, prompts):
    first = run("distill", llama, *prompts, "-o", "out", *QUICK)
    assert first.exit_code == 0, first.output
    assert [line.split("\t")[0] for line in first.stdout.splitlines()] == ["out/one.jsonl", "out/two.jsonl"]
    before = {file: file.read_bytes() for file in Path("out").iterdir()}
    assert run("distill", llama, *prompts, "-o", "out", *QUICK).stdout == first.stdout
    other = run("distill", llama, *prompts, "-o", "out", *QUICK, "--system-prompt", "be brief")
    assert other.exit_code == 2
    assert "`settings.template.system_prompt` is `be brief`, was ``" in " ".join(other.stderr.split())
    assert {file: file.read_bytes() for file in Path("out").iterdir()} == before


def test_a_target_answers_prompts_it_made_itself(answer_of, llama):
    summary = answer_of("distill", llama, "--self-prompts", "5", "-o", "out", *QUICK)
    prompts = read_prompts(Path("out/self.prompts.jsonl"))
    assert len(prompts.prompts) == summary["answers"] == 5
    assert [line["id"] for line in lines_of(Path("out/self.jsonl"))] == [prompt.id for prompt in prompts.prompts]


def test_a_server_answers_for_a_target_that_is_loaded_without_weights(answer_of, run, llama, prompts):
    here = answer_of("distill", llama, *prompts, "--self-prompts", "3", "-o", "here", *QUICK)
    with served(Completions(load_target(llama))) as url:
        far = ("--endpoint", url, "--model", "tiny")
        there = answer_of("distill", llama, *prompts, "--self-prompts", "3", "-o", "there", *QUICK, *far)
    assert {name: there[name] for name in ("answers", "tokens")} == {name: here[name] for name in ("answers", "tokens")}
    for name in ("one", "two", "self"):
        pairs = zip(lines_of(Path(f"here/{name}.jsonl")), lines_of(Path(f"there/{name}.jsonl")), strict=True)
        assert all(mine == theirs for mine, theirs in pairs)
    assert read_recipe(Path("there/one.jsonl"))["made_by"] == {"model": "tiny"}
    gone = run("distill", llama, *prompts, "-o", "gone", *far)
    assert gone.exit_code == 2
    assert f"nothing answers at `{url}/completions`" in " ".join(gone.stderr.split())


def test_a_target_without_weights_renders_and_ends_like_the_real_one(llama):
    real, hollow = load_target(llama), load_without_weights(llama)
    messages = [{"role": "user", "content": "hello"}]
    assert hollow.encode_chat(messages) == real.encode_chat(messages)
    assert hollow.eos_token_ids == real.eos_token_ids
    assert hollow.context_limit == real.context_limit
    assert all(parameter.device == torch.device("meta") for parameter in hollow.model.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there are no prompts"),
        (("--prompts", "missing.jsonl"), "`missing.jsonl` cannot be read"),
        (("--prompts", "bad.jsonl"), "`bad.jsonl` line 2: has none of"),
        (
            ("--prompts", "one.jsonl", "--prompts", "again/one.jsonl"),
            "two files of answers would be called `one.jsonl`",
        ),
        (("--prompts", "out/one.jsonl"), "written over the prompts `out/one.jsonl`"),
        (("--prompts", "one.jsonl", "--model", "x"), "`--model x` is the name a server knows"),
        (("--prompts", "one.jsonl", "--endpoint", "http://localhost/v1"), "`--endpoint` needs `--model`"),
        (("--prompts", "one.jsonl", "--endpoint", "localhost", "--model", "x"), "`url` is `localhost`"),
        (("--prompts", "one.jsonl", "--thinking", "maybe"), "`thinking` is `maybe`"),
        (("--prompts", "one.jsonl", "--set", "max_tokens=3"), "there is no setting `max_tokens`"),
        (("--prompts", "one.jsonl", "--set", "top_p=3"), "`top_p` is `3.0`"),
    ],
)
def test_a_mistake_is_two_lines_and_exit_code_two_before_anything_is_loaded(run, tmp_path, arguments, message):
    for name in ("one.jsonl", "again/one.jsonl", "out/one.jsonl"):
        write_jsonl(tmp_path / name, [{"prompt": "hello"}])
    (tmp_path / "bad.jsonl").write_text('{"prompt": "x"}\n{}')
    result = run("distill", "no-such-target", *arguments, "-o", "out")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert len(result.stderr.splitlines()) <= 2
    assert json.loads((tmp_path / "out" / "one.jsonl").read_text()) == {"prompt": "hello"}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["one.jsonl"]


def test_a_target_without_a_template_is_told_to_take_text(run, bloom, prompts):
    result = run("distill", bloom, *prompts, "-o", "out")
    assert result.exit_code == 2
    assert "prompt `one-0` is a conversation" in " ".join(result.stderr.split())
    assert '{"text": "..."}' in result.stderr
    assert not Path("out").exists()


def test_a_switch_the_template_does_not_read_warns(run, llama, prompts):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = run("distill", llama, *prompts, "-o", "out", *QUICK, "--thinking", "off")
    assert result.exit_code == 0, result.output
    assert "reads no `enable_thinking`: `thinking` has no effect" in " ".join(result.stderr.split())


def test_help_shows_an_example(run):
    assert "phrasedraft distill smollm2-135m --prompts" in " ".join(run("distill", "--help").stdout.split())
