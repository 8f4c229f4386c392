"""Our own kernel for a few rows: right, the same for a row whatever is beside it, and absent where it cannot be."""

import os
import stat

import pytest
import torch
import torch.nn.functional as F

import zoo
from kit import PROMPT, RandomTreeDrafter, greedy_answer
from phrasedraft import Decoder, Stopping, TransformersTarget
from phrasedraft.target import streamed
from phrasedraft.target.streamed import streamed_kernel

needs_kernel = pytest.mark.skipif(streamed_kernel().kernel is None, reason=streamed_kernel().why_not)


@pytest.fixture
def build_anew(monkeypatch, tmp_path):
    """Builds the kernel as a fresh process with an empty cache folder would."""
    monkeypatch.setenv("PHRASEDRAFT_CACHE", str(tmp_path))
    monkeypatch.delenv("PHRASEDRAFT_KERNEL", raising=False)
    return streamed_kernel.__wrapped__


@needs_kernel
@pytest.mark.parametrize("shape", [(1, 1), (31, 5), (32, 64), (33, 7), (960, 576)])
@pytest.mark.parametrize("num_rows", [1, 2, 6, 7, 12, 13, 25, 60])
def test_products_are_those_of_torch(shape, num_rows):
    kernel, (outputs, inputs) = streamed_kernel().kernel, shape
    weight, bias, rows = torch.randn(shape), torch.randn(outputs), torch.randn(num_rows, inputs)
    product = kernel.multiply(rows, kernel.pack(weight), bias, outputs)
    exact = F.linear(rows.double(), weight.double(), bias.double())
    assert (product - exact).abs().max() <= 4 * (F.linear(rows, weight, bias) - exact).abs().max() + 1e-5


@needs_kernel
def test_a_row_gives_the_same_bits_alone_and_among_others():
    kernel = streamed_kernel().kernel
    packed, rows = kernel.pack(torch.randn(96, 200)), torch.randn(40, 200)
    together = kernel.multiply(rows, packed, None, 96)
    for count in (1, 3, 9, 17):
        assert torch.equal(kernel.multiply(rows[:count], packed, None, 96), together[:count])


@needs_kernel
def test_rows_and_weights_that_are_not_contiguous_and_values_that_are_not_finite_are_read_right():
    kernel = streamed_kernel().kernel
    weight, rows = torch.randn(64, 40).t(), torch.randn(64, 5).t()
    rows[1, 3], rows[2, 0] = float("nan"), float("inf")
    product = kernel.multiply(rows, kernel.pack(weight), None, 40)
    torch.testing.assert_close(product, F.linear(rows, weight), atol=1e-4, rtol=1e-4, equal_nan=True)


@needs_kernel
def test_it_is_compiled_once_and_found_again(build_anew, tmp_path):
    assert build_anew().kernel is not None
    (library,) = (tmp_path / "kernels").iterdir()
    written = library.stat().st_mtime_ns
    assert build_anew().kernel is not None
    assert library.stat().st_mtime_ns == written


def _compiler(folder, script):
    """A program that calls itself a C compiler."""
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_machine_without_a_compiler_says_so(build_anew, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "there is no C compiler" in build_anew().why_not


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(build_anew, monkeypatch, tmp_path):
    monkeypatch.setenv("CC", _compiler(tmp_path, '[ "$1" = --version ] || { echo "no such header" >&2; exit 1; }'))
    assert "no such header" in build_anew().why_not
    assert not list((tmp_path / "kernels").iterdir())


def test_a_compiler_that_makes_nonsense_is_not_believed(build_anew, monkeypatch, tmp_path):
    script = 'while [ "$#" -gt 0 ]; do [ "$1" = -o ] && echo nonsense > "$2"; shift; done; true'
    monkeypatch.setenv("CC", _compiler(tmp_path, script))
    assert "cannot be compiled and loaded" in build_anew().why_not


@needs_kernel
def test_a_kernel_that_is_wrong_is_not_used(build_anew, monkeypatch, tmp_path):
    source = tmp_path / "wrong.c"
    source.write_text(streamed.SOURCE.read_text().replace("low * input", "low * input * 1.01f"))
    monkeypatch.setattr(streamed, "SOURCE", source)
    assert "wrong products" in build_anew().why_not


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_folder_that_cannot_be_written_is_no_error(build_anew, tmp_path):
    tmp_path.chmod(0o500)
    try:
        assert "cannot be compiled and loaded" in build_anew().why_not
    finally:
        tmp_path.chmod(0o700)


def test_it_can_be_switched_off(build_anew, monkeypatch):
    monkeypatch.setenv("PHRASEDRAFT_KERNEL", "off")
    assert build_anew().why_not == "PHRASEDRAFT_KERNEL is off"


@pytest.mark.parametrize("has_kernel", [True, False])
def test_the_text_is_the_same_with_and_without_it(monkeypatch, has_kernel):
    if not has_kernel:
        monkeypatch.setattr("phrasedraft.target.packing.streamed_kernel", lambda: streamed.Build(None, "none here"))
    target = TransformersTarget(zoo.build_model("llama"))
    assert any("no kernel of our own: none here" in note for note in target.notes) is not has_kernel
    answer = greedy_answer("llama", 20)
    decoder = Decoder(target, RandomTreeDrafter(answer), num_draft_tokens=5)
    generation = decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=20))
    assert generation.tokens == answer
    assert generation.stats.num_accepted_tokens > 0


@needs_kernel
def test_no_rows_have_no_products():
    kernel = streamed_kernel().kernel
    assert kernel.multiply(torch.empty(0, 40), kernel.pack(torch.randn(64, 40)), None, 64).shape == (0, 64)


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_another_default_precision_changes_nothing(build_anew, dtype):
    weight, rows = torch.randn(64, 40), torch.randn(3, 40)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        kernel = build_anew().kernel
        product = kernel.multiply(rows, kernel.pack(weight), None, 64)
    finally:
        torch.set_default_dtype(before)
    torch.testing.assert_close(product, F.linear(rows, weight), atol=1e-4, rtol=1e-4)


@needs_kernel
def test_a_damaged_library_is_compiled_anew(build_anew):
    library = streamed._compiled(streamed._compiler())  # compiled, and not loaded yet
    library.write_bytes(b"no library")
    assert build_anew().kernel is not None
    assert library.read_bytes() != b"no library"
