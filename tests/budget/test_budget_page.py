"""The worked example of docs/budget.md: its numbers are these."""

from pathlib import Path

import pytest

from phrasedraft.budget.curve import convex
from phrasedraft.budget.policy import AdaptiveBudget, PassOutcome
from phrasedraft.budget.switch import LARGEST_DEBT, LONGEST_PAUSE, PAID_SHARE, SHORTEST_PAUSE, Mode
from simulation import CURVE, MILLISECONDS, MadeUpDrafter, simulate

PAGE = (Path(__file__).parents[2] / "docs" / "budget.md").read_text()
VALUES = (1.0, 0.6, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02)
DRAFT_SECONDS = 0.002


def experienced(accepted_share: float = 1.0) -> AdaptiveBudget:
    """A policy that has seen three hundred drafts of 2 ms of which this share of what was predicted came true."""
    policy = AdaptiveBudget(CURVE)
    for _ in range(300):
        policy.observe(
            PassOutcome(
                num_asked=8,
                num_nodes=3,
                predicted=1.0 / accepted_share,
                num_accepted=1,
                context_tokens=64,
                draft_seconds=DRAFT_SECONDS,
                verify_seconds=CURVE.seconds(3, 64),
            )
        )
    return policy


def test_the_measured_passes_are_those_of_the_page():
    cells = [f"{value:.0f}" for value in MILLISECONDS.values()]
    assert f"| draft tokens | {' | '.join(map(str, MILLISECONDS))} |" in PAGE
    assert f"| ms | {' | '.join(cells)} |" in PAGE
    drafted = {count: value for count, value in MILLISECONDS.items() if count}
    assert convex(drafted) == pytest.approx(drafted)  # there is nothing to straighten in them


def test_the_table_of_the_page_is_what_the_budget_computes():
    policy, expected = experienced(), 1.0
    for count, value in enumerate(VALUES):
        expected += value if count else 0.0
        milliseconds = 1e3 * (DRAFT_SECONDS + policy.pass_seconds(count, 64))
        rate = 1e3 * expected / milliseconds
        node = f"{value:g}" if count else "-"
        bold = "**" if count == policy.choose(VALUES, 64) else ""
        assert f"| {count} | {node} | {expected:.2f} | {milliseconds:.2f} | {bold}{rate:.1f}{bold} |" in PAGE


def test_a_boaster_gets_as_many_as_the_page_says():
    policy = experienced(accepted_share=0.25)
    assert f"the scale is {policy.scale:.2f} and {policy.choose(VALUES, 64)} nodes are bought" in PAGE


def test_a_useless_drafter_costs_what_the_page_says():
    useless = MadeUpDrafter(chance=0.0, claimed=0.8, seconds=0.004)
    policy = AdaptiveBudget(CURVE)
    run = simulate(policy, lambda _: useless, 5000)
    first = next(
        number for number, asked in enumerate(run.asked) if not asked and not any(run.asked[number : number + 9])
    )
    pause = next(number for number, asked in enumerate(run.asked[first:]) if asked)
    assert f"stops after {first} drafts" in PAGE
    assert f"pauses for {pause} passes" in PAGE
    assert f"{(run.times_plain - 1) * 100:.1f} % slower than plain decoding" in PAGE
    assert policy.mode in (Mode.PAUSE, Mode.PROBE)


def test_the_settings_on_the_page_are_those_in_use():
    assert f"{LARGEST_DEBT:g} plain passes" in PAGE
    assert f"{PAID_SHARE:.0%}".replace("%", " %") in PAGE
    assert f"{SHORTEST_PAUSE} to {LONGEST_PAUSE}" in PAGE
