import gzip
import io
import json

import pytest
import torch
from rich.console import Console

from phrasedraft.corpus.answers import is_held_out, read_corpora
from phrasedraft.errors import DataError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.data import trace_corpora
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import make_examples
from synthetic import EOS, SyntheticTarget, answer_of, write_corpus

GOOD = {"id": "a", "prompt": [1, 3], "response": [5, 6]}


def answers_of_many_lengths(count):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 9, (count, 2), generator=generator).tolist()
    draw = lambda size: torch.randint(3, 60, (size,), generator=generator).tolist()  # noqa: E731
    return [answer_of(draw(n), prompt=draw(p), name=f"answer-{i}") for i, (p, n) in enumerate(lengths)]


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


def test_a_label_is_the_longest_phrase_after_the_token_its_row_produced():
    vocabulary = PhraseVocabulary.from_phrases([(5,), (6, 7), (6,), (7, 5)])
    target = SyntheticTarget()
    first, second = answer_of([4, 6, 7, 5], name="a"), answer_of([9, 6], name="b")
    examples = make_examples([target.trace(first), target.trace(second)], vocabulary, frozenset({EOS}))
    assert examples.tokens.tolist() == [4, 6, 7, 9]
    assert examples.longest.tolist() == [1, 3, 0, 2]
    assert examples.open_ended.tolist() == [False, True, True, True]
    assert torch.equal(examples.hidden[3:], target.trace(second).hidden[:1])


def test_an_answer_that_ended_by_itself_is_not_open_ended():
    vocabulary = PhraseVocabulary.from_phrases([(5,), (5, EOS), (EOS,)])
    trace = SyntheticTarget().trace(answer_of([4, 5, EOS]))
    examples = make_examples([trace], vocabulary, frozenset({EOS}))
    assert examples.longest.tolist() == [1, 2]
    assert examples.open_ended.tolist() == [False, False]


def test_answers_of_one_token_teach_nothing():
    with pytest.raises(DataError, match="no two tokens"):
        make_examples([SyntheticTarget().trace(answer_of([4]))], PhraseVocabulary.from_phrases([(4,)]), frozenset())


def test_held_out_answers_to_prompts_that_are_trained_on_are_counted_aloud(tmp_path):
    prompts = {index: [1, 3 + index % 4] for index in range(40)}
    answers = [answer_of([5, 6, 7], name=f"q-{index}", prompt=prompt) for index, prompt in prompts.items()]
    console = Console(file=io.StringIO(), width=200)
    data = trace_corpora(
        SyntheticTarget(),
        [write_corpus(tmp_path / "a.jsonl", answers)],
        FeatureSpec(),
        tmp_path / "traces",
        held_out_share=0.2,
        seed=0,
        console=console,
    )
    count = len(data[0].held_out)
    assert f"{count} of {count} held-out answers are to prompts that are trained on too" in console.file.getvalue()


@pytest.mark.parametrize("line", ["9" * 5000, "[" * 100_000])
def test_json_that_python_cannot_read_is_one_clear_error(tmp_path, line):
    path = tmp_path / "deep.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + line + "\n")
    with pytest.raises(DataError, match="line 2 is"):
        read_corpora([path])


def test_an_embedding_that_is_not_in_the_table_is_an_error():
    table = EmbeddingTable.of(torch.tensor([5, 9]), SyntheticTarget().embed)
    assert torch.equal(table(torch.tensor([9])), SyntheticTarget().embed(torch.tensor([9])))
    with pytest.raises(IndexError, match="token 7 has no row"):
        table(torch.tensor([9, 7, 5]))
