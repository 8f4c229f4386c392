"""Root-mean-square norms in one call in place of the six small operations a model writes them in.

A module is replaced in our own set of modules only, where it looks like such a norm and gives what the kernel gives.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from phrasedraft.target.streamed import StreamedKernel

EPSILONS = ("variance_epsilon", "eps", "epsilon")
"""What models call the number that keeps a norm from dividing by zero."""
MOST_ROWS = 128


class StreamedNorm(nn.Module):
    """A norm computed by our kernel for a few rows, by the model's own module for many or for other precisions."""

    def __init__(self, norm: nn.Module, weight: Tensor, epsilon: float, kernel: StreamedKernel) -> None:
        super().__init__()
        self.weight = weight
        self._norm, self._epsilon, self._kernel = norm, epsilon, kernel

    def forward(self, rows: Float[Tensor, "*batch hidden"], *more: Any, **named: Any) -> Float[Tensor, "*batch hidden"]:
        """The rows over their root mean square, times the weight; with anything more, what the model makes of it."""
        width = rows.shape[-1]
        is_ours = rows.dtype is torch.float32 and rows.numel() <= MOST_ROWS * width and rows.is_contiguous()
        if more or named or not is_ours:
            norm: Tensor = self._norm(rows, *more, **named)
            return norm
        return self._kernel.rms_norm(rows, self.weight, self._epsilon)


@torch.inference_mode()
def replace_norms(view: nn.Module, kernel: StreamedKernel) -> int:
    """Replace the norms of a view of ours that the kernel computes as they do; how many."""
    replaced = 0
    for parent in list(view.modules()):
        for name, child in list(parent.named_children()):
            norm = _as_streamed(child, kernel)
            if norm is not None:
                setattr(parent, name, norm)
                replaced += 1
    return replaced


def _as_streamed(norm: nn.Module, kernel: StreamedKernel) -> StreamedNorm | None:
    weight = getattr(norm, "weight", None)
    epsilon = next((getattr(norm, name) for name in EPSILONS if isinstance(getattr(norm, name, None), float)), None)
    if not type(norm).__name__.endswith("RMSNorm") or not isinstance(weight, Tensor) or epsilon is None:
        return None
    if weight.ndim != 1 or weight.dtype is not torch.float32:
        return None
    rows = torch.randn(1, 5, len(weight), generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    found = StreamedNorm(norm, weight, epsilon, kernel)
    try:
        is_right = torch.allclose(found(rows), norm(rows), atol=1e-5, rtol=1e-5)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None
    return found if is_right else None
