"""Sight of the text so far: what one text in the making and a batch of finished ones show is the same."""

import json
import random
from dataclasses import replace

import pytest
import torch

from phrasedraft.drafters import load_head
from phrasedraft.drafters.text_reader import KEY_WIDTH, NUM_HEADS, OpenText, TextReader
from phrasedraft.errors import HeadFileError, OptionError
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.fit_settings import HeadSettings
from phrasedraft.training.texts import PARTS, Texts
from synthetic import HIDDEN, VOCAB, SyntheticTarget, answer_of, make_head

TRUNK = 32
EMBED = SyntheticTarget().embed
SHAPES = [(5, 9), (1, 4), (40, 2), (3, 1), (12, 30)]
"""Tokens of prompt and answer; the answer of one token makes no row."""


def reader_of(window):
    torch.manual_seed(window)
    reader = TextReader(hidden_size=HIDDEN, trunk_width=TRUNK, window=window)
    torch.nn.init.normal_(reader.distance)
    return reader


def traces_of(shapes, seed=0):
    draw = random.Random(seed)
    texts = [(draw.choices(range(VOCAB), k=prompt), draw.choices(range(VOCAB), k=answer)) for prompt, answer in shapes]
    return [SyntheticTarget().trace(answer_of(answer, prompt=prompt)) for prompt, answer in texts]


@torch.no_grad()
def seen_in_a_batch(reader, traces, states, rows=None):
    texts = Texts.of(traces, reader.window)
    rows = torch.arange(texts.num_rows) if rows is None else rows
    return reader(states, texts.view(rows, reader, EmbeddingTable.of(torch.arange(VOCAB), EMBED)))


@torch.no_grad()
def seen_one_by_one(reader, traces, states, draw):
    """Each row's view when its text is decoded, tokens being committed a few at a time."""
    found, row = {}, 0
    for trace in traces:
        text, at = OpenText(reader, EMBED, [*trace.answer.prompt, trace.tokens[0]]), 0
        while at < len(trace.tokens) - 1:
            found[row + at] = reader(states[row + at : row + at + 1], text)[0]
            size = min(draw.randint(1, 5), len(trace.tokens) - 1 - at)
            text.append(trace.tokens[at + 1 : at + 1 + size])
            at += size
        row += len(trace.tokens) - 1
    return found


@pytest.mark.parametrize("window", [1, 3, 8, 64])
def test_a_text_that_grows_shows_what_a_batch_of_finished_texts_shows(window):
    reader, traces = reader_of(window), traces_of(SHAPES)
    states = torch.randn(sum(max(answer - 1, 0) for _, answer in SHAPES), TRUNK)
    batch = seen_in_a_batch(reader, traces, states)
    assert (batch - reader.leave_norm(states)).abs().max() > 0.1  # something is found
    one_by_one = seen_one_by_one(reader, traces, states, random.Random(window))
    assert len(one_by_one) > len(SHAPES)
    for row, seen in one_by_one.items():
        torch.testing.assert_close(seen, batch[row], rtol=1e-4, atol=1e-5)


def test_rows_in_any_order_see_their_own_text():
    reader, traces = reader_of(64), traces_of(SHAPES)
    states = torch.randn(sum(max(answer - 1, 0) for _, answer in SHAPES), TRUNK)
    rows = torch.randperm(len(states))[:17]
    some = seen_in_a_batch(reader, traces, states[rows], rows)
    torch.testing.assert_close(some, seen_in_a_batch(reader, traces, states)[rows], rtol=1e-4, atol=1e-5)


def test_nothing_that_comes_later_is_seen():
    reader, states = reader_of(64), torch.randn(19, TRUNK)
    (trace,) = traces_of([(6, 20)])
    seen = seen_in_a_batch(reader, [trace], states)
    for row in (0, 7, 18):
        later = [(token + 1) % VOCAB for token in trace.tokens[row + 1 :]]
        changed = SyntheticTarget().trace(answer_of([*trace.tokens[: row + 1], *later], prompt=trace.answer.prompt))
        other = seen_in_a_batch(reader, [changed], states)
        torch.testing.assert_close(seen[: row + 1], other[: row + 1])
        if row < 17:
            assert not torch.allclose(seen[row + 2 :], other[row + 2 :])


