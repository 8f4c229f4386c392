import io
import resource
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from kit import target_of
from phrasedraft.errors import DataError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.traces import ANSWERS_PER_SHARD, check_traces, collect_traces, read_traces
from synthetic import SyntheticTarget, answer_of

SPEC = FeatureSpec()
SHARD = "shard-00000.safetensors"


def answers_of_many_lengths(count=ANSWERS_PER_SHARD + 3):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 9, (count, 2), generator=generator).tolist()
    draw = lambda size: torch.randint(3, 60, (size,), generator=generator).tolist()  # noqa: E731
    return [answer_of(draw(n), prompt=draw(p), name=f"answer-{i}") for i, (p, n) in enumerate(lengths)]


@contextmanager
def largest_file(num_bytes):
    """No file may become longer, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def collect(target, answers, folder, *, layers=(-1,)):
    console = Console(file=io.StringIO(), width=300)
    collect_traces(target, answers, FeatureSpec(layers=layers), folder, console=console)
    return console.file.getvalue()


def test_traces_hold_the_row_that_produced_each_token_whatever_the_batch(tmp_path):
    target, answers = SyntheticTarget(), answers_of_many_lengths()
    collect(target, answers, tmp_path)
    traces = read_traces(tmp_path, answers)
    assert len(list(tmp_path.glob("shard-*.safetensors"))) == 2
    for answer, trace in zip(answers, traces, strict=True):
        assert trace.answer == answer
        torch.testing.assert_close(trace.hidden, target.trace(answer).hidden)


def test_a_killed_collection_goes_on_where_it_stopped(tmp_path):
    answers = answers_of_many_lengths()
    collect(SyntheticTarget(), answers, tmp_path)
    whole = load_file(tmp_path / "shard-00001.safetensors")["hidden"].clone()
    (tmp_path / "shard-00001.safetensors").unlink()
    (tmp_path / "shard-00001.tmp").write_bytes(b"half")
    first = (tmp_path / SHARD).stat().st_mtime_ns
    target = SyntheticTarget()
    collect(target, answers, tmp_path)
    assert target.num_passes == 3  # the shard that is there is checked, the speed measured, three answers read
    assert (tmp_path / SHARD).stat().st_mtime_ns == first
    assert torch.equal(load_file(tmp_path / "shard-00001.safetensors")["hidden"], whole)
    assert not list(tmp_path.glob("*.tmp"))
    assert "2 shards" in collect(target, answers, tmp_path)
    assert target.num_passes == 3


def test_size_and_time_are_announced_before_the_first_row(tmp_path):
    output = collect(SyntheticTarget(), answers_of_many_lengths(4), tmp_path)
    assert "rows of 16 in fp16 make 0 MB" in output
    assert "take about 1 s at" in output
    assert "0 of 1 shards are there" in output


def test_a_disk_that_is_too_small_is_found_out_before_anything_is_written(tmp_path):
    class Wide(SyntheticTarget):
        def hidden_rows(self, input_ids, attention_mask, features):
            self.num_passes += 1
            return torch.zeros(1).expand(*input_ids.shape, 10**15)  # which takes no memory

    target = Wide()
    with pytest.raises(DataError, match=r"the traces need [\d,]+ GB, the disk of .* has [\d,]+ [GM]B free"):
        collect(target, answers_of_many_lengths(4), tmp_path)
    assert target.num_passes == 1
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_leaves_nothing_half_written(tmp_path):
    answers = answers_of_many_lengths()
    collect(SyntheticTarget(), answers[:ANSWERS_PER_SHARD], tmp_path)
    before = (tmp_path / SHARD).read_bytes()
    with largest_file(2000), pytest.raises(DataError, match="cannot be written") as caught:
        collect(SyntheticTarget(), [*answers, answer_of([5] * 200, name="long")], tmp_path)
    assert "whole shards are kept" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == [SHARD]
    assert (tmp_path / SHARD).read_bytes() == before


def test_a_corpus_that_grew_is_traced_as_if_it_had_been_whole_from_the_start(tmp_path):
    answers = answers_of_many_lengths()
    collect(SyntheticTarget(), answers[:40], tmp_path / "grown")
    collect(SyntheticTarget(), answers, tmp_path / "grown")
    collect(SyntheticTarget(), answers, tmp_path / "whole")
    for path in (tmp_path / "whole").iterdir():
        assert torch.equal(load_file(path)["hidden"], load_file(tmp_path / "grown" / path.name)["hidden"])


def test_fewer_answers_than_a_shard_holds_are_read_from_it(tmp_path):
    answers = answers_of_many_lengths(6)
    collect(SyntheticTarget(), answers, tmp_path)
    target = SyntheticTarget()
    collect(target, answers[2:4], tmp_path)
    assert target.num_passes == 0
    assert [trace.answer.id for trace in read_traces(tmp_path, answers[2:4])] == ["answer-2", "answer-3"]


def test_shards_of_other_answers_are_refused_and_kept(tmp_path):
    answers = answers_of_many_lengths(4)
    collect(SyntheticTarget(), answers, tmp_path)
    before = (tmp_path / SHARD).read_bytes()
    other = [answer_of([*answer.response, 7], name=answer.id) for answer in answers]
    with pytest.raises(DataError, match="is of another answer"):
        read_traces(tmp_path, other)
    with pytest.raises(DataError, match="holds traces of other answers than the corpus") as caught:
        collect(SyntheticTarget(), other, tmp_path)
    assert "--work" in caught.value.hint
    assert (tmp_path / SHARD).read_bytes() == before


def test_some_of_the_recorded_layers_are_read_without_collecting_again(tmp_path):
    target, answers = target_of("llama"), answers_of_many_lengths(5)
    collect(target, answers, tmp_path, layers=(0, 1, 2, -1))
    for layers in [(0, 1, 2, -1), (1, 2), (-1,), (2, 0), (0, -1), (1, 1)]:
        assert "used again" in collect(target, answers, tmp_path, layers=layers)
        for trace in read_traces(tmp_path, answers, layers):
            text = torch.tensor([[*trace.answer.prompt, *trace.answer.response]])
            rows = target.hidden_rows(text, torch.ones_like(text), FeatureSpec(layers=layers))[0]
            first = len(trace.answer.prompt) - 1
            torch.testing.assert_close(
                trace.hidden.float(), rows[first : first + len(trace.tokens)], atol=2e-3, rtol=2e-3
            )


def test_layers_that_were_not_recorded_are_refused_and_nothing_is_lost(tmp_path):
    target, answers = target_of("llama"), answers_of_many_lengths(5)
    collect(target, answers, tmp_path, layers=(1, -1))
    before = (tmp_path / SHARD).read_bytes()
    for act in (
        lambda: collect(target, answers, tmp_path, layers=(0, -1)),
        lambda: read_traces(tmp_path, answers, (0, -1)),
    ):
        with pytest.raises(DataError, match=r"of layers \[1, -1\], this run reads \[0, -1\]"):
            act()
    assert (tmp_path / SHARD).read_bytes() == before


def test_shards_from_before_layers_were_recorded_are_taken_as_they_are(tmp_path):
    target, answers = SyntheticTarget(), answers_of_many_lengths(5)
    collect(target, answers, tmp_path)
    ids = '["answer-0", "answer-1", "answer-2", "answer-3", "answer-4"]'
    save_file(load_file(tmp_path / SHARD), tmp_path / "old", metadata={"ids": ids})
    shutil.move(tmp_path / "old", tmp_path / SHARD)
    assert "used again" in collect(target, answers, tmp_path)
    check_traces(target, read_traces(tmp_path, answers), SPEC)
    with pytest.raises(DataError, match="rows of 16, this target and these layers give 32"):
        check_traces(target_of("llama"), read_traces(tmp_path, answers), SPEC)


def test_traces_of_another_target_are_found_out(tmp_path):
    answers = answers_of_many_lengths(4)
    collect(SyntheticTarget(), answers, tmp_path)
    traces = read_traces(tmp_path, answers)
    check_traces(SyntheticTarget(), traces, SPEC)
    with pytest.raises(DataError, match="another target"):
        check_traces(SyntheticTarget(seed=1), traces, SPEC)


def test_a_collection_is_not_taken_up_with_another_target(tmp_path):
    answers = answers_of_many_lengths()
    collect(SyntheticTarget(), answers, tmp_path)
    (tmp_path / "shard-00001.safetensors").unlink()
    with pytest.raises(DataError, match="another target"):
        collect(SyntheticTarget(seed=1), answers, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [SHARD]


def test_rows_shifted_by_one_are_found_out(tmp_path):
    answers = [answer_of(range(5, 40))]
    target = SyntheticTarget()
    trace = target.trace(answers[0])
    source = replace(trace.source, blocks=(trace.hidden.roll(1, dims=0),))
    with pytest.raises(DataError, match="another target"):
        check_traces(target, [replace(trace, source=source)], SPEC)


def test_a_missing_trace_and_a_cut_shard_are_named(tmp_path):
    answers = answers_of_many_lengths(4)
    collect(SyntheticTarget(), answers[:3], tmp_path)
    with pytest.raises(DataError, match="no trace of `answer-3`"):
        read_traces(tmp_path, answers)
    shard = tmp_path / SHARD
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a whole trace shard"):
        read_traces(tmp_path, answers)
    collect(SyntheticTarget(), answers, tmp_path)
    assert len(read_traces(tmp_path, answers)) == 4


def test_a_file_that_is_no_trace_is_named_and_kept(tmp_path):
    save_file({"hidden": torch.zeros(2, 2)}, tmp_path / SHARD)
    with pytest.raises(DataError, match="not a whole trace shard"):
        collect(SyntheticTarget(), answers_of_many_lengths(4), tmp_path)
    assert (tmp_path / SHARD).exists()


def test_hidden_states_too_large_for_fp16_are_refused(tmp_path):
    target = SyntheticTarget()
    target.table = target.table * 1e5
    with pytest.raises(DataError, match="do not fit fp16"):
        collect(target, answers_of_many_lengths(2), tmp_path)
