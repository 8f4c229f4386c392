"""Drafters that need no head, on the command line."""

import json

import pytest

from phrasedraft import Decoder, Stopping, load_target
from phrasedraft.drafters import load_drafter
from phrasedraft.drafters.loading import TRAINING_FREE


def test_a_benchmark_measures_drafters_without_a_head(answer_of, llama):
    names = [part for name in TRAINING_FREE for part in ("--drafter", name)]
    arguments = ("--head", "none", "--limit", "8", "--nodes", "4,8", "--max-new-tokens", "24", "-o", "out")
    found = answer_of("bench", "--target", llama, *names, *arguments)
    expected = [f"{name}, {nodes} nodes" for name in TRAINING_FREE for nodes in (4, 8)]
    baselines = ["generate()", "generate() with prompt lookup", "plain loop"]
    assert [each["method"] for each in found["summaries"]] == [*baselines, *expected]
    for each in found["summaries"]:
        assert each["num_identical"] == each["num_compared"] == 8
    assert all(each["stats"]["num_drafts"] > 0 for each in found["summaries"][3:])


def test_a_benchmark_refuses_a_drafter_it_does_not_know(run, llama):
    result = run("bench", "--target", llama, "--head", "none", "--drafter", "lookup", "-o", "out")
    assert result.exit_code == 2
    assert "the drafter is `lookup`, it may be `prompt-lookup`" in result.stderr


@pytest.mark.parametrize("name", ["prompt-lookup", "suffix-automaton"])
def test_a_replay_of_a_drafter_without_a_head_counts_what_live_decoding_counts(answer_of, llama, tmp_path, name):
    target = load_target(llama)
    prompt = target.encode_chat([{"role": "user", "content": "hello, hello, hello"}])
    decoder = Decoder(target, load_drafter(name), num_draft_tokens=6)
    live = decoder.generate(prompt, stopping=Stopping(max_new_tokens=40))
    corpus = tmp_path / "answers.jsonl"
    corpus.write_text(json.dumps({"id": "a", "prompt": list(prompt), "response": list(live.tokens)}) + "\n")
    found = answer_of("replay", name, "--target", llama, "--corpus", str(corpus), "--nodes", "6", "--work", "work")
    together = found["nodes"]["6"]["together"]
    assert together["num_passes"] == live.stats.num_passes
    assert together["num_draft_tokens"] == live.stats.num_draft_tokens > 0
    assert together["num_accepted_tokens"] == live.stats.num_accepted_tokens
    assert found["temperature"] is None


def test_a_replay_refuses_token_recycling_before_anything_is_loaded(run, tmp_path):
    result = run("replay", "token-recycling", "--target", "nowhere", "--corpus", str(tmp_path / "missing.jsonl"))
    assert result.exit_code == 2
    assert "`token-recycling` learns from the target's logits, which a replay does not have" in result.stderr
    assert "phrasedraft bench --drafter token-recycling" in result.stderr
