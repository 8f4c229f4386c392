"""Nothing but the text and its cache grows while a text does."""

import gc

import psutil
import pytest
import torch

import zoo
from kit import RandomTreeDrafter, StubDrafter
from phrasedraft import Decoder, Stopping, TransformersTarget
from phrasedraft.tree.draft_tree import DraftTree


@pytest.fixture(autouse=True)
def only_what_is_new():
    """Leave what was there before out of every count, which makes counting quick."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def num_tensors():
    gc.collect()
    return sum(1 for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor))


class Cycling(StubDrafter):
    """Drafts what came four tokens before, again and again, as a chain."""

    def draft(self, state, budget):
        recent = state.text[-4:]
        return DraftTree.chain((state.text[-1], *recent)).cut(min(budget.max_depth, 3))


def stream_of(family, max_new_tokens, **changes):
    model = zoo.build_model(family, **changes)
    target = TransformersTarget(model, packed=False, check=False)
    return Decoder(target, Cycling(()), num_draft_tokens=4).stream(
        (1, 2, 3), stopping=Stopping(max_new_tokens=max_new_tokens)
    )


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_the_number_of_tensors_does_not_grow_with_the_text(family):
    stream = stream_of(family, 400)
    counts = [num_tensors() for number, _ in enumerate(stream, start=1) if number in {100, 200, 300, 390}]
    assert max(counts) - min(counts) <= 12


def test_many_texts_leave_nothing_behind():
    target = TransformersTarget(zoo.build_model("llama"), packed=False)
    decoder = Decoder(target, RandomTreeDrafter((), seed=1), num_draft_tokens=6)
    counts = []
    for _ in range(6):
        decoder.generate((1, 2, 3), stopping=Stopping(max_new_tokens=12))
        counts.append(num_tensors())
    assert counts[-1] <= counts[1]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["mistral_window", "qwen3_5"])
def test_twenty_thousand_tokens_take_no_more_memory_than_two_thousand(family):
    stream = stream_of(family, 20_000, max_position_embeddings=32_768)
    process = psutil.Process()
    used = {}
    for number, _ in enumerate(stream, start=1):
        if number in {2_000, 20_000}:
            gc.collect()
            used[number] = process.memory_info().rss
    # qwen3_5 keeps keys and values of one layer in four: 2 x 2 x 8 x 4 bytes a token.
    assert used[20_000] - used[2_000] < 48 * 2**20
