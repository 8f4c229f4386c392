from pathlib import Path

import pytest

from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.prompts import load_prompts


@pytest.fixture
def prompts(tmp_path: Path):
    def write(*lines: str) -> str:
        path = tmp_path / "prompts.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    return write


def test_the_bundled_set_has_48_questions_with_names_of_their_own():
    found = load_prompts("gsm8k_test")
    assert len(found) == len({prompt.id for prompt in found}) == 48
    assert all(len(prompt.turns) == 1 for prompt in found)
    assert "ducks" in found[0].turns[0]


def test_the_limit_takes_the_first_ones():
    assert load_prompts("gsm8k_test", 3) == load_prompts("gsm8k_test")[:3]
    with pytest.raises(OptionError, match="`0`, it may be 1 or more"):
        load_prompts("gsm8k_test", 0)


def test_own_files_may_leave_out_ids_and_have_empty_lines(prompts):
    found = load_prompts(prompts('\ufeff{"turns": ["one", "two"]}', "", '{"id": 7, "turns": ["three"]}'))
    assert [(prompt.id, prompt.turns) for prompt in found] == [("line-1", ("one", "two")), ("7", ("three",))]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[1]", "has no list `turns`"),
        ('{"id": "x"}', "has no list `turns`"),
        ('{"turns": []}', "has no list `turns`"),
        ('{"turns": "hello"}', "has no list `turns`"),
        ('{"turns": [3]}', "has the turn `3`"),
        ('{"turns": [" "]}', "has the turn `' '`"),
        ('{"id": "first", "turns": ["again"]}', "has the id `first`, line 1 has it too"),
    ],
)
def test_a_wrong_line_is_named_with_its_number_and_the_reason(prompts, line, reason):
    with pytest.raises(DataError) as caught:
        load_prompts(prompts('{"id": "first", "turns": ["hello"]}', line))
    assert "line 2 of prompt file" in str(caught.value)
    assert reason in str(caught.value)
    assert caught.value.hint


def test_bytes_that_are_no_text_are_an_error(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"turns": ["\xff"]}')
    with pytest.raises(DataError, match="line 1 of prompt file"):
        load_prompts(str(tmp_path / "x.jsonl"))


def test_a_missing_or_empty_file_is_an_error(tmp_path, prompts):
    with pytest.raises(DataError, match="cannot be read: No such file") as caught:
        load_prompts(str(tmp_path / "none.jsonl"))
    assert "gsm8k_test" in caught.value.hint
    with pytest.raises(DataError, match="holds no prompts"):
        load_prompts(prompts(""))
