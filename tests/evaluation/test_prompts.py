from importlib import resources
from pathlib import Path

import pytest

from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.prompts import BUNDLED, load_prompts, quick_prompts


@pytest.fixture
def prompts(tmp_path: Path):
    def write(*lines: str) -> str:
        path = tmp_path / "prompts.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize(
    ("name", "num_prompts", "num_answers", "says"),
    [
        ("gsm8k_test", 48, 1, "ducks"),
        ("math500", 40, 1, "polar coordinates"),
        ("mt_bench", 40, 2, "Hawaii"),
        ("humaneval", 40, 1, "has_close_elements"),
    ],
)
def test_the_bundled_sets_keep_all_turns_and_have_names_of_their_own(name, num_prompts, num_answers, says):
    found = load_prompts(name)
    assert len(found) == len({prompt.id for prompt in found}) == num_prompts
    assert {prompt.num_answers for prompt in found} == {num_answers}
    assert says in found[0].opening[0].content


@pytest.mark.parametrize("name", BUNDLED)
def test_the_prompts_of_a_quick_run_are_two_of_each_set(name):
    chosen = quick_prompts(name)
    assert len(chosen) == len({prompt.id for prompt in chosen}) == 2
    assert set(chosen) <= set(load_prompts(name))


def test_every_bundled_set_is_named_with_its_licence():
    page = resources.files("phrasedraft.evaluation").joinpath("data", "README.md").read_text(encoding="utf-8")
    for name in BUNDLED:
        (line,) = [line for line in page.splitlines() if f"`{name}.jsonl`" in line]
        assert "MIT" in line or "Apache-2.0" in line


def test_the_limit_takes_the_first_ones():
    assert load_prompts("gsm8k_test", 3) == load_prompts("gsm8k_test")[:3]
    with pytest.raises(OptionError, match="`0`, it may be 1 or more"):
        load_prompts("gsm8k_test", 0)


def test_own_files_may_leave_out_ids_and_have_empty_lines_and_any_shape_of_prompts(prompts):
    found = load_prompts(
        prompts('\ufeff{"turns": ["one", "two"]}', "", '{"id": 7, "prompt": "three"}', '{"text": "four"}')
    )
    assert [prompt.id for prompt in found] == ["prompts:1", "7", "prompts:4"]
    assert found[0].follow_ups == ("two",)
    assert (found[1].opening[0].content, found[2].text) == ("three", "four")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[1]", "not an object"),
        ('{"id": "x"}', "has none of `turns`"),
        ('{"turns": []}', "`turns` is `[]`"),
        ('{"turns": [" "]}', "a turn is `' '`"),
        ('{"id": "first", "turns": ["again"]}', "has the id `first`, which line 1 has too"),
    ],
)
def test_a_wrong_line_is_named_with_its_number_and_the_reason(prompts, line, reason):
    with pytest.raises(DataError) as caught:
        load_prompts(prompts('{"id": "first", "turns": ["hello"]}', line))
    assert "line 2" in str(caught.value)
    assert reason in str(caught.value)
    assert caught.value.hint


def test_bytes_that_are_no_text_are_an_error(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"turns": ["\xff"]}')
    with pytest.raises(DataError, match="line 1 is not JSON"):
        load_prompts(str(tmp_path / "x.jsonl"))


def test_a_missing_or_empty_file_is_an_error(tmp_path, prompts):
    with pytest.raises(DataError, match=r"none.jsonl` cannot be read: there is no such file") as caught:
        load_prompts(str(tmp_path / "none.jsonl"))
    assert all(f"`{name}`" in caught.value.hint for name in BUNDLED)
    with pytest.raises(DataError, match="there are no prompts"):
        load_prompts(prompts(""))
