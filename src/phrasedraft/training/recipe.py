"""A recipe: everything a run of `phrasedraft fit` is made of, as one TOML file with settings that can be overridden."""

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from phrasedraft.errors import DataError, OptionError
from phrasedraft.training.fit_settings import FitSettings
from phrasedraft.training.settings import with_overrides, with_value
from phrasedraft.whole_file import check_writable, replace_file

RECIPE = "recipe.toml"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a head is made from and how.

    `prompts` are files the target answers, `corpora` files of answers it gave before, `num_self_prompts` how many
    prompts it makes itself. An OpenAI-compatible server at `endpoint` answers in its place where one is named. `work`
    keeps what can be used again: answers, traces, checkpoints.
    """

    target: str = ""
    prompts: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ()
    num_self_prompts: int = 0
    endpoint: str = ""
    endpoint_model: str = ""
    output: str = ""
    work: str = ""
    dtype: str = "auto"
    device: str = "auto"
    settings: FitSettings = field(default_factory=FitSettings)

    @property
    def work_folder(self) -> Path:
        """Where answers, traces and checkpoints are kept: `OUTPUT.work` unless the recipe names a folder."""
        return Path(self.work or f"{self.output.rstrip('/')}.work")

    def check(self) -> None:
        """Refuse a recipe without a target, without anything to learn from, or without a place for the head."""
        if not self.target:
            raise OptionError(
                "the recipe names no target", hint="`phrasedraft fit smollm2-135m ...`, or `target = ...`"
            )
        if not self.prompts and not self.corpora and not self.num_self_prompts:
            raise OptionError(
                "the recipe names no prompts and no answers",
                hint="give `--prompts FILE`, `--corpus FILE`, or `--self-prompts 500` to let the target make them",
            )
        if not self.output:
            raise OptionError("the recipe names no folder for the head", hint="`-o my-head`, or `output = ...`")
        for place in (Path(self.output), self.work_folder):
            if place.exists() and not place.is_dir():
                raise OptionError(f"`{place}` is a file, it must be a folder", hint="give another `--output`")
            check_writable(place, "folder")
        if self.endpoint_model and not self.endpoint:
            raise OptionError(
                f"`{self.endpoint_model}` is the name a server knows the target by, and no server is named",
                hint="give `--endpoint URL` too",
            )


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file, with `overrides` (`section.field=value`) applied.

    Keys outside sections are the recipe's own (`target`, `prompts`, ...); sections are those of the settings
    (`[head]`, `[distill]`, `[vocabulary]`, `[traces]`, `[training]`, `[replay]`). `DataError` for a file that is not
    TOML, `OptionError` for what it may not hold.
    """
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise DataError(f"recipe `{path}` cannot be read: {error.strerror}", hint="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(
            f"recipe `{path}` is not TOML: {error}", hint='a line is `name = value`, texts in `"`'
        ) from error
    recipe = Recipe()
    for name, value in _leaves(table):
        recipe = set_in_recipe(recipe, name, value)
    return override(recipe, overrides)


def override(recipe: Recipe, overrides: Sequence[str]) -> Recipe:
    """The recipe with each `section.field=value` applied to its settings."""
    return replace(recipe, settings=with_overrides(recipe.settings, overrides))


def set_in_recipe(recipe: Recipe, name: str, value: Any) -> Recipe:  # what TOML holds
    """The recipe with one value set by its dotted name."""
    if "." not in name and name != "settings":
        return with_value(recipe, name, value)
    return replace(recipe, settings=with_value(recipe.settings, name, value))


def write_recipe(path: Path, recipe: Recipe) -> None:
    """Write all that was decided, defaults included; `read_recipe` gives the same recipe."""
    table = asdict(recipe)
    table.update(table.pop("settings"))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, tomli_w.dumps(table).encode())


def _leaves(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a nested table with its dotted name."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def is_override(text: str, settings: FitSettings) -> bool:
    """Whether `text` is `section.field=value` of these settings, and not the name of a folder."""
    name, equals, _ = text.partition("=")
    section = name.partition(".")[0].strip()
    return bool(equals) and "." in name and is_dataclass(getattr(settings, section, None))
