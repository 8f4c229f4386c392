"""Cases where nobody could say what a figure counts."""

import re
from pathlib import Path

import pytest

from kit import PROMPT, STUBS, generated, greedy_answer, target_of
from phrasedraft import Decoder, Stopping
from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.integrations.transformers import phrase_generate

GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()
VLLM_NAMES = ("num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos")


def assert_sums(stats):
    """The first token comes with the prompt; every pass gives what it accepted and one more."""
    assert stats.num_generated_tokens == 1 + stats.num_accepted_tokens + stats.num_passes
    assert stats.num_drafts <= stats.num_passes
    assert sum(stats.num_accepted_tokens_per_pos) == stats.num_accepted_tokens <= stats.num_draft_tokens
    assert stats.num_accepted_tokens_per_pos == sorted(stats.num_accepted_tokens_per_pos, reverse=True)
    assert stats.num_landings == (stats.num_accepted_tokens_per_pos or [0])[0]
    tokens_per_pass = (stats.num_generated_tokens - 1) / stats.num_passes
    assert stats.mean_acceptance_length == pytest.approx(tokens_per_pass)
    assert stats.landing * stats.banked == pytest.approx(tokens_per_pass - 1)
    assert stats.acceptance_rate * stats.num_draft_tokens == pytest.approx(stats.num_accepted_tokens)


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_conv_accept_def_tokens_are_one_and_accepted_and_passes(family, stub_name):
    """`conv-accept-def`: real decodes up to a limit, and up to an end-of-text token in the middle of a draft."""
    answer = greedy_answer(family, 24)
    together = DecodingStats()
    for nodes in (1, 8):
        stub = STUBS[stub_name](answer)
        generation = Decoder(target_of(family), stub, num_draft_tokens=nodes).generate(
            PROMPT, stopping=Stopping(max_new_tokens=24)
        )
        assert generation.stats.num_generated_tokens == len(generation.tokens) == 24
        assert_sums(generation.stats)
        together.add(generation.stats)
    assert together.num_generated_tokens == 2 + together.num_accepted_tokens + together.num_passes
    for place in (6, 7):
        generate = phrase_generate(STUBS[stub_name](answer), num_draft_tokens=4)
        tokens = generated(target_of(family).model, PROMPT, 24, custom_generate=generate, eos_token_id=answer[place])
        assert len(tokens) == generate.stats.num_generated_tokens == answer.index(answer[place]) + 1
        assert_sums(generate.stats)


def test_conv_accept_def_a_text_counted_by_hand():
    """`conv-accept-def`: ten tokens, drafts of four that are right for two: three passes, six accepted."""
    answer = greedy_answer("llama", 10)
    decoder = Decoder(target_of(), STUBS["right-until"](answer, depth=2), num_draft_tokens=4)
    stats = decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=10)).stats
    assert (stats.num_passes, stats.num_drafts, stats.num_accepted_tokens) == (3, 3, 6)
    assert stats.num_accepted_tokens_per_pos == [3, 3]
    assert (stats.mean_acceptance_length, stats.landing, stats.banked) == (3.0, 1.0, 2.0)
    alone = Decoder(target_of(), STUBS["wrong"](answer), num_draft_tokens=0)
    stats = alone.generate(PROMPT, stopping=Stopping(max_new_tokens=10)).stats
    assert (stats.num_passes, stats.num_drafts, stats.mean_acceptance_length) == (9, 0, 1.0)


def test_conv_accept_def_the_glossary_has_the_words_and_the_counters_have_vllms_names():
    """`conv-accept-def`: every figure is defined where a reader looks it up."""
    defined = dict(re.findall(r"^\| ([^|]+?) \| (.+) \|$", GLOSSARY, flags=re.MULTILINE))
    figures = ("mean acceptance length", "acceptance rate", "landing", "banked")
    assert {"pass", "draft", "draft tokens", "accepted", "bonus token", "committed", *figures} <= set(defined)
    assert all(f"`{name}`" in GLOSSARY for name in VLLM_NAMES)
    assert "1 + accepted + passes" in defined["committed"]
    assert "the bonus token included" in defined["mean acceptance length"]
    assert defined["acceptance rate"] == "accepted / drafted"
    known = DecodingStats().as_dict()
    assert {*VLLM_NAMES, *(figure.replace(" ", "_") for figure in figures)} <= set(known)
