"""Traces are streamed: a batch's rows are read when it is made, and the result is that of having all in memory."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import make_examples
from phrasedraft.training.order import epoch_batches
from phrasedraft.training.rows import Piece, StoredRows, TraceRows
from phrasedraft.training.traces import collect_traces, read_traces
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import SyntheticTarget, answer_of

SPANS = [(0, 7), (7, 7), (7, 30), (30, 31), (31, 60)]


def order_of(*, window_rows=1000, batch_size=4, seed=0, spans=SPANS):
    return list(epoch_batches(spans, batch_size, window_rows, torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("window_rows", [1, 5, 10, 33, 60, 1000])
@pytest.mark.parametrize("batch_size", [1, 4, 13, 60, 100])
def test_an_epoch_takes_each_row_once_in_batches_of_one_size(window_rows, batch_size):
    batches = order_of(window_rows=window_rows, batch_size=batch_size)
    size = min(batch_size, 60)
    assert [len(batch) for batch in batches] == [size] * (60 // size)
    rows = torch.cat(batches).tolist()
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(60))
    assert all(batch.tolist() == sorted(batch.tolist()) for batch in batches)


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    first, again, other = (torch.cat(order_of(window_rows=20, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_corpus_that_fits_one_window_is_shuffled_as_one():
    spans = [(start, start + 10) for start in range(0, 1000, 10)]
    for batch in order_of(spans=spans, batch_size=50, window_rows=1000)[:4]:
        assert len({int(row) // 10 for row in batch}) > 25


def test_a_batch_reads_few_files_where_windows_are_small():
    spans = [(start, start + 100) for start in range(0, 10_000, 100)]
    batches = order_of(spans=spans, batch_size=50, window_rows=300)
    files = [{int(row) // 100 for row in batch} for batch in batches]
    assert max(map(len, files)) <= 6  # three a window, and a batch may reach into the next one
    seen = [min(group) for group in files]
    assert seen != sorted(seen)


def make_rows(sizes, *, num_sources=3, split=None):
    """Pieces of several tables, and the same rows as one tensor."""
    tables = [torch.randn((40, 6), generator=torch.Generator().manual_seed(i)).half() for i in range(num_sources)]
    sources = [
        StoredRows((table,)) if split is None else StoredRows((table[:, :split], table[:, split:])) for table in tables
    ]
    numbers = [(i * 2) % num_sources for i in range(len(sizes))]
    firsts = [(7 * i) % 11 for i in range(len(sizes))]
    plan = list(zip(numbers, firsts, sizes, strict=True))
    rows = TraceRows([Piece(source=sources[n], first=first, num_rows=size) for n, first, size in plan])
    return rows, torch.cat([tables[n][first : first + size] for n, first, size in plan])


@settings(deadline=None)
@given(st.data(), st.lists(st.integers(0, 20), min_size=1, max_size=9), st.sampled_from([None, 2]))
def test_rows_of_many_files_read_like_one_table(data, sizes, split):
    rows, table = make_rows(sizes, split=split)
    assert rows.shape == (len(table), 6)
    assert len(rows) == len(table)
    assert torch.equal(rows[:], table)
    assert torch.equal(rows[1:-1:3], table[1:-1:3])
    if len(table):
        wanted = torch.tensor(data.draw(st.lists(st.integers(0, len(table) - 1), max_size=30)), dtype=torch.long)
        assert torch.equal(rows[wanted], table[wanted])
    spans = rows.spans()
    assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]]
    assert (spans[0][0], spans[-1][1]) == (0, len(table))


def trained_weights(traces, vocabulary, **changes):
    examples = make_examples(traces, vocabulary, frozenset())
    trainer = Trainer(
        examples,
        EmbeddingTable.of(examples.tokens, SyntheticTarget().embed),
        vocabulary,
        TrainingSettings(num_epochs=2, batch_size=32, trunk_width=16, **changes),
    )
    for epoch in range(2):
        list(trainer.run_epoch(epoch))
    return trainer.trained().state_dict()


def test_training_from_disk_gives_the_weights_of_training_from_memory(tmp_path):
    generator = torch.Generator().manual_seed(0)
    answers = [answer_of(torch.randint(4, 9, (12,), generator=generator).tolist(), name=str(i)) for i in range(40)]
    target = SyntheticTarget()
    collect_traces(target, answers, FeatureSpec(), tmp_path, console=Console(file=io.StringIO()))
    stored = read_traces(tmp_path, answers)
    vocabulary = PhraseVocabulary.from_phrases([(token,) for token in range(4, 9)])
    whole, streamed = (
        trained_weights(traces, vocabulary) for traces in ([target.trace(answer) for answer in answers], stored)
    )
    for name, weight in whole.items():
        assert torch.equal(weight, streamed[name]), name


SCRIPT = """
import sys, torch
from pathlib import Path
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.corpus.answers import Answer
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import make_examples
from phrasedraft.training.shards import shard_path, write_shard
from phrasedraft.training.traces import read_traces
from phrasedraft.training.trainer import Trainer, TrainingSettings

WIDTH, ROWS = 1024, 2048
PHRASES = PhraseVocabulary.from_phrases([(4,), (5,), (4, 5)])

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024

def peak(folder, num_shards):
    answers = []
    for index in range(num_shards):
        answers.append(Answer(id=str(index), prompt=(1,), response=(4, 5, 6, 4) * (ROWS // 4)))
        rows = torch.full((ROWS, WIDTH), index / 8, dtype=torch.float16)
        write_shard(shard_path(folder, index), answers[-1:], {str(index): rows}, (-1,))
        del rows
    examples = make_examples(read_traces(folder, answers), PHRASES, frozenset())
    settings = TrainingSettings(num_epochs=1, batch_size=512, trunk_width=16, window_rows=3 * ROWS)
    embedding = EmbeddingTable.of(examples.tokens, lambda tokens: torch.zeros(len(tokens), 8))
    trainer = Trainer(examples, embedding, PHRASES, settings)
    return max(anonymous() for _ in trainer.run_epoch(0))

folder = Path(sys.argv[1])
few, many = peak(folder, 3), peak(folder, 12)
print(many - few, (12 - 3) * ROWS * WIDTH * 2)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is told apart on Linux only")
def test_memory_does_not_grow_with_the_number_of_shards(tmp_path):
    returned = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # what is freed is not kept for later
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=returned)
    growth, on_disk = map(int, run.stdout.split())
    assert growth < on_disk / 4  # tokens and labels are kept
