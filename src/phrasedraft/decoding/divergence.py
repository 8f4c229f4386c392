"""Where two texts of one target part, and how close the target's choice was there.

In float32 drafted and plain text are the same. In bfloat16 and float16, passes of different width round differently,
so a near-tie may fall either way: then the gap says that it was one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import Target


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """The first difference of two texts: `position` counts from the first token after the prompt.

    A token is None where that text had ended. `top_two_gap` is the difference of the target's two largest logits
    there, after the tokens both texts share, in the target's own dtype.
    """

    position: int
    token_a: int | None
    token_b: int | None
    top_two_gap: float


@torch.inference_mode()
def first_divergence(
    target: Target, prompt: Sequence[int], tokens_a: Sequence[int], tokens_b: Sequence[int]
) -> Divergence | None:
    """The first difference of two answers to `prompt`, None where they are the same."""
    shared = 0
    for token_a, token_b in zip(tokens_a, tokens_b, strict=False):
        if token_a != token_b:
            break
        shared += 1
    if shared == len(tokens_a) == len(tokens_b):
        return None
    logits = target.start(FeatureSpec(layers=())).prefill([*prompt, *tokens_a[:shared]]).logits[-1]
    best, second = torch.topk(logits, 2).values.tolist()
    return Divergence(
        position=shared,
        token_a=tokens_a[shared] if shared < len(tokens_a) else None,
        token_b=tokens_b[shared] if shared < len(tokens_b) else None,
        top_two_gap=best - second,
    )
