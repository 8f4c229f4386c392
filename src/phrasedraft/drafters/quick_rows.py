"""Scores of thousands of entries for a few states: in bfloat16 where the processor multiplies that faster.

A draft needs no more digits than tell its likely tokens apart, and whatever it proposes the target checks.
"""

from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.composed_output import ComposedOutput, version_of

LEAST_WEIGHTS = 1 << 20
"""Fewer weights than these are read in no time."""


class QuickRows:
    """Keeps an output layer's rows in bfloat16 beside it, and rounds them anew when the layer has changed."""

    def __init__(self) -> None:
        self._rows: tuple[Tensor, Tensor] | None = None
        self._made_of: tuple[Tensor, Tensor] | None = None
        self._versions: tuple[object, object] = (None, None)

    def scores(
        self, output: torch.nn.Linear | ComposedOutput, states: Float[Tensor, "batch trunk"]
    ) -> Float[Tensor, "batch phrase"]:
        """One float32 score an entry."""
        weight, bias = output.weight, output.bias
        is_large = weight.numel() >= LEAST_WEIGHTS and weight.device.type == "cpu" and weight.dtype == torch.float32
        if not (is_large and multiplies_bfloat16()):
            return output(states).float()  # type: ignore[no-any-return]
        versions = version_of(weight), version_of(bias)
        known = self._made_of is not None and self._made_of[0] is weight and self._made_of[1] is bias
        if self._rows is None or not known or versions != self._versions:
            self._rows = weight.detach().bfloat16(), bias.detach().bfloat16()
            self._made_of, self._versions = (weight, bias), versions
        return F.linear(states.bfloat16(), *self._rows).float()


@cache
def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for products in bfloat16, as far as torch can tell."""
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
