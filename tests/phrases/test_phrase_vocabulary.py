import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from phrasedraft.errors import DataError, HeadFileError, OptionError
from phrasedraft.phrases import PhraseVocabulary

phrases = st.lists(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6).map(tuple), max_size=20)


def table(rows: list[list[int]]) -> np.ndarray:
    return np.array(rows, dtype=np.int32)


@given(phrases)
def test_every_phrase_expands_to_its_tokens_and_repeats_are_dropped(wanted):
    vocabulary = PhraseVocabulary.from_phrases(wanted)
    assert [vocabulary.expand(phrase_id) for phrase_id in range(len(vocabulary))] == list(dict.fromkeys(wanted))
    assert vocabulary.lengths.tolist() == [len(phrase) for phrase in dict.fromkeys(wanted)]
    assert vocabulary.max_tokens == max(map(len, wanted), default=1)


@given(phrases)
def test_a_tensor_gives_the_same_vocabulary_back(wanted):
    vocabulary = PhraseVocabulary.from_phrases(wanted)
    tensor = vocabulary.to_tensor()
    assert tensor.dtype == torch.int32
    assert PhraseVocabulary.from_tensor(tensor) == vocabulary


def test_vocabularies_are_equal_only_where_ids_mean_the_same_phrases():
    one, other = PhraseVocabulary.from_phrases([(1,), (2, 3)]), PhraseVocabulary.from_phrases([(2, 3), (1,)])
    assert one == PhraseVocabulary(table([[1, -1], [2, 3]]))
    assert hash(one) == hash(PhraseVocabulary(table([[1, -1], [2, 3]])))
    assert one != other
    assert one.fingerprint != other.fingerprint


def test_a_vocabulary_cannot_be_changed_and_leaves_the_array_it_came_from_alone():
    rows = table([[1, 2]])
    vocabulary = PhraseVocabulary(rows)
    rows[0, 0] = 9
    assert vocabulary.expand(0) == (1, 2)
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.phrase_tokens[0, 0] = 9


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2], [-1, -1]], "phrase 1"),
        ([[1, -1, 2]], "phrase 0"),
        ([[1, -2]], "phrase 0"),
        ([[1, 2], [3, -1], [1, 2]], "phrase 2 is `(1, 2)`"),
    ],
)
def test_a_table_that_holds_no_phrases_is_refused_by_row(rows, message):
    with pytest.raises(OptionError) as error:
        PhraseVocabulary(table(rows))
    assert message in str(error.value)


@pytest.mark.parametrize("phrase", [(), (1, -1), (-5,), (2**31,)])
def test_a_phrase_without_tokens_or_with_impossible_ones_is_refused(phrase):
    with pytest.raises(OptionError):
        PhraseVocabulary.from_phrases([(1,), phrase])


@given(phrases)
def test_a_file_gives_the_same_vocabulary_back(tmp_path_factory, wanted):
    path = tmp_path_factory.mktemp("vocabulary") / "new folder" / "phrases.safetensors"
    vocabulary = PhraseVocabulary.from_phrases(wanted)
    vocabulary.save(path)
    assert PhraseVocabulary.load(path) == vocabulary
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def saved(path: Path) -> bytes:
    PhraseVocabulary.from_phrases([(1, 2, 3), (4,)]).save(path)
    return path.read_bytes()


def test_a_file_cut_anywhere_is_refused(tmp_path):
    path = tmp_path / "phrases.safetensors"
    whole = saved(path)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(HeadFileError, match=r"phrases\.safetensors"):
            PhraseVocabulary.load(path)


def test_a_file_with_another_token_in_it_is_refused(tmp_path):
    path = tmp_path / "phrases.safetensors"
    whole = saved(path)
    assert whole.count(b"\x03\x00\x00\x00") == 1
    path.write_bytes(whole.replace(b"\x03\x00\x00\x00", b"\x05\x00\x00\x00"))
    with pytest.raises(HeadFileError, match="not those it was saved with"):
        PhraseVocabulary.load(path)


def test_pickles_folders_and_missing_files_are_refused_without_being_run(tmp_path):
    ran = tmp_path / "ran"

    class Harmful:
        def __reduce__(self):
            return (Path.touch, (ran,))

    (tmp_path / "pickle").write_bytes(pickle.dumps(Harmful()))
    (tmp_path / "folder").mkdir()
    for name in ("pickle", "folder", "missing"):
        with pytest.raises(HeadFileError) as error:
            PhraseVocabulary.load(tmp_path / name)
        assert error.value.hint
    assert not ran.exists()


@pytest.mark.parametrize(
    "tensors",
    [
        {"weights": np.zeros((2, 2), np.int32)},
        {"phrase_tokens": np.zeros((2, 2), np.float32)},
        {"phrase_tokens": np.zeros(4, np.int32)},
        {"phrase_tokens": np.full((2, 2), -1, np.int32)},
    ],
)
def test_a_safetensors_file_of_something_else_is_refused(tmp_path, tensors):
    save_file(tensors, tmp_path / "other.safetensors")
    with pytest.raises(HeadFileError):
        PhraseVocabulary.load(tmp_path / "other.safetensors")


@pytest.mark.parametrize("tensor", [torch.zeros(2, 2), torch.zeros(3, dtype=torch.int32), torch.ones(1, 1).long()])
def test_a_tensor_of_something_else_is_refused(tensor):
    with pytest.raises(HeadFileError):
        PhraseVocabulary.from_tensor(tensor)


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "phrases.safetensors"
    before = saved(path)

    def full_disk(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(DataError, match="cannot be written: no space left"):
        PhraseVocabulary.from_phrases([(7, 8)]).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_file_says_where_its_phrases_come_from(tmp_path):
    path = tmp_path / "phrases.safetensors"
    vocabulary = PhraseVocabulary.from_phrases([(1, 2), (3,)])
    vocabulary.save(path, {"target": "tiny", "settings": "{}"})
    assert PhraseVocabulary.load(path) == vocabulary
    assert PhraseVocabulary.provenance(path) == {"target": "tiny", "settings": "{}"}
    vocabulary.save(path)
    assert PhraseVocabulary.provenance(path) == {}
    with pytest.raises(HeadFileError, match="no vocabulary"):
        PhraseVocabulary.provenance(tmp_path / "missing.safetensors")
