"""Answering many prompts at once gives what answering each alone gives."""

import random
from functools import cache

import pytest
import torch
from transformers.cache_utils import DynamicLayer

import zoo
from kit import plain, target_of
from phrasedraft import GREEDY, Choice, Stopping, TransformersTarget
from phrasedraft.errors import NonFiniteLogitsError
from phrasedraft.target import batching
from phrasedraft.target.batching import answer_batch
from phrasedraft.target.cache import RoomyLayer, batch_cache

LENGTHS = (1, 3, 17, 2, 40, 9, 5, 26)


def prompts_of(lengths=LENGTHS, seed=0):
    draw = random.Random(seed)
    return [[draw.randrange(zoo.VOCAB_SIZE) for _ in range(length)] for length in lengths]


def alone(target, prompt, max_new_tokens, choice=GREEDY):
    return list(plain(target, choice, Stopping(max_new_tokens=max_new_tokens), prompt=prompt).tokens)


def in_one_batch(target, prompts, max_new_tokens, choices=None, **arguments):
    choices = choices or [GREEDY] * len(prompts)
    return answer_batch(target, prompts, max_new_tokens=max_new_tokens, choices=choices, **arguments)


@cache
def ending(family):
    """A target some of whose answers end by themselves: its end of text is a token that a few of them hold."""
    target = target_of(family)
    answers = [alone(target, prompt, 40) for prompt in prompts_of()]
    holders = {token: sum(token in answer for answer in answers) for token in range(zoo.VOCAB_SIZE)}
    end = next(token for token, count in holders.items() if 2 <= count <= len(answers) - 2)
    return TransformersTarget(zoo.tiny_model(family, eos_token_id=end), packed=False)


@pytest.mark.parametrize("family", ["llama", "mistral_window", "gemma3", "qwen3"])
def test_a_batch_of_mixed_lengths_gives_each_prompts_own_answer(family):
    target, prompts = ending(family), prompts_of()
    expected = [alone(target, prompt, 40) for prompt in prompts]
    assert in_one_batch(target, prompts, 40) == expected
    (end,) = target.eos_token_ids
    ended = [answer[-1] == end for answer in expected]
    assert 2 <= sum(ended) <= len(prompts) - 2  # some leave the batch early, some are cut at the limit
    assert len({len(answer) for answer in expected}) > 2


def test_a_prompt_read_in_several_pieces_gives_the_same_answer(monkeypatch):
    target, prompts = target_of(), prompts_of()
    expected = in_one_batch(target, prompts, 12)
    monkeypatch.setattr(batching, "PREFILL_TOKENS", 24)  # three columns at a time
    assert in_one_batch(target, prompts, 12) == expected


def test_sampled_answers_depend_on_their_seed_and_not_on_the_batch():
    target, prompts = target_of(), prompts_of()
    choices = [Choice(temperature=1.2, top_p=0.9, seed=seed) for seed in range(len(prompts))]
    together = in_one_batch(target, prompts, 20, choices)
    assert together == [alone(target, *pair) for pair in zip(prompts, [20] * 8, choices, strict=True)]
    order = [5, 0, 7, 2]
    assert in_one_batch(target, [prompts[row] for row in order], 20, [choices[row] for row in order]) == [
        together[row] for row in order
    ]
    assert in_one_batch(target, prompts, 20, [Choice(temperature=1.2, top_p=0.9, seed=99)] * 8) != together


def test_greedy_and_sampled_rows_may_share_a_batch():
    target, prompts = target_of(), prompts_of((4, 7, 2))
    choices = [GREEDY, Choice(temperature=1.0, seed=3), GREEDY]
    expected = [alone(target, prompt, 15, choice) for prompt, choice in zip(prompts, choices, strict=True)]
    assert in_one_batch(target, prompts, 15, choices) == expected


@pytest.mark.parametrize("family", ["qwen3_5", "mamba"])
def test_recurrent_targets_are_answered_one_after_another(family):
    target, prompts = target_of(family), prompts_of((3, 11, 6))
    assert batch_cache(target.network) is None
    assert in_one_batch(target, prompts, 10) == [alone(target, prompt, 10) for prompt in prompts]


