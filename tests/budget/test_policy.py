"""The budget on made-up drafters and passes: what it buys, when it stops, and what it costs at worst."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasedraft.budget.policy import FEWEST_ASKED, AdaptiveBudget, PassOutcome
from phrasedraft.budget.switch import LONGEST_PAUSE, SHORTEST_PAUSE, Mode
from simulation import CURVE, MadeUpDrafter, simulate

GOOD = MadeUpDrafter(chance=0.6, claimed=0.6)
USELESS = MadeUpDrafter(chance=0.0, claimed=0.8)
GIVES_UP = {
    "useless": USELESS,
    "useless and cheap": MadeUpDrafter(chance=0.0, claimed=0.8, seconds=0.0002),
    "useless and dear": MadeUpDrafter(chance=0.0, claimed=0.8, seconds=0.2),
    "one draft costs a hundred passes": MadeUpDrafter(chance=0.0, claimed=0.8, seconds=4.0),
    "never says anything": MadeUpDrafter(chance=0.0, claimed=0.8, silent=1.0),
    "does not quite pay": MadeUpDrafter(chance=0.2, claimed=0.2, seconds=0.010),
    "right but too slow": MadeUpDrafter(chance=0.6, claimed=0.6, seconds=0.1),
}


def outcome(num_nodes: int = 0, num_asked: int = 0, **changes) -> PassOutcome:
    seconds = CURVE.seconds(num_nodes, 64)
    plain = {"predicted": 0.0, "num_accepted": 0, "context_tokens": 64, "draft_seconds": 0.0, "verify_seconds": seconds}
    return PassOutcome(**{**plain, "num_nodes": num_nodes, "num_asked": num_asked, **changes})


@given(st.lists(st.floats(0.0, 1.0), max_size=46), st.integers(1, 4000), st.floats(0.0, 0.1))
def test_what_is_bought_is_what_trying_every_number_finds(values, context, draft_seconds):
    policy = AdaptiveBudget(CURVE)
    policy.observe(outcome(num_asked=8, draft_seconds=draft_seconds))
    values = [1.0, *sorted(values, reverse=True)]
    rates = [
        (1 + policy.scale * sum(values[1 : count + 1])) / (draft_seconds + CURVE.seconds(count, context))
        for count in range(len(values))
    ]
    chosen = policy.choose(values, context)
    assert rates[chosen] == pytest.approx(max(rates), rel=1e-12)
    assert all(rate < rates[chosen] * (1 + 1e-12) for rate in rates[:chosen])


def test_values_that_do_not_fall_are_bought_by_their_sum():
    assert AdaptiveBudget(CURVE).choose([1.0, 0.0, 0.0, 0.9, 0.9], 64) == 4


def test_no_more_nodes_are_bought_than_there_may_be():
    assert AdaptiveBudget(CURVE, most=3).choose([1.0] * 40, 64) == 3
    assert AdaptiveBudget(CURVE, most=3).ask() == 3


def test_more_is_asked_for_where_much_is_bought():
    eager, modest = AdaptiveBudget(CURVE), AdaptiveBudget(CURVE)
    assert eager.ask() == modest.ask() == FEWEST_ASKED
    simulate(eager, lambda _: MadeUpDrafter(chance=0.95, claimed=0.95), 200)
    simulate(modest, lambda _: MadeUpDrafter(chance=0.3, claimed=0.3), 200)
    assert FEWEST_ASKED < modest.ask() < eager.ask() <= 46


def test_a_drafter_that_pays_is_asked_in_nearly_every_pass():
    run = simulate(AdaptiveBudget(CURVE), lambda _: GOOD, 2000)
    assert run.times_plain < 0.55
    assert sum(asked > 0 for asked in run.asked) > 0.97 * 2000


def test_a_good_drafter_comes_as_near_as_can_be_to_its_best_fixed_number():
    run = simulate(AdaptiveBudget(CURVE), lambda _: GOOD, 4000)
    fixed = []
    for count in range(1, 16):
        tokens = sum(0.6**depth for depth in range(count + 1))
        fixed.append((GOOD.seconds + CURVE.seconds(count, 64)) / tokens)
    assert run.seconds / run.num_tokens < 1.03 * min(fixed)


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("name", GIVES_UP)
def test_a_drafter_that_does_not_pay_costs_less_than_three_percent(name, noise):
    run = simulate(AdaptiveBudget(CURVE), lambda _: GIVES_UP[name], 5000, noise=noise)
    assert run.times_plain < 1.03
    assert sum(asked > 0 for asked in run.asked) < 0.5 * 5000


@settings(max_examples=15, deadline=None)
@given(
    chance=st.floats(0.0, 0.7),
    claimed=st.floats(0.0, 1.0),
    seconds=st.floats(1e-5, 0.3),
    per_node=st.floats(0.0, 1e-3),
    silent=st.sampled_from([0.0, 0.5, 0.95]),
    drafted_slowness=st.floats(0.9, 1.4),
    seed=st.integers(0, 1000),
)
def test_no_drafter_makes_decoding_slower_than_three_percent(
    chance, claimed, seconds, per_node, silent, drafted_slowness, seed
):
    drafter = MadeUpDrafter(chance=chance, claimed=claimed, seconds=seconds, seconds_per_node=per_node, silent=silent)
    run = simulate(
        AdaptiveBudget(CURVE),
        lambda _: drafter,
        4000,
        slowness_at=lambda _, nodes: drafted_slowness if nodes else 1.0,  # the curve may be wrong about drafts
        noise=0.1,
        seed=seed,
    )
    assert run.times_plain < 1.03


@pytest.mark.parametrize("seconds", [0.0002, 0.002, 0.01])
def test_a_drafter_that_becomes_useful_is_used_again_within_a_few_hundred_passes(seconds):
    useless = MadeUpDrafter(chance=0.0, claimed=0.8, seconds=seconds)
    useful = MadeUpDrafter(chance=0.8, claimed=0.8, seconds=seconds)
    policy = AdaptiveBudget(CURVE)
    run = simulate(policy, lambda number: useless if number < 2000 else useful, 3000)
    assert sum(count > 0 for count in run.chosen[1000:2000]) < 200
    assert sum(count > 0 for count in run.chosen[2600:]) > 0.9 * 400


def test_a_drafter_that_becomes_useless_is_given_up():
    policy = AdaptiveBudget(CURVE)
    run = simulate(policy, lambda number: GOOD if number < 500 else USELESS, 3000)
    assert sum(asked > 0 for asked in run.asked[1000:]) < 0.1 * 2000


def test_overconfident_values_are_corrected():
    boaster = MadeUpDrafter(chance=0.3, claimed=0.9)
    believed, corrected = simulate(AdaptiveBudget(CURVE), lambda _: boaster, 3), AdaptiveBudget(CURVE)
    run = simulate(corrected, lambda _: boaster, 3000)
    assert max(run.chosen[:3]) == max(believed.chosen) >= 8
    assert corrected.scale < 0.3
    assert run.times_plain < 0.95


def test_modest_values_are_corrected_too():
    policy, modest = AdaptiveBudget(CURVE), MadeUpDrafter(chance=0.8, claimed=0.4)
    simulate(policy, lambda _: modest, 1000)
    assert policy.scale > 1.4
    assert policy.choose([1.0, 0.02], 64) == 1  # a node costs a fortieth of a pass
    assert AdaptiveBudget(CURVE).choose([1.0, 0.02], 64) == 0


def test_calibrated_values_are_left_as_they_are():
    run = simulate(AdaptiveBudget(CURVE), lambda _: GOOD, 4000)
    assert 0.9 < sum(run.scales) / len(run.scales) < 1.1


def test_a_machine_that_becomes_slow_does_not_stop_a_drafter_that_pays():
    policy = AdaptiveBudget(CURVE)
    run = simulate(policy, lambda _: GOOD, 3000, slowness_at=lambda number, _: 3.0 if number > 1000 else 1.0)
    assert sum(asked > 0 for asked in run.asked[1000:]) > 0.95 * 2000
    assert policy.pass_seconds(0, 64) == pytest.approx(3 * CURVE.seconds(0, 64))


def test_passes_that_cost_more_than_measured_are_noticed():
    policy = AdaptiveBudget(CURVE)
    weak = MadeUpDrafter(chance=0.3, claimed=0.3, seconds=0.002)
    run = simulate(policy, lambda _: weak, 5000, slowness_at=lambda _, nodes: 1.5 if nodes else 1.0)
    assert simulate(AdaptiveBudget(CURVE), lambda _: weak, 5000).times_plain < 0.9  # it pays where the curve is right
    assert run.times_plain < 1.03
    assert sum(count > 0 for count in run.chosen) < 0.25 * 5000


def test_passes_that_hung_neither_stop_drafting_nor_change_what_passes_cost():
    policy, chance = AdaptiveBudget(CURVE), random.Random(3)
    run = simulate(policy, lambda _: GOOD, 2000, slowness_at=lambda *_: 50.0 if chance.random() < 0.02 else 1.0)
    assert sum(asked > 0 for asked in run.asked) > 0.97 * 2000
    assert policy.pass_seconds(0, 64) == pytest.approx(CURVE.seconds(0, 64))


def test_pauses_grow_and_never_begin_within_a_short_text():
    policy = AdaptiveBudget(CURVE)
    run = simulate(policy, lambda _: USELESS, 6000)
    pauses, length = [], 0
    for asked in run.asked:
        if asked and length > 1:  # a single pass without a draft only looks at what plain decoding costs
            pauses.append(length)
        length = 0 if asked else length + 1
    assert pauses[0] >= SHORTEST_PAUSE
    assert max(pauses) == LONGEST_PAUSE
    assert all(asked > 0 for asked in run.asked[:12])


def test_what_is_observed_decides_and_nothing_else():
    first, second = (simulate(AdaptiveBudget(CURVE), lambda _: USELESS, 1000, noise=0.2, seed=5) for _ in range(2))
    assert first == second


def test_a_pass_without_a_draft_counts_towards_the_end_of_a_pause():
    policy = AdaptiveBudget(CURVE)
    while policy.mode is Mode.ON:
        policy.observe(outcome(num_nodes=8, num_asked=8, predicted=2.0, draft_seconds=0.04))
    assert policy.ask() == 0
    num_passes = 0
    while policy.mode is Mode.PAUSE:
        policy.observe(outcome())
        num_passes += 1
    assert SHORTEST_PAUSE <= num_passes <= 1000
    assert policy.ask() > 0
    assert policy.scale == 1.0  # a try begins without prejudice


def test_a_first_draft_that_loads_everything_and_one_that_hung_do_not_stop_drafting():
    policy = AdaptiveBudget(CURVE)
    for number in range(60):
        seconds = {0: 2.0, 40: 2.0}.get(number, 0.002)
        policy.observe(outcome(4, 8, predicted=2.0, num_accepted=2, draft_seconds=seconds))
        assert policy.mode is Mode.ON, number
    assert policy.ask() > 0


def test_what_comes_after_a_pass_with_drafts_is_paid_for_too():
    cheap, dear = AdaptiveBudget(CURVE), AdaptiveBudget(CURVE)
    for policy, after in ((cheap, 0.0), (dear, 0.5)):
        policy.observe(outcome(after_seconds=0.001))
        for _ in range(20):
            policy.observe(outcome(4, 8, predicted=1.0, num_accepted=1, after_seconds=0.001 + after))
    values = [1.0, 0.6, 0.3, 0.2]
    assert cheap.choose(values, 64) > dear.choose(values, 64) == 0
    assert cheap.mode is Mode.ON
    assert dear.mode is not Mode.ON
