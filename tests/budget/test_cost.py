import json

import pytest

import kit
import zoo
from phrasedraft import Support, TransformersTarget
from phrasedraft.budget.cost import PassCost, PassTime, measure_pass_cost
from phrasedraft.errors import OptionError


def cost_of(**milliseconds: float) -> PassCost:
    times = tuple(
        PassTime(
            num_draft_tokens=int(name[1:]),
            context_tokens=128,
            milliseconds=value,
            low_milliseconds=0.0,
            high_milliseconds=0.0,
        )
        for name, value in milliseconds.items()
    )
    return PassCost(target="tiny", repeats=1, times=times)


def test_times_between_measured_ones_are_linear_and_beyond_them_constant():
    cost = cost_of(n0=100.0, n4=120.0, n8=160.0)
    assert [cost.milliseconds(count) for count in (0, 2, 4, 6, 8, 20)] == [100, 110, 120, 140, 160, 160]
    assert cost.ratio(8) == 1.6


def test_the_speedup_is_tokens_over_cost():
    cost = cost_of(n0=100.0, n8=160.0)
    assert cost.speedup(0, {8: 2.0}) == 1
    assert cost.speedup(8, {8: 2.0}) == pytest.approx(2 / 1.6)
    assert 1 < cost.speedup(2, {8: 2.0}) * cost.ratio(2) < 2
    assert cost.speedup(64, {8: 2.0}) == pytest.approx(2 / 1.6)


def test_the_nearest_context_answers():
    short, long = cost_of(n0=100.0), cost_of(n0=300.0)
    both = PassCost(
        target="tiny",
        repeats=1,
        times=(*short.times, *(PassTime(**{**vars(time), "context_tokens": 2048}) for time in long.times)),
    )
    assert [both.milliseconds(0, context) for context in (None, 1, 500, 1500, 9000)] == [100, 100, 100, 300, 300]


@pytest.mark.parametrize("family", ["llama", "bloom", "mistral_window", "qwen3_5", "mamba"])
def test_every_kind_of_target_is_measured_and_left_as_it_was(family):
    target = kit.target_of(family)
    cost = measure_pass_cost(target, (0, 1, 7), (24, 48), repeats=2)
    contexts = {time.context_tokens for time in cost.times}
    assert contexts == {24, 48}
    measured = {time.num_draft_tokens for time in cost.times}
    assert measured >= ({0} if target.support is Support.NOTHING else {0, 1})
    assert all(0 < time.low_milliseconds <= time.milliseconds <= time.high_milliseconds for time in cost.times)
    assert json.loads(json.dumps(cost.as_dict()))["repeats"] == 2


def test_nothing_is_measured_beyond_the_context_limit():
    target = TransformersTarget(zoo.build_model("llama", max_position_embeddings=40))
    cost = measure_pass_cost(target, (0, 3, 15, 63), (128,), repeats=1)
    assert {time.num_draft_tokens for time in cost.times} == {0, 3, 15}
    assert all(time.context_tokens + time.num_draft_tokens < 40 for time in cost.times)


@pytest.mark.parametrize(
    "arguments", [{"repeats": 0}, {"num_nodes": ()}, {"num_nodes": (-1,)}, {"context_tokens": (0,)}]
)
def test_what_cannot_be_measured_is_refused(arguments):
    with pytest.raises(OptionError, match="cannot measure"):
        measure_pass_cost(kit.target_of(), **{"num_nodes": (0,), **arguments})
