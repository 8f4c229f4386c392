"""What `fit` refuses before it works for hours, and what it says of its data."""

from pathlib import Path

import pytest

import fitted
from answering import ending_target, quiet, write_jsonl
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.prompts import load_prompts
from phrasedraft.phrases import PhraseVocabulary
from phrasedraft.training.fit_settings import FitSettings
from phrasedraft.training.guards import check_phrases
from phrasedraft.training.kinds import kind_of
from phrasedraft.training.losses import LossSettings
from phrasedraft.training.overlap import overlap
from phrasedraft.training.phrase_chain_learner import PhraseChainLearner
from phrasedraft.training.pipeline import answer_prompts
from phrasedraft.training.recipe import Recipe
from phrasedraft.training.settings import with_overrides
from phrasedraft.whole_file import check_writable, make_folder, replace_file


def prompts_at(path: Path, *names: str) -> str:
    return str(write_jsonl(path, [{"id": name, "turns": ["hello"]} for name in names]))


def test_ids_and_names_that_clash_are_refused_before_anything_is_answered(tmp_path):
    one, two = prompts_at(tmp_path / "one.jsonl", "a", "b"), prompts_at(tmp_path / "two.jsonl", "c", "b")
    recipe = Recipe(target="t", prompts=(one, two), output=str(tmp_path / "head"))
    with pytest.raises(DataError, match="`one` and `two` both have a prompt with the id `b`"):
        answer_prompts(ending_target(), recipe, quiet())
    same = prompts_at(tmp_path / "other" / "one.jsonl", "z")
    for recipe in (
        Recipe(target="t", prompts=(one, same), output=str(tmp_path / "head")),
        Recipe(target="t", prompts=(one,), corpora=(same,), output=str(tmp_path / "head")),
    ):
        with pytest.raises(DataError, match="are called `one`"):
            answer_prompts(ending_target(), recipe, quiet())
    assert not (tmp_path / "head.work").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"endpoint_model": "served"}, "no server is named"),
        ({"output": "file/head"}, "file` is a file"),
        ({"work": "file/work"}, "file` is a file"),
    ],
)
def test_a_recipe_that_cannot_be_carried_out_is_refused(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    recipe = Recipe(**{"target": "t", "prompts": ("p.jsonl",), "output": "head", **changes})
    with pytest.raises(OptionError, match=message):
        recipe.check()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "override",
    ["training.weight_decay=-1.0", "training.input_noise=-0.1", "replay.num_draft_tokens=[0]", "head.rows=lent"],
)
def test_settings_that_would_fail_in_the_end_are_refused_at_once(override):
    with pytest.raises(OptionError):
        with_overrides(FitSettings(), [override])


def test_settings_of_mining_that_a_token_chain_ignores_are_named():
    settings = with_overrides(FitSettings(), ["head.kind=token-chain", "vocabulary.num_phrases=50"])
    kind_of(settings)
    with pytest.warns(UserWarning, match="`vocabulary.max_words` has no effect on a token chain"):
        kind_of(with_overrides(settings, ["vocabulary.max_words=2"]))


def test_phrases_of_another_target_are_refused():
    identity = ending_target().identity
    check_phrases(PhraseVocabulary.from_phrases([(identity.vocab_size - 1,)]), identity)
    with pytest.raises(DataError, match=f"the phrases hold token `{identity.vocab_size}`"):
        check_phrases(PhraseVocabulary.from_phrases([(3,), (identity.vocab_size,)]), identity)


def test_a_phrase_chain_learns_no_entries_whose_beginnings_are_missing():
    with pytest.raises(OptionError, match="every beginning of an entry"):
        PhraseChainLearner(PhraseVocabulary.from_phrases([(3,), (4, 5)]), LossSettings(), 2, 2)


def test_prompts_that_hold_an_evaluation_prompt_are_counted_and_the_card_says_so(tmp_path):
    target = fitted.target()
    message = load_prompts("gsm8k_test")[0].opening[0].content
    shared = target.tokenizer.encode(f"Please solve this: {message[:80]}", add_special_tokens=False)
    assert overlap(target.tokenizer, [shared, [5, 6, 7] * 9]) == {
        "gsm8k_test": 1,
        "math500": 0,
        "mt_bench": 0,
        "humaneval": 0,
    }
    path = fitted.corpus(tmp_path, [*fitted.questions(), message[:60]])
    result = fitted.fitted(path, tmp_path)
    assert result.head.config.provenance["overlap"]["gsm8k_test"] == 1
    assert (
        "with a bundled evaluation prompt: 1 with one of `gsm8k_test`" in (tmp_path / "head" / "README.md").read_text()
    )


def test_files_and_folders_that_cannot_be_written_are_clear_errors(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        replace_file(tmp_path / "missing" / "x", b"")
    for refuse in (make_folder, check_writable):
        with pytest.raises(OptionError, match="cannot be written"):
            refuse(tmp_path / "file" / "folder")
    make_folder(tmp_path / "a" / "b")
    check_writable(tmp_path / "a" / "b" / "c" / "d")
    assert not (tmp_path / "a" / "b" / "c").exists()
