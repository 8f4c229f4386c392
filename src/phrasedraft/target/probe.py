"""Find out on the model itself what can be verified exactly, before the first token is drafted.

A tree pass is compared with one-token passes down each of its branches, then once more after `keep`; a chain pass
likewise. Wrong masks, positions or caches show as differences far above rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.errors import first_line
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import Support, TargetIdentity, TargetSequence
from phrasedraft.tree.draft_tree import DraftTree

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 6e-2}
"""The largest relative difference of logits that counts as rounding, by dtype."""

NUM_CONTEXT_TOKENS = 6

NUM_ATTEMPTS = 4
"""In low precision a model can round far off after some tokens; a wrong mask is wrong after all of them."""

CLEARLY_WRONG = 0.25
"""Differences above this are no rounding; a node that sees its sibling is 0.3 to 0.8 off in SmolLM2-135M."""


@runtime_checkable
class Probed(Protocol):
    """What the probe needs of a target."""

    @property
    def identity(self) -> TargetIdentity:
        """What drafters know it by."""
        ...

    def start(self, features: FeatureSpec) -> TargetSequence:
        """An empty sequence."""
        ...


@dataclass(frozen=True)
class ProbeReport:
    """What a target can verify, why not more, and the largest relative difference of logits seen in what it can."""

    support: Support
    reasons: tuple[str, ...]
    largest_difference: float


@torch.inference_mode()
def probe(target: Probed, *, is_quantized: bool = False) -> ProbeReport:
    """What one pass of the target can check exactly, tried out on random tokens.

    Quantised weights are multiplied by other kernels for one row than for several, so what counts as rounding there is
    what counts in bfloat16.
    """
    reasons: list[str] = []
    for support in (Support.TREE, Support.CHAIN):
        for attempt in range(NUM_ATTEMPTS):
            problem, difference = _attempt(target, support, seed=attempt, is_quantized=is_quantized)
            if not problem:
                return ProbeReport(support, tuple(reasons), difference)
            if difference == 0 or difference > CLEARLY_WRONG:
                break
        reasons.append(f"no {support.value} drafting: {problem}")
    return ProbeReport(Support.NOTHING, tuple(reasons), 0.0)


def _attempt(target: Probed, support: Support, *, seed: int, is_quantized: bool) -> tuple[str, float]:
    """What is wrong with drafting trees or chains after some random tokens, and how far the logits were off."""
    generator = torch.Generator().manual_seed(seed)
    vocab_size = target.identity.vocab_size
    tokens = torch.randint(0, vocab_size, (NUM_CONTEXT_TOKENS + 6,), generator=generator).tolist()
    context, (root, left, right, left_end, right_end, last) = tokens[:NUM_CONTEXT_TOKENS], tokens[NUM_CONTEXT_TOKENS:]
    draft, path = DraftTree.chain((root, right, right_end, left)), (0, 1, 2)
    if support is Support.TREE:
        draft, path = DraftTree((root, left, right, left_end, right_end), (-1, 0, 0, 1, 2), (1.0,) * 5), (0, 2, 4)
    problem, difference, dtype = _try(target, context, draft, path, last)
    tolerance = TOLERANCE[torch.bfloat16] if is_quantized else TOLERANCE.get(dtype, 1e-3)
    if not problem and difference > tolerance:
        problem = f"logits differ from one-token passes by {difference:.1e} of their spread"
    return problem, difference


def _try(
    target: Probed, context: Sequence[int], draft: DraftTree, path: Sequence[int], last: int
) -> tuple[str, float, torch.dtype]:
    """Why `draft` cannot be verified at all (empty if it can), the largest difference from plain passes, the dtype."""
    sequence = target.start(FeatureSpec(layers=()))
    try:
        sequence.prefill(context)
        if not draft.is_chain and sequence.support_for(len(draft.tokens)) is not Support.TREE:
            return (
                "a layer keeps a state or a window from which rejected branches cannot be removed",
                0.0,
                torch.float32,
            )
        rows = sequence.verify(draft).logits
        sequence.keep(path)
        after = sequence.verify(DraftTree.root_only(last)).logits[0]
    except (RuntimeError, ValueError, IndexError, TypeError, KeyError, AttributeError, NotImplementedError) as error:
        return (
            f"the model refuses the pass ({type(error).__name__}: {first_line(error)[:120]})",
            0.0,
            torch.float32,
        )
    difference = 0.0
    for leaf in (node for node in range(len(draft.tokens)) if not draft.children[node]):
        branch = _path_to(draft, leaf)
        expected = _one_by_one(target, context, [draft.tokens[node] for node in branch])
        difference = max(
            difference, *(_difference(rows[node], row) for node, row in zip(branch, expected, strict=True))
        )
    expected = _one_by_one(target, context, [*(draft.tokens[node] for node in path), last])
    difference = max(difference, _difference(after, expected[-1]))
    return "", difference, rows.dtype


def _one_by_one(target: Probed, context: Sequence[int], tokens: Sequence[int]) -> list[Float[Tensor, " vocab"]]:
    sequence = target.start(FeatureSpec(layers=()))
    sequence.prefill(context)
    rows = []
    for token in tokens:
        rows.append(sequence.verify(DraftTree.root_only(token)).logits[0])
        sequence.keep([0])
    return rows


def _path_to(tree: DraftTree, node: int) -> list[int]:
    path = [node]
    while path[-1]:
        path.append(tree.parents[path[-1]])
    return path[::-1]


def _difference(row: Float[Tensor, " vocab"], expected: Float[Tensor, " vocab"]) -> float:
    """The distance of two logit rows as a share of the expected row's spread."""
    row, expected = row.double(), expected.double()
    if not bool(torch.isfinite(expected).all()):
        return 0.0  # a broken model is reported when its logits are used
    spread = (expected - expected.mean()).norm()
    return float((row - expected).norm() / spread.clamp_min(1e-30))
