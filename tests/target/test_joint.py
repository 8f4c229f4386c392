"""Linears that read the same rows are one product, and norms one call; nothing else changes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import zoo
from kit import PROMPT, RandomTreeDrafter, greedy_answer
from phrasedraft import Decoder, Stopping, TransformersTarget
from phrasedraft.target.joint import JointProduct
from phrasedraft.target.norms import StreamedNorm, replace_norms
from phrasedraft.target.packing import PackedLinear
from phrasedraft.target.streamed import streamed_kernel

pytestmark = pytest.mark.skipif(streamed_kernel().kernel is None, reason=streamed_kernel().why_not)


def joined(*shapes, biases=(False, True, False)):
    linears = [nn.Linear(40, size, bias=bias) for size, bias in zip(shapes, biases, strict=False)]
    packed = [PackedLinear(linear, streamed_kernel().kernel) for linear in linears]
    joint = JointProduct(packed, streamed_kernel().kernel)
    for place, linear in enumerate(packed):
        linear.join(joint, place)
    return linears, packed


@pytest.mark.parametrize("num_rows", [1, 9, 40, 200])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 0, 1, 2, 2), (1,)])
def test_each_takes_its_part_in_any_order_and_as_often_as_it_is_asked(num_rows, order):
    linears, packed = joined(37, 8, 64)
    with torch.inference_mode():
        for _ in range(2):
            rows = torch.randn(1, num_rows, 40)
            for place in order:
                torch.testing.assert_close(packed[place](rows), linears[place](rows), atol=1e-5, rtol=1e-5)


def test_rows_that_are_written_to_after_all_parts_were_taken_are_read_anew():
    linears, packed = joined(16, 16)
    rows = torch.randn(1, 3, 40)
    with torch.inference_mode():
        for _ in range(2):
            for linear, one in zip(linears, packed, strict=True):
                torch.testing.assert_close(one(rows), linear(rows), atol=1e-5, rtol=1e-5)
            rows.mul_(2)


def test_threads_do_not_take_each_others_parts():
    linears, packed = joined(24, 24)

    def run(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.inference_mode():
            for _ in range(50):
                rows = torch.randn(1, 3, 40, generator=generator)
                for linear, one in zip(linears, packed, strict=True):
                    torch.testing.assert_close(one(rows), linear(rows), atol=1e-5, rtol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(8)))


def joints_of(view):
    found = {}
    for name, module in view.named_modules():
        if isinstance(module, PackedLinear) and module._joint is not None:
            found.setdefault(id(module._joint[0]), []).append(name.rsplit(".", 1)[-1])
    return sorted(found.values())


@pytest.fixture
def _own_kernel(monkeypatch):
    """Take our kernel whatever is faster for products as small as these."""
    monkeypatch.setattr("phrasedraft.target.packing.faster_kernel", lambda _, kernel: kernel)


@pytest.mark.usefixtures("_own_kernel")
@pytest.mark.filterwarnings("ignore:decoding .* without drafts")
@pytest.mark.parametrize("family", zoo.FAMILIES)
def test_the_text_of_every_family_is_its_own(family):
    answer = greedy_answer(family, 20)
    decoder = Decoder(TransformersTarget(zoo.tiny_model(family)), RandomTreeDrafter(answer), num_draft_tokens=5)
    generation = decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=20))
    assert generation.tokens == answer
    assert generation.stats.num_accepted_tokens > 0 or family == "mamba"


@pytest.mark.usefixtures("_own_kernel")
@pytest.mark.parametrize(
    ("family", "groups"),
    [
        ("llama", [["gate_proj", "up_proj"], ["q_proj", "k_proj", "v_proj"]]),
        ("qwen3", [["gate_proj", "up_proj"], ["q_proj", "k_proj", "v_proj"]]),
        ("phi3", []),  # it has one matrix for each already
        ("opt", [["q_proj", "k_proj", "v_proj"]]),
    ],
)
def test_what_reads_the_same_rows_is_found_in_a_model(family, groups):
    model = zoo.tiny_model(family)
    view = TransformersTarget(model).network
    found = joints_of(view)
    assert [sorted(group) for group in found] == sorted([sorted(group) for group in groups] * 2)
    assert not any(isinstance(module, PackedLinear) for module in model.modules())


@pytest.mark.parametrize("shape", [(1, 1, 576), (1, 9, 33), (3, 5), (1, 0, 16)])
def test_a_norm_is_that_of_torch(shape):
    rows, weight = torch.randn(shape), torch.randn(shape[-1])
    found = streamed_kernel().kernel.rms_norm(rows, weight, 1e-5)
    torch.testing.assert_close(found, F.rms_norm(rows, shape[-1:], weight, 1e-5), atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("_own_kernel")
@pytest.mark.parametrize(
    ("family", "has_norms"), [("llama", True), ("qwen3", True), ("gemma2", False), ("gpt2", False)]
)
def test_norms_are_replaced_where_the_kernel_gives_the_same(family, has_norms):
    view = TransformersTarget(zoo.tiny_model(family)).network
    assert any(isinstance(module, StreamedNorm) for module in view.modules()) is has_norms


def test_a_norm_follows_its_weight_and_leaves_other_rows_to_the_model():
    model = zoo.build_model("llama")
    norm = model.model.norm
    assert replace_norms(model, streamed_kernel().kernel) == 5
    found = model.model.norm
    with torch.no_grad():
        norm.weight.mul_(2)
        for rows in (torch.randn(1, 4, 32), torch.randn(1, 300, 32), torch.randn(4, 32, 2).transpose(1, 2)):
            torch.testing.assert_close(found(rows), norm(rows), atol=1e-5, rtol=1e-5)
        assert found(torch.randn(1, 4, 32, dtype=torch.float64)).dtype is norm(torch.randn(1, 4, 32).double()).dtype
