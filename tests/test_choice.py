"""`Choice`: which token the target takes, and which settings it may have."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft import Choice
from phrasedraft.choice import greedy_tokens
from phrasedraft.errors import NonFiniteLogitsError, OptionError, PhraseDraftError

PREFIX = torch.tensor([[1, 2, 3]])
LOGITS = torch.tensor([0.0, 2.0, 1.0, -1.0, 2.0])


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"min_p": 1.5}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
    ],
)
def test_a_setting_that_may_not_be_is_refused_by_name_value_and_range(settings, name):
    with pytest.raises(OptionError, match=f"`{name}` is `.*`, it may be"):
        Choice(**settings)


def test_an_option_error_is_a_value_error_of_our_tree():
    assert issubclass(OptionError, ValueError)
    assert issubclass(OptionError, PhraseDraftError)


def test_greedy_takes_the_first_of_equals():
    assert Choice().token(PREFIX, LOGITS) == 1
    assert greedy_tokens(LOGITS[None]) == [1]


@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=12))
def test_greedy_tokens_of_rows_are_those_of_each_row(logits):
    row = torch.tensor(logits)
    assert greedy_tokens(row[None]) == [Choice().token(PREFIX, row)]


def test_greedy_ignores_what_only_shapes_a_draw():
    choice = Choice(top_k=1, top_p=0.1, min_p=0.9)
    assert not choice.processor_list
    assert choice.token(PREFIX, LOGITS) == 1


def test_repetition_penalty_changes_the_greedy_choice():
    logits = torch.tensor([1.9, 2.0, 0.0, 0.0])
    assert Choice().token(PREFIX, logits) == 1
    assert Choice(repetition_penalty=1.5).token(PREFIX, logits) == 0


def test_processors_come_first_and_in_order():
    calls = []

    def first(input_ids, scores):
        calls.append("first")
        return scores + 1

    def second(input_ids, scores):
        calls.append("second")
        assert float(scores.max()) == 3.0  # before the temperature
        return scores

    Choice(temperature=2.0, seed=0, processors=(first, second)).token(PREFIX, LOGITS)
    assert calls == ["first", "second"]
    assert [type(p).__name__ for p in Choice(temperature=2.0, top_k=3, top_p=0.9, min_p=0.1).processor_list] == [
        "TemperatureLogitsWarper",
        "TopKLogitsWarper",
        "TopPLogitsWarper",
        "MinPLogitsWarper",
    ]


def test_further_processors_come_before_its_own():
    def own(input_ids, scores):
        return scores

    def further(input_ids, scores):
        return scores

    assert Choice(processors=(own,)).with_processors([further]).processors == (further, own)


def test_the_logits_given_are_not_written_to():
    def zero(input_ids, scores):
        scores.zero_()
        return scores

    logits = LOGITS.clone()
    Choice(processors=(zero,)).token(PREFIX, logits)
    assert torch.equal(logits, LOGITS)


@given(st.integers(0, 2**64 - 1), st.integers(1, 40))
def test_a_draw_depends_on_seed_position_and_logits_alone(seed, length):
    prefix = torch.zeros((1, length), dtype=torch.long)
    tokens = {Choice(temperature=1.0, seed=seed).token(prefix + start, LOGITS) for start in range(4)}
    assert len(tokens) == 1


def test_positions_and_seeds_have_noise_of_their_own():
    flat = torch.zeros(1000)
    by_position = [
        Choice(temperature=1.0, seed=3).token(torch.zeros((1, n), dtype=torch.long), flat) for n in range(1, 60)
    ]
    by_seed = [Choice(temperature=1.0, seed=seed).token(PREFIX, flat) for seed in range(60)]
    assert len(set(by_position)) > 50
    assert len(set(by_seed)) > 50


@given(st.integers(0, 10_000), st.lists(st.booleans(), min_size=2, max_size=30).filter(any))
def test_a_token_of_probability_zero_is_never_drawn(seed, allowed):
    logits = torch.where(torch.tensor(allowed), 0.0, -torch.inf)
    assert allowed[Choice(temperature=1.0, seed=seed).token(PREFIX, logits)]


@given(st.integers(0, 10_000))
def test_top_k_and_top_p_keep_the_draw_among_the_best(seed):
    logits = torch.tensor([3.0, 0.0, 2.0, -1.0])
    assert Choice(temperature=1.0, top_k=2, seed=seed).token(PREFIX, logits) in {0, 2}
    assert Choice(temperature=1.0, top_p=0.5, seed=seed).token(PREFIX, logits) == 0
    assert Choice(temperature=1.0, min_p=0.3, seed=seed).token(PREFIX, logits) in {0, 2}


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "seed": 0}], ids=["greedy", "sampled"])
@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_logits_without_a_choice_are_an_error_with_a_hint(value, settings):
    with pytest.raises(NonFiniteLogitsError, match="there is no token to choose") as error:
        Choice(**settings).token(PREFIX, torch.full((5,), value))
    assert "float16" in error.value.hint
    assert greedy_tokens(torch.full((1, 5), value)) == [-1]


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "seed": 0}], ids=["greedy", "sampled"])
def test_one_nan_among_good_logits_is_an_error_too(settings):
    logits = LOGITS.clone()
    logits[3] = math.nan
    with pytest.raises(NonFiniteLogitsError, match="NaN"):
        Choice(**settings).token(PREFIX, logits)


def test_seeding_keeps_a_seed_and_makes_one_where_there_is_none():
    assert Choice(seed=5).seeded().seed == 5
    seeds = {Choice().seeded().seed for _ in range(4)}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_half_precision_logits_are_chosen_from_in_float32():
    logits = torch.tensor([1.0, 3.0, 2.0], dtype=torch.bfloat16)
    seen = []
    choice = Choice(processors=(lambda input_ids, scores: seen.append(scores.dtype) or scores,))
    assert choice.token(PREFIX, logits) == 1
    assert seen == [torch.float32]
