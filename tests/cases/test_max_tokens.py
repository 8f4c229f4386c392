"""Cases where a text got more or fewer tokens than were asked for."""

import pytest
import torch
from transformers import StaticCache

import zoo
from kit import PROMPT, RandomTreeDrafter, RightDrafter, generated, greedy_answer, target_of
from phrasedraft import Decoder, Stopping
from phrasedraft.integrations.transformers import phrase_generate
from phrasedraft.target.cache import cache_keyword

ANSWER = greedy_answer("llama", 40)


@pytest.mark.parametrize("max_new_tokens", range(1, 11))
def test_undershoot_ik_as_many_tokens_are_given_and_counted_as_were_asked_for(max_new_tokens):
    """`undershoot-ik`: emitted, streamed and counted tokens all equal `max_new_tokens` where nothing else ends it."""
    decoder = Decoder(target_of(), RightDrafter(ANSWER), num_draft_tokens=5)
    stream = decoder.stream(PROMPT, stopping=Stopping(max_new_tokens=max_new_tokens))
    pieces, result = list(stream), stream.result
    assert len(pieces) == len(result.tokens) == result.stats.num_generated_tokens == max_new_tokens


def test_static_cache_budget_drafts_never_reach_past_the_room_that_is_left():
    """`static-cache-budget`: drafts are capped by the length, and a static cache is never written to by us."""
    stub = RightDrafter(ANSWER)
    generation = Decoder(target_of(), stub, num_draft_tokens=5).generate(PROMPT, stopping=Stopping(max_new_tokens=30))
    assert generation.tokens == ANSWER[:30]
    model = zoo.tiny_model("llama")
    cache = StaticCache(config=model.config, max_cache_len=len(PROMPT) + 30 - 1)
    with pytest.warns(UserWarning, match="`StaticCache` has no effect"):
        tokens = generated(
            model,
            PROMPT,
            30,
            custom_generate=phrase_generate(RightDrafter(ANSWER), num_draft_tokens=5),
            **{cache_keyword(model): cache},
        )
    assert tuple(tokens) == ANSWER[:30]
    assert int(torch.as_tensor(cache.get_seq_length())) == 0


@pytest.mark.parametrize("num_draft_tokens", range(1, 9))
def test_overshoot_pld_no_length_is_ever_exceeded(num_draft_tokens):
    """`overshoot-pld`: lengths 1 to 8 with 1 to 8 drafts a pass, all of them right."""
    for drafter_type in (RightDrafter, RandomTreeDrafter):
        decoder = Decoder(target_of(), drafter_type(ANSWER), num_draft_tokens=num_draft_tokens)
        for max_new_tokens in range(1, 9):
            generation = decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=max_new_tokens))
            assert generation.tokens == ANSWER[:max_new_tokens]


@pytest.mark.parametrize("index", [2, 4, 7])
def test_reasoning_count_every_counter_is_of_emitted_tokens(index):
    """`reasoning-count`: where a text ends inside a block, no counter holds what was accepted behind the end."""
    target = target_of("llama", eos_token_id=ANSWER[index])
    result = Decoder(target, RightDrafter(ANSWER), num_draft_tokens=16).generate(
        PROMPT, stopping=Stopping(max_new_tokens=40), logprobs=True
    )
    emitted = len(result.tokens)
    assert emitted < 12
    assert result.stats.num_generated_tokens == len(result.logprobs) == emitted
    assert result.stats.num_accepted_tokens + result.stats.num_passes + 1 == emitted
    assert sum(result.stats.num_accepted_tokens_per_pos) == result.stats.num_accepted_tokens