@torch.no_grad()
def test_one_token_has_nothing_after_it_so_nothing_is_found():
    reader, states = reader_of(8), torch.randn(3, TRUNK)
    text = OpenText(reader, EMBED, [7])
    torch.testing.assert_close(reader(states, text), reader.leave_norm(states))
    text.append([])
    torch.testing.assert_close(reader(states, text), reader.leave_norm(states))
    text.append([9])
    assert not torch.allclose(reader(states, text), reader.leave_norm(states))


@torch.no_grad()
def test_a_long_text_takes_no_more_room_than_its_window():
    reader = reader_of(8)
    text, whole = OpenText(reader, EMBED, list(range(50))), list(range(50))
    draw = random.Random(5)
    for _ in range(40):
        more = draw.choices(range(VOCAB), k=draw.randint(1, 30))
        text.append(more)
        whole += more
        states = torch.randn(2, TRUNK)
        torch.testing.assert_close(reader(states, text), reader(states, OpenText(reader, EMBED, whole)))
        assert len(text._keys) <= 2 * (8 + 2) + 3


def test_an_epoch_takes_every_row_once():
    texts = Texts.of(traces_of(SHAPES), 8)
    rows = torch.arange(3, texts.num_rows)
    shuffled, again = (texts.shuffle(rows, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert shuffled.sort().values.tolist() == rows.tolist()
    assert not torch.equal(shuffled, again)


def test_what_a_head_says_of_its_window_has_to_be_possible(tmp_path):
    head = make_head([(4,), (5,)])
    head.save_pretrained(tmp_path / "head")
    assert "text_window" not in json.loads((tmp_path / "head" / "config.json").read_text())
    reading = replace(head.config, text_window=8)
    head.scorer.reader, head.config = reader_of(8), reading
    head.save_pretrained(tmp_path / "reads")
    path = tmp_path / "reads" / "config.json"
    assert load_head(tmp_path / "reads").config.text_window == 8
    for wrong in (-1, 2.5, "far", True):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"text_window": wrong}))
        with pytest.raises(HeadFileError, match="`text_window`"):
            load_head(tmp_path / "reads")


def test_a_window_below_zero_is_refused():
    with pytest.raises(OptionError, match="`text_window` is -1"):
        HeadSettings(text_window=-1)


def test_rows_of_a_text_come_in_a_few_groups():
    texts = Texts.of(traces_of([(3, 81)] * 50), 8)
    shuffled = texts.shuffle(torch.arange(texts.num_rows), torch.Generator().manual_seed(0))
    text = shuffled // 80
    assert int((text.diff() != 0).sum()) + 1 <= 50 * PARTS
    assert len(text[:200].unique()) > 10  # and a batch is not one text


@torch.no_grad()
def test_the_example_in_the_docs():
    reader = reader_of(8)
    for weight in (reader.own_key.weight, reader.own_key.bias, reader.before_key.weight, reader.distance):
        weight.zero_()
    reader.distance[:, 2] = torch.tensor(3.0).log()  # two tokens back
    found = OpenText(reader, EMBED, [5, 7, 5]).attend(reader, torch.randn(1, NUM_HEADS, KEY_WIDTH))
    five, seven = reader.tokens(EMBED(torch.tensor([5, 7])))
    for head in range(NUM_HEADS):
        torch.testing.assert_close(found[0, 0, head], 3 / 5 * seven + 1 / 5 * five)
        torch.testing.assert_close(found[0, 1, head], 3 / 5 * five)
        assert not found[0, 2, head].any()


def test_a_short_text_takes_no_room_for_a_wide_window():
    text = OpenText(reader_of(100_000), EMBED, [5, 7])
    text.append([9])
    assert len(text._keys) <= 10
