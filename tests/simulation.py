"""Made-up drafters and passes: what a policy makes of them, in seconds that nobody had to wait for."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from phrasedraft import TransformersTarget
from phrasedraft.budget.cost import PassCost, PassTime
from phrasedraft.budget.cost_cache import pass_cost
from phrasedraft.budget.curve import CostCurve
from phrasedraft.budget.policy import AdaptiveBudget, PassOutcome
from phrasedraft.target import cache_folder

MILLISECONDS = {0: 40.0, 1: 41.0, 3: 43.0, 7: 48.0, 15: 62.0, 31: 95.0, 46: 128.0}
"""The worked example of docs/budget.md: a pass by its draft tokens."""


def cost_of(milliseconds: dict[int, float], context_tokens: int = 64) -> PassCost:
    """A measured cost."""
    times = tuple(
        PassTime(
            num_draft_tokens=count,
            context_tokens=context_tokens,
            milliseconds=value,
            low_milliseconds=value,
            high_milliseconds=value,
        )
        for count, value in milliseconds.items()
    )
    return PassCost(target="tiny", repeats=1, times=times)


CURVE = CostCurve(cost_of(MILLISECONDS))


def keep_flat_cost(target: TransformersTarget) -> None:
    """Make the cache say that nodes cost nothing, so that drafts are bought however busy the machine is."""
    pass_cost(target)
    for file in (cache_folder() / "costs").iterdir():
        kept = json.loads(file.read_text())
        kept["cost"]["times"] = [{**time, "milliseconds": 5.0} for time in kept["cost"]["times"]]
        file.write_text(json.dumps(kept))


@dataclass(frozen=True, kw_only=True)
class MadeUpDrafter:
    """Proposes one path whose tokens are right with `chance` each and said to be so with `claimed` each.

    A draft takes `seconds` and `seconds_per_node` for each node that is asked for. It proposes nothing in `silent`
    of its drafts.
    """

    chance: float
    claimed: float
    seconds: float = 0.002
    seconds_per_node: float = 0.0
    silent: float = 0.0


@dataclass
class Simulated:
    """What a run came to, pass by pass."""

    seconds: float = 0.0
    num_tokens: int = 0
    plain_seconds_per_token: float = 0.0
    chosen: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)

    @property
    def times_plain(self) -> float:
        """Seconds a token over those of plain decoding."""
        return self.seconds / self.num_tokens / self.plain_seconds_per_token


def simulate(
    policy: AdaptiveBudget,
    drafter_at: Callable[[int], MadeUpDrafter],
    num_passes: int,
    *,
    slowness_at: Callable[[int, int], float] = lambda *_: 1.0,
    noise: float = 0.0,
    curve: CostCurve = CURVE,
    seed: int = 0,
) -> Simulated:
    """Decode; `slowness_at(pass, nodes)` is how many times longer passes take than the curve says."""
    chance = random.Random(seed)
    run = Simulated()
    plain_seconds = 0.0
    for number in range(num_passes):
        drafter, context = drafter_at(number), 64 + number % 400
        asked = policy.ask()
        is_silent = chance.random() < drafter.silent
        values = [1.0, *(drafter.claimed**depth for depth in range(1, 1 + (0 if is_silent else asked)))]
        chosen = policy.choose(values, context) if asked else 0
        accepted = 0
        while accepted < chosen and chance.random() < drafter.chance:
            accepted += 1
        draft_seconds = (drafter.seconds + drafter.seconds_per_node * asked) if asked else 0.0
        verify_seconds = (
            curve.seconds(chosen, context) * slowness_at(number, chosen) * (1 + noise * chance.uniform(-1, 1))
        )
        policy.observe(
            PassOutcome(
                num_asked=asked,
                num_nodes=chosen,
                predicted=sum(values[1 : chosen + 1], 0.0),
                num_accepted=accepted,
                context_tokens=context,
                draft_seconds=draft_seconds,
                verify_seconds=verify_seconds,
            )
        )
        run.seconds += draft_seconds + verify_seconds
        run.num_tokens += 1 + accepted
        plain_seconds += curve.seconds(0, context) * slowness_at(number, 0) * (1 + accepted)
        run.chosen.append(chosen)
        run.asked.append(asked)
        run.scales.append(policy.scale)
    run.plain_seconds_per_token = plain_seconds / run.num_tokens
    return run
