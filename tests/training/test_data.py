import gzip
import io
import json

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from phrasedraft.errors import DataError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.corpus import is_held_out, read_corpora
from phrasedraft.training.examples import make_examples
from phrasedraft.training.traces import ANSWERS_PER_SHARD, check_traces, collect_traces, read_traces
from synthetic import EOS, SyntheticTarget, answer_of, write_corpus

GOOD = {"id": "a", "prompt": [1, 3], "response": [5, 6]}
SPEC = FeatureSpec()


def answers_of_many_lengths(count=ANSWERS_PER_SHARD + 3):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 9, (count, 2), generator=generator).tolist()
    draw = lambda size: torch.randint(3, 60, (size,), generator=generator).tolist()  # noqa: E731
    return [answer_of(draw(n), prompt=draw(p), name=f"answer-{i}") for i, (p, n) in enumerate(lengths)]


def quiet():
    return Console(file=io.StringIO())


def test_a_corpus_is_read_plain_or_packed_and_known_by_its_bytes(tmp_path):
    answers = answers_of_many_lengths(5)
    plain = write_corpus(tmp_path / "plain.jsonl", answers)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes().replace(b"answer", b"other")))
    first, second = read_corpora([plain, packed])
    assert (first.name, second.name) == ("plain", "packed")
    assert first.answers == tuple(answers)
    assert [answer.response for answer in second.answers] == [answer.response for answer in answers]
    assert first.sha256 != second.sha256
    assert first.max_new_tokens == max(len(answer.response) for answer in answers)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "line 2 is not JSON"),
        ("[1, 2]", "line 2: is a list, not an object"),
        (json.dumps(GOOD | {"response": []}), "line 2: answer `a` is empty"),
        (json.dumps(GOOD | {"prompt": []}), "line 2: the prompt of `a` is empty"),
        (json.dumps(GOOD | {"response": [5, -1]}), "line 2: `response` is missing or not a list of token ids"),
        (json.dumps(GOOD | {"response": [5, True]}), "line 2: `response` is missing or not a list of token ids"),
        (json.dumps(GOOD | {"response": "text"}), "line 2: `response` is missing"),
        (json.dumps({"prompt": [1], "response": [2]}), "line 2: `id` is missing"),
        (json.dumps(GOOD | {"id": "first"}), "answer `first` occurs twice"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_with_its_number_and_reason(tmp_path, line, reason):
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps(GOOD | {"id": "first"}) + "\n" + line + "\n")
    with pytest.raises(DataError, match=reason):
        read_corpora([path])


def test_a_corpus_cut_short_or_missing_or_empty_is_refused(tmp_path):
    whole = gzip.compress(json.dumps(GOOD).encode() * 50)
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.jsonl").write_text("\n\n")
    for name, reason in [("cut.jsonl.gz", "damaged"), ("empty.jsonl", "no answers"), ("none.jsonl", "cannot be read")]:
        with pytest.raises(DataError, match=reason):
            read_corpora([tmp_path / name])


def test_an_answer_stays_on_its_side_of_the_split_whatever_else_is_in_the_corpus():
    answers = answers_of_many_lengths(2000)
    held_out = [answer for answer in answers if is_held_out(answer, 0.05, 0)]
    assert 60 < len(held_out) < 140
    assert {a.id for a in held_out} != {a.id for a in answers if is_held_out(a, 0.05, 1)}
    assert {a.id for a in held_out} <= {a.id for a in answers if is_held_out(a, 0.10, 0)}


def test_traces_hold_the_row_that_produced_each_token_whatever_the_batch(tmp_path):
    target, answers = SyntheticTarget(), answers_of_many_lengths()
    collect_traces(target, answers, SPEC, tmp_path, console=quiet())
    traces = read_traces(tmp_path, answers)
    assert len(list(tmp_path.glob("shard-*.safetensors"))) == 2
    for answer, trace in zip(answers, traces, strict=True):
        assert trace.answer == answer
        torch.testing.assert_close(trace.hidden, target.trace(answer).hidden)


