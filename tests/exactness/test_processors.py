"""Logits processors see the true prefix of each chosen token and nothing else, as in plain decoding."""

import pytest
import torch
from transformers import (
    ExponentialDecayLengthPenalty,
    ForcedEOSTokenLogitsProcessor,
    LogitsProcessor,
    MinLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    SequenceBiasLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

import zoo
from kit import PROMPT, STUBS, RightDrafter, assert_drafts_landed, generated, greedy_answer, plain, target_of
from phrasedraft import Choice, Decoder, FinishReason, Stopping

LENGTH = 28
COMMON = greedy_answer("llama", LENGTH)
EOS = next(token for token in range(1, zoo.VOCAB_SIZE) if token not in COMMON + PROMPT)
"""A token the greedy text does not hold, for the processors that speak of an end."""

PROCESSORS = {
    "repetition_penalty": ({"repetition_penalty": 1.3}, lambda: {"repetition_penalty": 1.3}),
    "no_repeat_ngram": (
        {"no_repeat_ngram_size": 2},
        lambda: {"processors": (NoRepeatNGramLogitsProcessor(2),)},
    ),
    "bad_words": (
        {"bad_words_ids": [[COMMON[1]], [COMMON[2], COMMON[3]]]},
        lambda: {"processors": (NoBadWordsLogitsProcessor([[COMMON[1]], [COMMON[2], COMMON[3]]], eos_token_id=EOS),)},
    ),
    "sequence_bias": (
        {"sequence_bias": [[[COMMON[1]], -5.0], [[COMMON[0], 7], 9.0]]},
        lambda: {"processors": (SequenceBiasLogitsProcessor([[[COMMON[1]], -5.0], [[COMMON[0], 7], 9.0]]),)},
    ),
    "suppress": (
        {"suppress_tokens": list(COMMON[:3])},
        lambda: {"processors": (SuppressTokensLogitsProcessor(list(COMMON[:3])),)},
    ),
    "forced_eos": (
        {"forced_eos_token_id": EOS},
        lambda: {"processors": (ForcedEOSTokenLogitsProcessor(len(PROMPT) + LENGTH, EOS),)},
    ),
    "exponential_decay": (
        {"exponential_decay_length_penalty": (4, 1.6)},
        lambda: {"processors": (ExponentialDecayLengthPenalty((4, 1.6), EOS, len(PROMPT)),)},
    ),
    "min_length": (
        {"min_length": 20, "sequence_bias": [[[EOS], 100.0]]},
        lambda: {"processors": (SequenceBiasLogitsProcessor([[[EOS], 100.0]]), MinLengthLogitsProcessor(20, EOS))},
    ),
}


class Counting(LogitsProcessor):
    """A processor with a state of its own: it forbids the token it favoured least lately, and remembers its calls."""

    def __init__(self):
        self.seen = []
        self.turn = 0

    def __call__(self, input_ids, scores):
        assert input_ids.shape[0] == 1
        self.seen.append(tuple(input_ids[0].tolist()))
        self.turn = (self.turn * 31 + int(input_ids[0, -1]) + 1) % scores.shape[-1]
        scores = scores.clone()
        scores[:, self.turn] = -torch.inf
        scores[:, (self.turn * 7) % scores.shape[-1]] += 3.0
        return scores


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("name", PROCESSORS)
def test_greedy_text_under_a_processor_is_that_of_transformers(name, stub_name):
    arguments, settings = PROCESSORS[name]
    answer = generated(zoo.tiny_model("llama", eos_token_id=EOS), PROMPT, LENGTH, eos_token_id=EOS, **arguments)
    assert tuple(answer) != COMMON
    stub = STUBS[stub_name](answer)
    generation = Decoder(target_of("llama", eos_token_id=EOS), stub, num_draft_tokens=5).generate(
        PROMPT, Choice(**settings()), Stopping(max_new_tokens=LENGTH)
    )
    assert list(generation.tokens) == answer
    assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("name", PROCESSORS)
def test_sampled_text_under_a_processor_is_that_of_plain_decoding(name, stub_name):
    _, settings = PROCESSORS[name]
    target, stopping = target_of("llama", eos_token_id=EOS), Stopping(max_new_tokens=LENGTH)
    answer = plain(target, Choice(temperature=1.3, seed=2, **settings()), stopping)
    stub = STUBS[stub_name](answer.tokens)
    generation = Decoder(target, stub, num_draft_tokens=5).generate(
        PROMPT, Choice(temperature=1.3, seed=2, **settings()), stopping
    )
    assert generation.tokens == answer.tokens
    assert generation.finish_reason is answer.finish_reason
    assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("temperature", [0.0, 1.2])
@pytest.mark.parametrize("stub_name", STUBS)
def test_a_processor_with_a_state_is_called_once_a_token_with_that_tokens_prefix(stub_name, temperature):
    target, stopping = target_of(), Stopping(max_new_tokens=LENGTH)
    alone, beside = Counting(), Counting()
    answer = plain(target, Choice(temperature=temperature, seed=4, processors=(alone,)), stopping)
    stub = STUBS[stub_name](answer.tokens)
    generation = Decoder(target, stub, num_draft_tokens=5).generate(
        PROMPT, Choice(temperature=temperature, seed=4, processors=(beside,)), stopping
    )
    assert generation.tokens == answer.tokens
    assert beside.seen == alone.seen
    assert beside.seen == [(*PROMPT, *answer.tokens[:end]) for end in range(LENGTH)]
    assert beside.turn == alone.turn
    assert_drafts_landed(stub, generation)


def test_a_processor_may_write_into_the_scores_it_is_given():
    class Writing(LogitsProcessor):
        def __call__(self, input_ids, scores):
            scores[:, int(input_ids[0, -1])] = -torch.inf
            return scores

    target = target_of()
    answer = plain(target, Choice(processors=(Writing(),)), logprobs=True)
    generation = Decoder(target, RightDrafter(answer.tokens), num_draft_tokens=5).generate(
        PROMPT, Choice(processors=(Writing(),)), Stopping(max_new_tokens=40), logprobs=True
    )
    assert generation.tokens == answer.tokens
    assert generation.logprobs == pytest.approx(answer.logprobs, abs=1e-4)


def test_a_processor_that_masks_everything_is_an_error_that_names_the_cause():
    from phrasedraft.errors import NonFiniteLogitsError

    def nothing(input_ids, scores):
        return torch.full_like(scores, -torch.inf)

    for temperature in (0.0, 1.0):
        with pytest.raises(NonFiniteLogitsError, match="position 5 are"):
            plain(target_of(), Choice(temperature=temperature, seed=0, processors=(nothing,)))


def test_forced_end_comes_where_it_was_forced():
    _, settings = PROCESSORS["forced_eos"]
    generation = plain(target_of("llama", eos_token_id=EOS), Choice(**settings()), Stopping(max_new_tokens=LENGTH))
    assert generation.tokens[-1] == EOS
    assert generation.finish_reason is FinishReason.EOS
    assert len(generation.tokens) == LENGTH
