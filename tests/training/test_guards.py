"""Faults that make a head with a good loss serve nothing, each planted in the data of a real tiny target."""

import io
import warnings
from dataclasses import replace

import pytest
import torch
from rich.console import Console

import zoo
from kit import target_of
from phrasedraft import GREEDY, Choice, TransformersTarget
from phrasedraft.errors import DataError
from phrasedraft.target.batching import answer_batch
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.guards import check_served
from phrasedraft.training.rows import StoredRows
from phrasedraft.training.traces import collect_traces, read_traces
from synthetic import answer_of

PROMPTS = ((5, 17, 3), (44, 9, 12, 8, 71), (1, 2), (30, 31, 32, 33))
LAST = FeatureSpec()


def answers_of(target, choices=None):
    choices = choices or [GREEDY] * len(PROMPTS)
    texts = answer_batch(target, PROMPTS, max_new_tokens=30, choices=choices)
    return [answer_of(text, prompt=PROMPTS[row], name=f"a{row}") for row, text in enumerate(texts)]


def traced(target, answers, folder, features=LAST):
    collect_traces(target, answers, features, folder, console=Console(file=io.StringIO()))
    return read_traces(folder, answers, features.layers)


def states_of(target, answer, features):
    """What a wrong collection would have written for an answer."""
    text = torch.tensor([[*answer.prompt, *answer.response]])
    return target.hidden_rows(text, torch.ones_like(text), features)[0, len(answer.prompt) - 1 : -1]


def with_rows(traces, rows_of):
    """The traces with other rows in their place."""
    return [replace(trace, source=StoredRows((rows_of(trace.answer).half(),)), first=0) for trace in traces]


@pytest.mark.parametrize("layers", [(-1,), (1, -1)])
def test_sound_traces_of_the_targets_own_answers_pass_without_a_word(tmp_path, layers):
    target, features = target_of(), FeatureSpec(layers=layers)
    traces = traced(target, answers_of(target), tmp_path, features)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_served(target, traces, features) == 1.0


@pytest.mark.parametrize("way", ["lost", "doubled"])
@pytest.mark.filterwarnings("ignore:.* are the target's first choice")
def test_answers_that_are_shifted_by_one_against_their_prompts_warn(tmp_path, way):
    target = target_of()  # some of its answers begin with one token three times, so three are lost
    answers = [
        replace(answer, response=answer.response[3:] if way == "lost" else (answer.prompt[-1], *answer.response))
        for answer in answers_of(target)
    ]
    with pytest.warns(UserWarning, match="none of 3 answers begins with the target's first choice: a token may be"):
        assert check_served(target, traced(target, answers, tmp_path), LAST) < 1.0


def test_ids_that_are_one_too_high_are_caught(tmp_path):
    target = target_of()
    answers = [
        replace(answer, response=tuple((token + 1) % zoo.VOCAB_SIZE for token in answer.response))
        for answer in answers_of(target)
    ]
    with pytest.raises(DataError, match="% of the tokens are what the target itself would say") as caught:
        check_served(target, traced(target, answers, tmp_path), LAST)
    assert "shifted" in caught.value.hint


def test_answers_of_another_model_are_caught(tmp_path):
    target = target_of()
    with pytest.raises(DataError, match="the answers are not its own") as caught:
        check_served(target, traced(target, answers_of(target_of("qwen3")), tmp_path), LAST)
    assert "phrasedraft distill" in caught.value.hint


def test_rows_shifted_by_one_are_caught(tmp_path):
    target = target_of()
    traces = with_rows(
        traced(target, answers_of(target), tmp_path), lambda answer: states_of(target, answer, LAST).roll(1, dims=0)
    )
    with pytest.raises(DataError, match="the trace of `a0` is not what a served head reads: its rows differ by"):
        check_served(target, traces, LAST)


@pytest.mark.parametrize("layers", [(-2,), (0,)])
def test_rows_of_another_layer_are_caught(tmp_path, layers):
    target = target_of()
    traces = with_rows(
        traced(target, answers_of(target), tmp_path),
        lambda answer: states_of(target, answer, FeatureSpec(layers=layers)),
    )
    with pytest.raises(DataError, match="is not what a served head reads: its rows differ by") as caught:
        check_served(target, traces, LAST)
    assert "another layer" in caught.value.hint


def test_layers_in_another_order_are_caught(tmp_path):
    target, features = target_of(), FeatureSpec(layers=(1, -1))
    traces = with_rows(
        traced(target, answers_of(target), tmp_path, features),
        lambda answer: states_of(target, answer, FeatureSpec(layers=(-1, 1))),
    )
    with pytest.raises(DataError, match="is not what a served head reads"):
        check_served(target, traces, features)


def test_rows_without_the_final_norm_are_caught(tmp_path):
    target = target_of()
    inputs = []

    def without_norm(answer):
        states_of(target, answer, LAST)
        return inputs[-1][0, len(answer.prompt) - 1 : -1]

    traces = traced(target, answers_of(target), tmp_path)
    hook = target.model.model.norm.register_forward_pre_hook(lambda _, given: inputs.append(given[0].clone()))
    try:
        traces = with_rows(traces, without_norm)
    finally:
        hook.remove()
    with pytest.raises(DataError, match="is not what a served head reads") as caught:
        check_served(target, traces, LAST)
    assert "a missing final norm" in caught.value.hint


def test_rows_that_are_not_numbers_are_caught(tmp_path):
    target = target_of()
    traces = with_rows(
        traced(target, answers_of(target), tmp_path),
        lambda answer: torch.full_like(states_of(target, answer, LAST), float("nan")),
    )
    with pytest.raises(DataError, match="is not what a served head reads"):
        check_served(target, traces, LAST)


def test_rows_of_another_width_are_caught(tmp_path):
    target = target_of()
    traces = traced(target, answers_of(target), tmp_path, FeatureSpec(layers=(1, -1)))
    with pytest.raises(DataError, match="the trace of `a0` has rows of 64, a served head reads 32"):
        check_served(target, traces, LAST)


def test_traces_collected_in_another_precision_pass(tmp_path):
    target = target_of()
    half = TransformersTarget(zoo.build_model("llama").bfloat16(), packed=False, check=False)
    answers = answers_of(target)
    assert check_served(target, traced(half, answers, tmp_path), LAST) == 1.0


def test_sampled_answers_warn(tmp_path):
    target = target_of()
    choices = [Choice(temperature=0.9, seed=seed) for seed in range(len(PROMPTS))]
    traces = traced(target, answers_of(target, choices), tmp_path)
    with pytest.warns(UserWarning, match="% of the tokens are the target's first choice: sampled answers") as caught:
        share = check_served(target, traces, LAST)
    assert 0.25 < share < 0.9
    assert f"{share:.0%}" in str(caught[0].message)


def test_more_than_one_answer_is_looked_at(tmp_path):
    target = target_of()
    mixed = [answers_of(target)[0], *answers_of(target_of("qwen3"))[1:]]
    with pytest.warns(UserWarning, match=r"[34]\d% of the tokens are the target's first choice"):
        check_served(target, traced(target, mixed, tmp_path), LAST)