def test_a_killed_collection_goes_on_where_it_stopped(tmp_path):
    answers = answers_of_many_lengths()
    collect_traces(SyntheticTarget(), answers, SPEC, tmp_path, console=quiet())
    whole = load_file(tmp_path / "shard-00001.safetensors")
    (tmp_path / "shard-00001.safetensors").unlink()
    (tmp_path / "shard-00001.tmp").write_bytes(b"half")
    first = (tmp_path / "shard-00000.safetensors").stat().st_mtime_ns
    target = SyntheticTarget()
    collect_traces(target, answers, SPEC, tmp_path, console=quiet())
    assert target.num_passes == 1 + 1  # the width, then the three answers of the missing shard
    assert (tmp_path / "shard-00000.safetensors").stat().st_mtime_ns == first
    assert torch.equal(load_file(tmp_path / "shard-00001.safetensors")["hidden"], whole["hidden"])
    console = quiet()
    collect_traces(target, answers, SPEC, tmp_path, console=console)
    assert target.num_passes == 2
    assert "2 shards" in console.file.getvalue()


def test_the_size_on_disk_is_announced_before_the_first_row(tmp_path):
    console = quiet()
    collect_traces(SyntheticTarget(), answers_of_many_lengths(4), SPEC, tmp_path, console=console)
    assert "rows of 16 in fp16" in console.file.getvalue()


def test_shards_of_other_answers_are_written_anew(tmp_path):
    answers = answers_of_many_lengths(4)
    collect_traces(SyntheticTarget(), answers, SPEC, tmp_path, console=quiet())
    other = [answer_of([*answer.response, 7], name=answer.id) for answer in answers]
    with pytest.raises(DataError, match="is of another answer"):
        read_traces(tmp_path, other)
    collect_traces(SyntheticTarget(), other, SPEC, tmp_path, console=quiet())
    assert [len(trace.hidden) for trace in read_traces(tmp_path, other)] == [len(a.response) for a in other]


def test_traces_of_another_target_are_found_out(tmp_path):
    answers = answers_of_many_lengths(4)
    collect_traces(SyntheticTarget(), answers, SPEC, tmp_path, console=quiet())
    traces = read_traces(tmp_path, answers)
    check_traces(SyntheticTarget(), traces, SPEC)
    with pytest.raises(DataError, match="another target"):
        check_traces(SyntheticTarget(seed=1), traces, SPEC)


def test_a_missing_trace_and_a_cut_shard_are_named(tmp_path):
    answers = answers_of_many_lengths(4)
    collect_traces(SyntheticTarget(), answers[:3], SPEC, tmp_path, console=quiet())
    with pytest.raises(DataError, match="no trace of `answer-3`"):
        read_traces(tmp_path, answers)
    shard = tmp_path / "shard-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a whole trace shard"):
        read_traces(tmp_path, answers)


def test_hidden_states_too_large_for_fp16_are_refused(tmp_path):
    target = SyntheticTarget()
    target.table = target.table * 1e5
    with pytest.raises(DataError, match="do not fit fp16"):
        collect_traces(target, answers_of_many_lengths(2), SPEC, tmp_path, console=quiet())


def test_a_label_is_the_longest_phrase_after_the_token_its_row_produced():
    vocabulary = PhraseVocabulary.from_phrases([(5,), (6, 7), (6,), (7, 5)])
    target = SyntheticTarget()
    first, second = answer_of([4, 6, 7, 5], name="a"), answer_of([9, 6], name="b")
    examples = make_examples([target.trace(first), target.trace(second)], vocabulary, frozenset({EOS}))
    assert examples.tokens.tolist() == [4, 6, 7, 9]
    assert examples.longest.tolist() == [1, 3, 0, 2]
    assert examples.open_ended.tolist() == [False, True, True, True]
    assert torch.equal(examples.hidden[3], target.trace(second).hidden[0])


def test_an_answer_that_ended_by_itself_is_not_open_ended():
    vocabulary = PhraseVocabulary.from_phrases([(5,), (5, EOS), (EOS,)])
    trace = SyntheticTarget().trace(answer_of([4, 5, EOS]))
    examples = make_examples([trace], vocabulary, frozenset({EOS}))
    assert examples.longest.tolist() == [1, 2]
    assert examples.open_ended.tolist() == [False, False]


def test_answers_of_one_token_teach_nothing():
    with pytest.raises(DataError, match="no two tokens"):
        make_examples([SyntheticTarget().trace(answer_of([4]))], PhraseVocabulary.from_phrases([(4,)]), frozenset())
