import json

import pytest

SHORT = ("--max-new-tokens", "24")


def test_the_answer_goes_to_stdout_and_nothing_else_does(run, llama, head):
    result = run("generate", "hello", "--target", llama, "--head", head, *SHORT, "--stats", "--verify")
    assert result.exit_code == 0
    assert "tokens a pass" in result.stderr
    assert "identical to plain decoding (24 tokens)" in result.stderr
    assert "tokens a pass" not in result.stdout


def test_json_holds_the_tokens_the_text_and_what_they_were_made_with(answer_of, llama, head):
    found = answer_of("generate", "hello", "--target", llama, "--head", head, *SHORT, "--verify", "--logprobs")
    assert len(found["tokens"]) == len(found["logprobs"]) == 24
    assert found["finish_reason"] == "length"
    assert found["identical"] is True
    assert found["first_divergence"] is None
    assert found["stats"]["num_accepted_tokens"] > 0
    assert (found["target"], found["head"], found["seed"]) == (llama, head, None)


def test_a_head_changes_the_speed_and_not_the_text(answer_of, llama, head):
    plain = answer_of("generate", "hello", "--target", llama, "--head", "none", *SHORT)
    drafted = answer_of("generate", "hello", "--target", llama, "--head", head, *SHORT, "--nodes", "46")
    assert plain["tokens"] == drafted["tokens"]
    assert plain["stats"]["num_draft_tokens"] == 0
    assert drafted["stats"]["num_passes"] < plain["stats"]["num_passes"]


def test_a_seed_repeats_a_drawn_text_with_and_without_drafts(answer_of, llama, head):
    drawn = ("--target", llama, *SHORT, "--temperature", "0.8", "--top-k", "40", "--top-p", "0.9", "--seed", "7")
    plain = answer_of("generate", "hello", "--head", "none", *drawn)
    drafted = answer_of("generate", "hello", "--head", head, *drawn)
    assert plain["tokens"] == drafted["tokens"]
    assert drafted["seed"] == 7


def test_show_drafts_brackets_what_was_drafted(run, llama, head):
    plain = run("generate", "hello", "--target", llama, "--head", head, *SHORT)
    marked = run("generate", "hello", "--target", llama, "--head", head, *SHORT, "--show-drafts")
    assert marked.stdout.count("[") > plain.stdout.count("[")
    assert marked.stdout.replace("[", "").replace("]", "") == plain.stdout.replace("[", "").replace("]", "")


def test_logprobs_are_one_line_a_token(run, llama, head):
    result = run("generate", "hello", "--target", llama, "--head", head, "--max-new-tokens", "5", "--logprobs")
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert len(lines) == 5
    assert all(int(token) >= 0 and float(logprob) <= 0 and text for token, logprob, text in lines)


def test_a_dash_reads_the_prompt_from_stdin(run, answer_of, llama):
    arguments = ("--target", llama, "--head", "none", *SHORT, "--json")
    piped = run("generate", "-", *arguments, stdin="hello\n")
    assert json.loads(piped.stdout)["tokens"] == answer_of("generate", "hello", *arguments[:-1])["tokens"]


def test_raw_and_chat_and_system_are_different_prompts(answer_of, llama):
    arguments = ("--target", llama, "--head", "none", "--max-new-tokens", "1")
    sizes = [
        answer_of("generate", "hello", *arguments, *more)["num_prompt_tokens"]
        for more in ((), ("--chat",), ("--raw",), ("--system", "be brief"))
    ]
    assert sizes[0] == sizes[1] > sizes[2] == len("hello")
    assert sizes[3] == sizes[0] + len("<system>be brief\n")


def test_a_target_without_a_chat_template_takes_plain_text(run, answer_of, bloom):
    assert answer_of("generate", "hello", "--target", bloom, "--head", "none", *SHORT)["num_prompt_tokens"] == 5
    result = run("generate", "hello", "--target", bloom, "--head", "none", "--chat")
    assert result.exit_code == 2
    assert "has no chat template" in result.stderr
    assert "hint:" in result.stderr


def test_stop_strings_and_the_minimum_length_reach_the_loop(answer_of, llama):
    arguments = ("generate", "hello", "--target", llama, "--head", "none", *SHORT)
    whole = answer_of(*arguments)["text"]
    stop = next(character for character in whole[3:] if character.isprintable())
    found = answer_of(*arguments, "--stop", stop, "--ignore-eos")
    assert found["finish_reason"] == "stop_string"
    assert stop not in found["text"]
    longer = answer_of(*arguments, "--stop", stop, "--min-new-tokens", "10")
    assert len(longer["tokens"]) >= 10


@pytest.mark.filterwarnings("default")
def test_a_setting_without_effect_warns_on_stderr(run, llama):
    result = run("generate", "hello", "--target", llama, "--head", "none", *SHORT, "--top-k", "5", "--seed", "1")
    assert "warning: without `--temperature` above 0, --top-k, --seed has no effect" in result.stderr


def test_sources_draft_beside_the_head_unless_they_are_switched_off(answer_of, llama, head):
    arguments = ("generate", "hello", "--target", llama, "--head", head, *SHORT, "--nodes", "8")
    usual = answer_of(*arguments)
    alone = answer_of(*arguments, "--sources", "none")
    chosen = answer_of(*arguments, "--sources", "prompt-lookup")
    assert usual["sources"] == ["suffix-automaton", "token-recycling"]
    assert (alone["sources"], chosen["sources"]) == ([], ["prompt-lookup"])
    assert usual["tokens"] == alone["tokens"] == chosen["tokens"]


def test_sources_draft_without_a_head_where_they_are_named(answer_of, llama):
    arguments = ("generate", "hello", "--target", llama, "--head", "none", "--max-new-tokens", "60", "--nodes", "8")
    plain, drafted = answer_of(*arguments), answer_of(*arguments, "--sources", "suffix-automaton,token-recycling")
    assert plain["tokens"] == drafted["tokens"]
    assert plain["stats"]["num_draft_tokens"] == 0
    assert drafted["stats"]["num_accepted_tokens"] > 0


@pytest.mark.parametrize("sources", ["nonsense", "suffix-automaton,suffix-automaton", "suffix-automaton,none", ""])
def test_sources_that_there_are_not_are_refused(run, llama, head, sources):
    result = run("generate", "hello", "--target", llama, "--head", head, "--sources", sources)
    assert result.exit_code == 2
    assert f"`--sources` is `{sources}`" in " ".join(result.stderr.split())
