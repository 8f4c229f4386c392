"""Packed linears give the same text, follow the weights, and leave the user's model alone."""

import time

import pytest
import torch
from torch import nn

import zoo
from kit import PROMPT, RandomTreeDrafter, greedy_answer, plain
from phrasedraft import Choice, Decoder, FeatureSpec, Stopping, TransformersTarget
from phrasedraft.target.packing import PackedLinear, choose_for_one_row, faster_kernel
from phrasedraft.target.streamed import StreamedKernel, streamed_kernel

STOPPING = Stopping(max_new_tokens=20)


def is_packed(target):
    return not any("not packed" in note for note in target.notes)


@pytest.mark.parametrize("family", [family for family in zoo.FAMILIES if family not in {"gpt2", "mamba"}])
def test_packed_and_unpacked_linears_give_the_same_text(family):
    model = zoo.tiny_model(family)
    answer = greedy_answer(family, 20)
    packed, unpacked = TransformersTarget(model), TransformersTarget(model, packed=False)
    assert is_packed(packed)
    assert not is_packed(unpacked)
    assert packed.support is unpacked.support
    for target in (packed, unpacked):
        decoder = Decoder(target, RandomTreeDrafter(answer), num_draft_tokens=5)
        assert decoder.generate(PROMPT, stopping=STOPPING).tokens == answer
    choice = Choice(temperature=1.3, seed=9)
    assert plain(packed, choice, STOPPING).tokens == plain(unpacked, choice, STOPPING).tokens


def test_a_model_that_was_asked_for_hidden_states_before_is_packed_and_gives_the_same_ones():
    model, tokens = zoo.build_model("llama"), torch.tensor([[5, 9, 3]])
    with torch.inference_mode():
        expected = model(tokens, output_hidden_states=True).hidden_states[-2]
    target = TransformersTarget(model)
    assert is_packed(target)
    rows = target.hidden_rows(tokens, torch.ones_like(tokens), FeatureSpec(layers=(-2,)))
    torch.testing.assert_close(rows, expected, atol=1e-5, rtol=1e-5)


def test_the_users_model_keeps_its_linears_and_shares_its_weights():
    model = zoo.build_model("llama")
    target = TransformersTarget(model)
    assert target.network is not model
    assert all(type(module) is nn.Linear for name, module in model.named_modules() if name.endswith("_proj"))
    theirs = {tensor.data_ptr() for tensor in model.parameters()}
    assert {tensor.data_ptr() for tensor in target.network.parameters()} <= theirs


def test_weights_that_change_after_packing_are_noticed():
    model = zoo.build_model("llama")
    target = TransformersTarget(model)
    assert plain(target, stopping=STOPPING).tokens == greedy_answer("llama", 20)
    other = zoo.build_model("llama", num_hidden_layers=2)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.05 * torch.ones_like(parameter))
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            mine.copy_(theirs)
    changed = plain(TransformersTarget(other, packed=False), stopping=STOPPING).tokens
    assert changed != greedy_answer("llama", 20)
    assert plain(target, stopping=STOPPING).tokens == changed


def test_a_weight_that_is_replaced_after_packing_is_noticed():
    model = zoo.build_model("llama")
    target = TransformersTarget(model)
    model.get_output_embeddings().weight = nn.Parameter(model.get_output_embeddings().weight.detach().roll(1, dims=0))
    expected = plain(TransformersTarget(model, packed=False), stopping=STOPPING).tokens
    assert plain(target, stopping=STOPPING).tokens == expected != greedy_answer("llama", 20)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: model.to(torch.bfloat16), "only float32 weights are packed"),
        (lambda model: model.model.register_forward_hook(lambda *arguments: None) and model, "forward hooks"),
    ],
)
def test_where_packing_does_not_apply_the_target_says_why(change, reason):
    target = TransformersTarget(change(zoo.build_model("llama")))
    assert any(reason in note for note in target.notes)
    assert target.network is target.model


def test_forward_hooks_of_the_user_still_run():
    model, calls = zoo.build_model("llama"), []
    model.model.layers[0].register_forward_hook(lambda *arguments: calls.append(1))
    target = TransformersTarget(model)
    calls.clear()
    assert plain(target, stopping=STOPPING).tokens == greedy_answer("llama", 20)
    assert len(calls) == 20


def test_a_model_made_in_inference_mode_can_be_a_target():
    with torch.inference_mode():
        model = zoo.build_model("llama")
        frozen = type(model)(model.config).eval()
        frozen.load_state_dict(model.state_dict())
    target = TransformersTarget(frozen)
    assert plain(target, stopping=STOPPING).tokens == greedy_answer("llama", 20)


class TimedLinear(PackedLinear):
    """A packed linear one of whose kernels is slow."""

    def __init__(self, slow: bool) -> None:
        super().__init__(nn.Linear(8, 8))
        self._slow = slow

    def forward(self, rows):
        if self.packs_one_row is self._slow:
            time.sleep(0.003)
        return super().forward(rows)


@pytest.mark.parametrize("slow", [True, False])
def test_one_row_takes_the_kernel_that_is_faster_here(slow):
    linears = [TimedLinear(slow) for _ in range(3)]
    choose_for_one_row(linears)
    assert {linear.packs_one_row for linear in linears} == {not slow}


class TimedKernel(StreamedKernel):
    """A kernel of our own that is slow, or does nothing at all."""

    def __init__(self, slow: bool) -> None:
        self._slow = slow

    def pack(self, weight):
        return weight

    def multiply(self, rows, packed, bias, outputs):
        if self._slow:
            time.sleep(0.003)
        return rows


@pytest.mark.parametrize("slow", [True, False])
def test_our_own_kernel_is_taken_where_it_is_faster_here(slow):
    kernel = TimedKernel(slow)
    assert faster_kernel([nn.Linear(512, 2048) for _ in range(3)], kernel) is (None if slow else kernel)


def test_without_a_kernel_of_our_own_there_is_nothing_to_choose():
    assert faster_kernel([nn.Linear(8, 8)], None) is None


KERNELS = [None, *([streamed_kernel().kernel] if streamed_kernel().kernel else [])]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_gives_the_same_product(kernel, is_packed, bias):
    linear = nn.Linear(48, 37, bias=bias)
    packed = PackedLinear(linear, kernel)
    packed.packs_one_row = is_packed
    with torch.inference_mode():
        for num_rows in (1, 4, 13, 150):
            rows = torch.randn(1, num_rows, 48)
            torch.testing.assert_close(packed(rows), linear(rows), atol=1e-5, rtol=1e-5)


def test_weights_that_are_written_to_behind_torchs_back_are_noticed():
    model = zoo.build_model("llama")
    target = TransformersTarget(model)
    assert plain(target, stopping=STOPPING).tokens == greedy_answer("llama", 20)
    for parameter in model.parameters():
        parameter.data.mul_(torch.linspace(0.7, 1.3, parameter.numel()).view_as(parameter))
    changed = plain(TransformersTarget(model, packed=False), stopping=STOPPING).tokens
    assert plain(target, stopping=STOPPING).tokens == changed != greedy_answer("llama", 20)
