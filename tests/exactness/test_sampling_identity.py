"""Sampled text with drafts is the text that plain decoding with the same seed gives, token for token."""

import pytest

from kit import PROMPT, STUBS, assert_drafts_landed, plain, target_of
from phrasedraft import Choice, Decoder, Stopping

STOPPING = Stopping(max_new_tokens=28)
SETTINGS = {
    "cool": {"temperature": 0.7},
    "hot": {"temperature": 1.5},
    "neutral": {"temperature": 1.0},
    "top-k": {"temperature": 1.2, "top_k": 5},
    "top-p": {"temperature": 1.5, "top_p": 0.8},
    "min-p": {"temperature": 1.5, "min_p": 0.05},
    "all": {"temperature": 1.3, "top_k": 20, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.1},
}


def drafted(family, choice, stub_name, budget):
    answer = plain(target_of(family), choice, STOPPING)
    stub = STUBS[stub_name](answer.tokens)
    generation = Decoder(target_of(family), stub, num_draft_tokens=budget).generate(PROMPT, choice, STOPPING)
    assert_drafts_landed(stub, generation)
    return answer, generation


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_gives_the_same_seeds_text(setting, stub_name):
    answer, generation = drafted("llama", Choice(seed=11, **SETTINGS[setting]), stub_name, 6)
    assert generation.tokens == answer.tokens
    assert generation.seed == 11


@pytest.mark.parametrize("budget", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("stub_name", STUBS)
def test_sampled_text_does_not_depend_on_the_budget(stub_name, budget):
    answer, generation = drafted("llama", Choice(temperature=1.5, seed=5), stub_name, budget)
    assert generation.tokens == answer.tokens


@pytest.mark.parametrize("family", ["gpt2", "gemma3", "gemma3_wide_window", "gpt_oss", "mixtral", "qwen3_5"])
@pytest.mark.parametrize("stub_name", ["right-until", "random-tree"])
def test_windows_states_and_experts_sample_the_same_text(family, stub_name):
    answer, generation = drafted(family, Choice(temperature=1.2, seed=3), stub_name, 6)
    assert generation.tokens == answer.tokens


@pytest.mark.parametrize("seed", range(8))
def test_every_seed_draws_its_own_text_with_and_without_drafts(seed):
    choice = Choice(temperature=1.5, seed=seed)
    answer, generation = drafted("qwen3", choice, "random-tree", 8)
    assert generation.tokens == answer.tokens
    other = plain(target_of("qwen3"), Choice(temperature=1.5, seed=seed + 1), STOPPING)
    assert other.tokens != answer.tokens


def test_sampled_text_is_not_the_greedy_text():
    greedy = plain(target_of(), stopping=STOPPING)
    assert plain(target_of(), Choice(temperature=1.5, seed=1), STOPPING).tokens != greedy.tokens
