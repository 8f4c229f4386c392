"""What a pass of the target costs by the number of draft tokens it checks, measured on the user's own machine."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from phrasedraft.errors import OptionError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import Support, Target, TargetSequence
from phrasedraft.tree.draft_tree import DraftTree

NUM_NODES = (0, 1, 3, 7, 8, 15, 16, 31, 46, 63)


@dataclass(frozen=True, kw_only=True)
class PassTime:
    """The time of a pass over a root and `num_draft_tokens` draft tokens; low and high are the quartiles."""

    num_draft_tokens: int
    context_tokens: int
    milliseconds: float
    low_milliseconds: float
    high_milliseconds: float


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """The times of passes of one target, by draft tokens and context."""

    target: str
    repeats: int
    times: tuple[PassTime, ...]

    def milliseconds(self, num_draft_tokens: int, context_tokens: int | None = None) -> float:
        """The time of a pass: linear between the measured numbers of draft tokens, at the nearest measured context."""
        contexts = {time.context_tokens for time in self.times}
        wanted = context_tokens if context_tokens is not None else min(contexts)
        nearest = min(contexts, key=lambda context: (abs(context - wanted), context))
        row = [time for time in self.times if time.context_tokens == nearest]
        below = max((t for t in row if t.num_draft_tokens <= num_draft_tokens), key=_nodes, default=row[0])
        above = min((t for t in row if t.num_draft_tokens >= num_draft_tokens), key=_nodes, default=row[-1])
        if above.num_draft_tokens == below.num_draft_tokens:
            return below.milliseconds
        share = (num_draft_tokens - below.num_draft_tokens) / (above.num_draft_tokens - below.num_draft_tokens)
        return below.milliseconds + share * (above.milliseconds - below.milliseconds)

    def ratio(self, num_draft_tokens: int, context_tokens: int | None = None) -> float:
        """The time of a pass over that of one token: drafts pay when they bring more tokens a pass than this."""
        return self.milliseconds(num_draft_tokens, context_tokens) / self.milliseconds(0, context_tokens)

    def speedup(self, num_draft_tokens: int, tokens_per_pass: Mapping[int, float]) -> float:
        """How many times as fast as plain decoding, if that many tokens a pass come out; drafting itself is free here.

        `tokens_per_pass` holds known points (draft tokens: tokens per pass), between which it grows with the logarithm.
        """
        return _interpolate({0: 1.0, **tokens_per_pass}, num_draft_tokens) / self.ratio(num_draft_tokens)

    def as_dict(self) -> dict[str, Any]:
        """Every time, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> "PassCost":
        """What `as_dict` gave; `ValueError`, `TypeError` or `KeyError` for anything else."""
        times = tuple(PassTime(**time) for time in line["times"])
        if not all(time.milliseconds > 0 and time.num_draft_tokens >= 0 and time.context_tokens > 0 for time in times):
            raise ValueError("a pass takes time, and its draft tokens and context are counted")
        plain = {time.context_tokens for time in times if not time.num_draft_tokens}
        if not plain or plain != {time.context_tokens for time in times}:
            raise ValueError("passes without draft tokens are missing")
        return cls(target=line["target"], repeats=line["repeats"], times=times)


@torch.inference_mode()
def measure_pass_cost(
    target: Target,
    num_nodes: Sequence[int] = NUM_NODES,
    context_tokens: Sequence[int] = (128,),
    repeats: int = 5,
) -> PassCost:
    """Time passes of the target with each number of draft tokens after each context, interleaved, the median of all.

    Trees where the target checks trees, chains where it checks those; what it cannot check is left out, and so is what
    does not fit into its context limit. A first round, in which caches warm up, does not count.
    """
    if repeats < 1 or not num_nodes or min(num_nodes) < 0 or not context_tokens or min(context_tokens) < 1:
        raise OptionError(
            f"cannot measure {repeats} passes of {list(num_nodes)} draft tokens after {list(context_tokens)} tokens",
            hint="give 1 or more repeats, draft tokens of 0 or more and contexts of 1 or more",
        )
    counts = sorted({0, *num_nodes})
    times = []
    for context in sorted({_fitting(target, context, counts[-1]) for context in context_tokens}):
        seconds = _measure(target, counts, context, repeats)
        times += [_pass_time(count, context, values) for count, values in seconds.items() if values]
    return PassCost(target=target.identity.name, repeats=repeats, times=tuple(times))


def _measure(target: Target, counts: Sequence[int], context: int, repeats: int) -> dict[int, list[float]]:
    prompt = [(position * 7919 + 11) % target.identity.vocab_size for position in range(context)]
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    sequence = _read(target, prompt)
    for repeat in range(repeats + 1):
        for count in counts:
            tree = _tree(sequence, count, target)
            if tree is None:
                continue
            started = time.perf_counter()
            sequence.verify(tree).logits[0, 0].item()  # an accelerator is done when something was read from it
            elapsed = time.perf_counter() - started
            sequence.keep([0])
            if repeat:
                seconds[count].append(elapsed)
            if not sequence.crop(context):
                sequence = _read(target, prompt)
    return seconds


def _read(target: Target, prompt: Sequence[int]) -> TargetSequence:
    sequence = target.start(FeatureSpec(layers=()))
    sequence.prefill(prompt)
    return sequence


def _tree(sequence: TargetSequence, count: int, target: Target) -> DraftTree | None:
    """A tree of `count` draft tokens that the target can check, each node with two children; None where it cannot."""
    limit = target.context_limit
    if limit is not None and sequence.num_cached_tokens + count + 1 > limit:
        return None
    support = sequence.support_for(1 + count) if count else Support.CHAIN
    tokens = tuple((node * 31 + 5) % target.identity.vocab_size for node in range(count + 1))
    if support is Support.NOTHING:
        return None
    if support is Support.CHAIN:
        return DraftTree.chain(tokens)
    return DraftTree(tokens, tuple((node - 1) // 2 if node else -1 for node in range(count + 1)), (1.0,) * (count + 1))


def _fitting(target: Target, context: int, most_nodes: int) -> int:
    limit = target.context_limit
    return context if limit is None else max(1, min(context, limit - 1 - most_nodes))


def _pass_time(count: int, context: int, seconds: Sequence[float]) -> PassTime:
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else [seconds[0]] * 3
    return PassTime(
        num_draft_tokens=count,
        context_tokens=context,
        milliseconds=middle * 1e3,
        low_milliseconds=low * 1e3,
        high_milliseconds=high * 1e3,
    )


def _interpolate(points: Mapping[int, float], count: int) -> float:
    """The value at `count`, linear in the logarithm of 1 + draft tokens between known points."""
    known = sorted(points)
    below = max((point for point in known if point <= count), default=known[0])
    above = min((point for point in known if point >= count), default=known[-1])
    if above == below:
        return points[below]
    share = math.log((1 + count) / (1 + below)) / math.log((1 + above) / (1 + below))
    return points[below] + share * (points[above] - points[below])


def _nodes(time: PassTime) -> int:
    return time.num_draft_tokens
