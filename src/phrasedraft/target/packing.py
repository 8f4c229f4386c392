"""Linears packed once for the CPU: what makes a pass over 2 to 16 rows cheap there.

The default kernel repacks a weight on every call, which costs more than the product itself at few rows (docs/log.md
has the curve). `packed_view` returns a second set of modules over the same parameters whose linears hold a packed
copy; the model the user gave stays as it is. The packed weights take as much memory again as the linears.

Which kernel is faster depends on the processor, so it is measured once when a model is packed: our own, `streamed`,
where it could be compiled, or oneDNN's; and for a single row also the one that needs no packing.
"""

import copy
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from phrasedraft.errors import first_line
from phrasedraft.target.attention import share_keys
from phrasedraft.target.joint import JointProduct, join_same_rows
from phrasedraft.target.norms import replace_norms
from phrasedraft.target.quantised import is_quantized
from phrasedraft.target.streamed import StreamedKernel, streamed_kernel

TIMED_BYTES = 256 << 20
"""How much weight is read to find the faster kernel: more than caches hold, and done in a moment."""
TIMED_ROUNDS = 3
TIMED_ROWS = 9
MOST_STREAMED_ROWS = 128
"""Beyond this many rows multiplying takes so much longer than reading that the default kernel does as well."""
EVERY, SAMPLED = 5, 8
"""So many numbers of every fifth parameter say whether they were written to: a text cannot wait for more."""
CLEARLY_FASTER = 0.95
"""The default kernel is taken for one row where it takes less than this share of the packed one's time."""


L = TypeVar("L", nn.Linear, "PackedLinear")
CHOICES = (True, False)


@dataclass(frozen=True)
class PackedView:
    """The modules to run, why they are not packed (empty where they are), and what is not at its best."""

    model: PreTrainedModel
    not_packed: str
    stamp: tuple[int, ...]
    note: str = ""


