"""A recipe is one TOML file: written whole, read back the same, and bad input is one clear error."""

from dataclasses import replace
from pathlib import Path

import pytest

from phrasedraft.corpus.distill import DistillSettings
from phrasedraft.corpus.template import TemplateSettings
from phrasedraft.errors import DataError, OptionError
from phrasedraft.phrases import VocabularySettings
from phrasedraft.training.fit_settings import FitSettings, ReplaySettings, TraceSettings
from phrasedraft.training.losses import LossSettings
from phrasedraft.training.recipe import Recipe, is_override, override, read_recipe, set_in_recipe, write_recipe
from phrasedraft.training.trainer import TrainingSettings

FULL = Recipe(
    target="my/target",
    prompts=("a.jsonl", "b c.jsonl"),
    corpora=("more.jsonl.gz",),
    num_self_prompts=7,
    endpoint="http://localhost:8000/v1",
    endpoint_model="served",
    output="head",
    work="elsewhere",
    dtype="bfloat16",
    device="cpu",
    settings=FitSettings(
        distill=DistillSettings(
            temperature=0.7, top_k=5, template=TemplateSettings(system_prompt='be "brief"\nplease ü', thinking="off")
        ),
        vocabulary=VocabularySettings(num_phrases=123),
        traces=TraceSettings(layers=(3, -1)),
        training=TrainingSettings(num_epochs=2, learning_rate=1e-3, loss=LossSettings(longest=0.25, mass=0.75)),
        replay=ReplaySettings(num_draft_tokens=(4, 8)),
    ),
)