@pytest.mark.parametrize("family", ["llama", "mistral_window"])
def test_rows_that_are_done_leave_the_batch_and_its_cache(family, monkeypatch):
    target, prompts = ending(family), prompts_of()
    caches, sizes = [], []

    def watched(model):
        caches.append(batch_cache(model))
        return caches[-1]

    monkeypatch.setattr(batching, "batch_cache", watched)
    in_one_batch(target, prompts, 40, on_tokens=lambda _: sizes.append(len(caches[0].layers[0].keys)))
    assert sizes[0] == len(prompts)
    assert sizes == sorted(sizes, reverse=True)
    num_cut = sum(answer[-1] not in target.eos_token_ids for answer in in_one_batch(target, prompts, 40))
    assert sizes[-1] < len(prompts)
    assert sizes[-1] >= num_cut


@pytest.mark.parametrize("limit", [1, 2, 13])
def test_an_answer_has_the_tokens_asked_for_unless_it_ends_and_its_end_is_its_last(limit):
    target, prompts = ending("llama"), prompts_of()
    whole = in_one_batch(target, prompts, 40)
    (end,) = target.eos_token_ids
    cut = in_one_batch(target, prompts, limit)
    assert cut == [answer[:limit] for answer in whole]
    for answer in whole:
        assert end not in answer[:-1]
        assert answer[-1] == end or len(answer) == 40


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_the_tokens_told_as_they_come_are_those_of_the_answers(family):
    target, told = target_of(family), []
    answers = in_one_batch(target, prompts_of((3, 8, 5)), 12, on_tokens=told.append)
    assert sum(told) == sum(map(len, answers)) == 36
    assert len(told) > 3


def test_ends_are_told_once():
    target, prompts, told = ending("llama"), prompts_of(), []
    answers = in_one_batch(target, prompts, 40, on_tokens=told.append)
    assert sum(told) == sum(map(len, answers)) < 40 * len(prompts)
    assert told[0] == len(prompts)


def test_one_prompt_alone_is_a_batch_too():
    target, prompt = target_of(), prompts_of()[4]
    assert in_one_batch(target, [prompt], 20) == [alone(target, prompt, 20)]


def test_logits_that_are_not_finite_are_an_error_and_no_text():
    model = zoo.build_model("llama")
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(NonFiniteLogitsError):
        in_one_batch(TransformersTarget(model, packed=False), prompts_of((2, 3)), 4)


def test_a_layer_with_room_holds_what_a_plain_layer_holds():
    generator = torch.Generator().manual_seed(0)
    plain_layer, roomy = DynamicLayer(), RoomyLayer()
    rows = 4
    for step in range(300):  # beyond the room of 128 rows, twice
        count = 7 if step == 0 else 1
        states = [torch.randn((rows, 2, count, 8), generator=generator) for _ in range(2)]
        for found, wanted in zip(roomy.update(*states), plain_layer.update(*states), strict=True):
            assert torch.equal(found, wanted)
        if step in {100, 200}:
            kept = torch.tensor([0, 2] if step == 100 else [1])
            roomy.batch_select_indices(kept)
            plain_layer.batch_select_indices(kept)
            rows = len(kept)
    assert roomy.get_seq_length() == plain_layer.get_seq_length() == 306
    assert torch.equal(roomy.keys, plain_layer.keys)
    assert torch.equal(roomy.values, plain_layer.values)


def test_a_step_writes_its_row_where_there_is_room_and_copies_nothing():
    layer = RoomyLayer()
    states = torch.ones((2, 2, 5, 8))
    first, _ = layer.update(states, states)
    place = first.data_ptr()
    moved = [
        layer.update(states[:, :, :1], states[:, :, :1])[0].data_ptr() != place for _ in range(RoomyLayer.ROOM + 1)
    ]
    assert moved == [False] * RoomyLayer.ROOM + [True]