class PackedLinear(nn.Module):
    """A linear layer over a packed copy of its weight, ours with `kernel`, else oneDNN's; inference only.

    With `packs_one_row` off, a single row is multiplied with the weight as the model has it.
    """

    def __init__(self, linear: nn.Linear, kernel: StreamedKernel | None = None) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias  # shared with the model, for code that reads them
        self._kernel = kernel
        weight = linear.weight.detach()
        self.packed_weight = kernel.pack(weight) if kernel else torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self.packs_one_row = True
        self._joint: tuple[JointProduct, int] | None = None

    def operands(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias."""
        return self.weight, self.bias

    def join(self, joint: JointProduct, place: int) -> None:
        """Take the product from one that is computed for several linears at once."""
        self._joint, self.packed_weight = (joint, place), self.weight.detach()  # the packed copy is in there

    def forward(self, rows: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        """The product with the weight, plus the bias."""
        num_rows = rows.numel() // self.in_features
        if num_rows == 1 and not self.packs_one_row:
            return F.linear(rows, self.weight, self.bias)
        if self._kernel is None:
            return torch.ops.mkldnn._linear_pointwise(rows, self.packed_weight, self.bias, "none", [], "")  # type: ignore[no-any-return]
        if num_rows > MOST_STREAMED_ROWS or rows.dtype is not torch.float32:
            return F.linear(rows, self.weight, self.bias)
        if self._joint is not None:
            return self._joint[0].part(rows, self._joint[1])
        return self._kernel.multiply(rows, self.packed_weight, self.bias, self.out_features)


def packed_view(model: PreTrainedModel, *, wanted: bool = True) -> PackedView:
    """The model itself, or modules of our own over the same parameters with every linear packed."""
    reason = "switched off" if not wanted else _why_not(model)
    if reason:
        return PackedView(model, reason, stamp(model))
    tensors = [*model.parameters(), *model.buffers()]
    view = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
    build = streamed_kernel()
    kernel = faster_kernel([module for module in view.modules() if type(module) is nn.Linear], build.kernel)
    for parent in list(view.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, PackedLinear(child, kernel))
    share_keys(view)
    if not _agree(view.eval(), model):
        return PackedView(model, "the packed linears do not reproduce this model", stamp(model))
    linears = [module for module in view.modules() if isinstance(module, PackedLinear)]
    choose_for_one_row(linears)
    if kernel is not None:
        try:
            replace_norms(view, kernel)
            join_same_rows(view, linears, kernel)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            return PackedView(model, f"our modules cannot run this model: {first_line(error)}", stamp(model))
        if not _agree(view, model):
            return PackedView(model, "the packed linears do not reproduce this model", stamp(model))
    return PackedView(view, "", stamp(model), f"no kernel of our own: {build.why_not}" if build.why_not else "")


@torch.inference_mode()
def faster_kernel(linears: Sequence[nn.Linear], kernel: StreamedKernel | None) -> StreamedKernel | None:
    """`kernel`, or None where oneDNN's is faster on this machine."""
    if kernel is None or not linears:
        return None
    timed = _enough(linears)
    rows = [torch.ones(TIMED_ROWS, linear.in_features, dtype=torch.float32) for linear in timed]
    layers = {is_ours: [PackedLinear(linear, kernel if is_ours else None) for linear in timed] for is_ours in CHOICES}
    seconds = _best_seconds(lambda is_ours: _run_all(layers[is_ours], rows))
    return kernel if seconds[True] < seconds[False] else None


@torch.inference_mode()
def choose_for_one_row(linears: Sequence[PackedLinear]) -> None:
    """Set `packs_one_row` of all by what is faster on this machine."""
    timed = _enough(linears)
    rows = [torch.ones(1, linear.in_features, dtype=torch.float32) for linear in timed]

    def run(is_packed: bool) -> None:
        for linear in timed:
            linear.packs_one_row = is_packed
        _run_all(timed, rows)

    seconds = _best_seconds(run)
    for linear in linears:
        linear.packs_one_row = seconds[False] > CLEARLY_FASTER * seconds[True]


def kernel_facts(model: nn.Module) -> dict[str, Any]:
    """Whose kernel was found to be the faster one for a view: what a pass costs depends on it."""
    packed = next((module for module in model.modules() if isinstance(module, PackedLinear)), None)
    return {} if packed is None else {"own": packed._kernel is not None}


def _enough(linears: Sequence[L]) -> Sequence[L]:
    """The first linears, `TIMED_BYTES` of weight at most, one at least."""
    ends = accumulate(linear.weight.nbytes for linear in linears)
    return linears[: max(1, sum(end <= TIMED_BYTES for end in ends))]


def _run_all(linears: Sequence[nn.Module], rows: Sequence[Tensor]) -> None:
    for linear, row in zip(linears, rows, strict=True):
        linear(row)


def _best_seconds(run: Callable[[bool], None]) -> dict[bool, float]:
    """The seconds of each choice in its best round; they take turns."""
    best = dict.fromkeys(CHOICES, float("inf"))
    for _ in range(TIMED_ROUNDS):
        for choice in CHOICES:
            started = time.perf_counter()
            run(choice)
            best[choice] = min(best[choice], time.perf_counter() - started)
    return best


def stamp(model: PreTrainedModel) -> tuple[int, ...]:
    """Changes whenever a parameter is replaced, moved or written to, or a module or adapter comes or goes.

    What is written through `.data`, or into parameters made under `torch.inference_mode()`, is counted nowhere; some
    numbers of every fifth parameter on the CPU stand for it, which in a stack of layers is one of every kind.
    """
    modules, parameters = list(model.modules()), list(model.parameters())
    adapters = [str(getattr(module, "active_adapters", "")) for module in modules if hasattr(module, "lora_A")]
    return (
        len(modules),
        hash(tuple(adapters)),
        hash(tuple((id(each), each.data_ptr(), each.dtype, each.device) for each in parameters)),
        sum(parameter._version for parameter in parameters if not parameter.is_inference()),
        _sample([each for each in parameters[::EVERY] if each.device.type == "cpu" and each.is_floating_point()]),
    )


def _sample(parameters: Sequence[Tensor]) -> int:
    """A hash of a few numbers of each parameter, evenly spaced along its memory."""
    some = [
        each.detach().as_strided((SAMPLED,), (each.numel() // SAMPLED,)).float()
        for each in parameters
        if each.numel() >= SAMPLED and each.is_contiguous()
    ]
    return hash(torch.cat(some).numpy().tobytes()) if some else 0


def _why_not(model: PreTrainedModel) -> str:
    parameters = list(model.parameters())
    if is_quantized(model):
        return "the target is quantised"
    if any(parameter.device.type != "cpu" for parameter in parameters):
        return "the target is not on the CPU"
    if any(parameter.dtype != torch.float32 for parameter in parameters):
        return "only float32 weights are packed"
    if getattr(model, "peft_config", None) or getattr(model, "_hf_peft_config_loaded", False):
        return "adapters can be switched at any time; merge them to have the linears packed"
    if any(_is_hooked(module) for module in model.modules()):
        return "the target carries forward hooks"
    if not any(type(module) is nn.Linear for module in model.modules()):
        return "the target has no plain linear layers"
    return "" if _op_works() else "this build of torch has no packed linear"


def _is_hooked(module: nn.Module) -> bool:
    """Whether something of the user's runs with the module; transformers leaves hooks of its own behind.

    It installs them for good when hidden states are first asked for; they only read, and work in a copy as well.
    """
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return hasattr(module, "_hf_hook") or not all(_is_of_transformers(hook) for hook in hooks)


def _is_of_transformers(hook: Any) -> bool:
    home = inspect.getmodule(hook)
    return home is not None and home.__name__ == "transformers.utils.output_capturing"


@torch.inference_mode()
def _agree(view: PreTrainedModel, model: PreTrainedModel) -> bool:
    """Whether both sets of modules give the same logits, up to rounding, for a few tokens."""
    tokens = torch.arange(1, 6)[None] % model.get_input_embeddings().weight.shape[0]
    try:
        packed, plain = (run(input_ids=tokens, use_cache=False).logits for run in (view, model))
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return False
    spread = (plain - plain.mean(-1, keepdim=True)).norm()
    return bool(torch.isnan(plain).any()) or bool((packed - plain).norm() <= 1e-4 * spread)


def _op_works() -> bool:
    try:
        probe = nn.Linear(8, 8, dtype=torch.float32)
        rows = torch.ones(2, 8, dtype=torch.float32)
        with torch.no_grad():
            return bool(torch.allclose(PackedLinear(probe)(rows), probe(rows), atol=1e-5))
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
