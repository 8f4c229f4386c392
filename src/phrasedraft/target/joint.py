"""Linears that read the same rows, as query, key and value do, multiplied as one.

Which those are is seen, not known: one pass over a few tokens shows which linears are given the very same tensor, one
right after another. The first of them that is called computes the product for all; the others take their part of it.
"""

import threading
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from phrasedraft.target.streamed import StreamedKernel

NUM_TOKENS = 3


@runtime_checkable
class Joinable(Protocol):
    """A linear that can take its product from a `JointProduct`."""

    def operands(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias."""
        ...

    def join(self, joint: "JointProduct", place: int) -> None:
        """Take the product from there from now on."""
        ...


class JointProduct:
    """The product of some rows with several weights; each thread has its own last rows."""

    def __init__(self, linears: Sequence[Joinable], kernel: StreamedKernel) -> None:
        self._kernel = kernel
        operands = [linear.operands() for linear in linears]
        self._packed = kernel.pack(torch.cat([weight.detach() for weight, _ in operands]))
        self._bias = None
        if any(bias is not None for _, bias in operands):
            self._bias = torch.cat(
                [weight.new_zeros(len(weight)) if bias is None else bias.detach() for weight, bias in operands]
            )
        self._ends = list(accumulate(len(weight) for weight, _ in operands))
        self._last = threading.local()

    def part(self, rows: Float[Tensor, "*batch input"], place: int) -> Float[Tensor, "*batch output"]:
        """The product of the linear at `place`. That of all is kept until each was asked for, or for other rows."""
        last = self._last
        if getattr(last, "rows", None) is not rows or place not in last.waiting:
            last.rows = rows
            last.product = self._kernel.multiply(rows, self._packed, self._bias, self._ends[-1])
            last.waiting = set(range(len(self._ends)))
        start = self._ends[place - 1] if place else 0
        part: Tensor = last.product[..., start : self._ends[place]]
        last.waiting.discard(place)
        if not last.waiting:
            last.rows = last.product = None
        return part


@torch.inference_mode()
def join_same_rows(view: PreTrainedModel, linears: Sequence[nn.Module], kernel: StreamedKernel) -> int:
    """Join those of `linears` that are given the same rows one right after another; how many products that saves."""
    saved = 0
    for group in _groups(_calls(view, linears)):
        joinable = [linear for linear in group if isinstance(linear, Joinable)]
        if len(joinable) < 2:
            continue
        joint = JointProduct(joinable, kernel)
        for place, linear in enumerate(joinable):
            linear.join(joint, place)
        saved += len(joinable) - 1
    return saved


def _calls(view: PreTrainedModel, linears: Sequence[nn.Module]) -> list[tuple[nn.Module, Tensor]]:
    """The linears in the order of their calls in one pass, with what each was given."""
    calls: list[tuple[nn.Module, Tensor]] = []
    hooks = [
        linear.register_forward_pre_hook(lambda module, inputs: calls.append((module, inputs[0]))) for linear in linears
    ]
    try:
        view(input_ids=torch.arange(1, 1 + NUM_TOKENS)[None], use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def _groups(calls: Sequence[tuple[nn.Module, Tensor]]) -> list[list[nn.Module]]:
    """Linears of consecutive calls with the same tensor; none that was called more than once."""
    counts: dict[int, int] = {}
    for linear, _ in calls:
        counts[id(linear)] = counts.get(id(linear), 0) + 1
    groups: list[list[nn.Module]] = []
    before: Tensor | None = None
    for linear, rows in calls:
        if counts[id(linear)] > 1:
            before = None
            continue
        if rows is before:
            groups[-1].append(linear)
        else:
            groups.append([linear])
        before = rows
    return [group for group in groups if len(group) > 1]