def written(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("recipe", [Recipe(), FULL])
def test_what_is_written_reads_back_the_same(tmp_path, recipe):
    path = tmp_path / "made" / "recipe.toml"
    write_recipe(path, recipe)
    assert read_recipe(path) == recipe
    assert [file.name for file in path.parent.iterdir()] == ["recipe.toml"]


def test_defaults_are_written_too_so_that_a_later_version_makes_the_same_head(tmp_path):
    path = tmp_path / "recipe.toml"
    write_recipe(path, Recipe(target="t"))
    text = path.read_text()
    sections = {"[training]", "[training.loss]", "[distill.template]", "[vocabulary]", "[traces]", "[replay]"}
    assert {'target = "t"', "num_epochs = 6", "top_p = 1.0", *sections} <= set(text.splitlines())


def test_a_file_may_say_as_little_as_it_likes(tmp_path):
    path = written(tmp_path, 'target = "t"\nprompts = ["a.jsonl"]\n[training]\nnum_epochs = 3\nlearning_rate = 1\n')
    recipe = read_recipe(path)
    assert recipe == replace(
        Recipe(target="t", prompts=("a.jsonl",)),
        settings=FitSettings(training=TrainingSettings(num_epochs=3, learning_rate=1.0)),
    )
    assert read_recipe(written(tmp_path, "")) == Recipe()


def test_overrides_win_over_the_file_in_their_order(tmp_path):
    path = written(tmp_path, "[training]\nnum_epochs = 3\n")
    overrides = ["training.num_epochs=4", "distill.template.thinking=on", "traces.layers=[1, -1]", "training.seed=9"]
    settings = read_recipe(path, [*overrides, "training.num_epochs=5"]).settings
    assert settings.training.num_epochs == 5
    assert settings.training.seed == 9
    assert settings.traces.layers == (1, -1)
    assert settings.distill.template.thinking == "on"
    assert override(Recipe(), ["training.num_epochs = 5"]).settings.training.num_epochs == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target = ", "is not TOML"),
        ("a = 1\na = 2", "is not TOML"),
        ("[training]\n[training]", "is not TOML"),
        ("\x00", "is not TOML"),
        ('goal = "x"', "there is no setting `goal`"),
        ("[training]\nepochs = 3", "there is no setting `training.epochs`"),
        ("[settings.training]\nnum_epochs = 3", "there is no setting `settings.training.num_epochs`"),
        ("settings = 3", "there is no setting `settings`"),
        ("training = 3", "there is no setting `training`"),
        ("[training]\nloss = 1", "`training.loss` is a section"),
        ("[training]\nnum_epochs = 3.5", "`training.num_epochs` is `3.5`, it must be a whole number"),
        ("[training]\nnum_epochs = true", "`training.num_epochs` is `true`, it must be a whole number"),
        ('[training]\nnum_epochs = "3"', "`training.num_epochs` is `3`, it must be a whole number"),
        ("[training]\nnum_epochs = 0", "`num_epochs` is 0, it must be 1 or more"),
        ('prompts = "a.jsonl"', "`prompts` is `a.jsonl`, it must be a list"),
        ("prompts = [1, 2]", r"`prompts` is `\[1, 2\]`, it must be a list in which each is a text"),
        ('prompts = [{ path = "a" }]', "it must be a list in which each is a text"),
        ("[traces]\nlayers = [1, true]", "it must be a list in which each is a whole number"),
        ("target = 2024-02-29", "`target` is `2024-02-29`, it must be a text"),
        ('target = ["x"]', "`target` is .* it must be a text"),
        ('[target]\nname = "x"', "there is no setting `target.name`"),
        ('[distill.template]\nthinking = "maybe"', "`thinking` is `maybe`, it may be"),
        ("[distill]\ntop_p = 2.0", "`top_p` is `2.0`"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_error_that_names_what_is_wrong(tmp_path, text, message):
    with pytest.raises((DataError, OptionError), match=message):
        read_recipe(written(tmp_path, text))


def test_a_file_that_is_no_text_or_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"recipe `.*missing.toml` cannot be read: No such file") as caught:
        read_recipe(tmp_path / "missing.toml")
    assert caught.value.hint == "check the path"
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read_recipe(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not TOML"):
        read_recipe(tmp_path / "binary.toml")


@pytest.mark.parametrize("wrong", ["training.num_epochs", "training.epochs=3", "training=3", "target=x"])
def test_an_override_that_cannot_be_is_refused(tmp_path, wrong):
    with pytest.raises(OptionError):
        read_recipe(written(tmp_path, ""), [wrong])


def test_one_value_is_set_by_its_dotted_name():
    recipe = set_in_recipe(Recipe(), "output", "head")
    recipe = set_in_recipe(recipe, "training.loss.mass", 1)
    assert recipe.output == "head"
    assert recipe.settings.training.loss.mass == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training.num_epochs=4", True),
        ("training.epochs=4", True),  # a mistake in a setting, which is refused by its name
        ("distill.template.thinking=off", True),
        (" training.num_epochs = 4", True),
        ("head", False),
        ("out/training.num_epochs", False),
        ("runs/lr=0.1", False),
        ("runs.v2/lr=0.1", False),
        ("training=4", False),
        ("", False),
    ],
)
def test_a_setting_is_told_from_the_name_of_a_folder(text, expected):
    assert is_override(text, FitSettings()) is expected


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(prompts=("a",), output="o"), "names no target"),
        (Recipe(target="t", output="o"), "names no prompts and no answers"),
        (Recipe(target="t", prompts=("a",)), "names no folder for the head"),
    ],
)
def test_what_a_recipe_lacks_is_said_with_how_to_give_it(recipe, message):
    with pytest.raises(OptionError, match=message) as caught:
        recipe.check()
    assert "`" in caught.value.hint


@pytest.mark.parametrize("source", [{"prompts": ("a",)}, {"corpora": ("a",)}, {"num_self_prompts": 3}])
def test_any_source_of_answers_will_do(source):
    Recipe(target="t", output="o", **source).check()


@pytest.mark.parametrize(
    ("recipe", "folder"),
    [
        (Recipe(output="head"), "head.work"),
        (Recipe(output="heads/mine/"), "heads/mine.work"),
        (Recipe(output="head", work="w"), "w"),
    ],
)
def test_what_can_be_used_again_lies_beside_the_head_unless_told_otherwise(recipe, folder):
    assert recipe.work_folder == Path(folder)
