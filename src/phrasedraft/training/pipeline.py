"""The whole of `phrasedraft fit`: prompts, answers, then everything that makes a head of them."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from phrasedraft.corpus.answers import corpus_name
from phrasedraft.corpus.distill import distill
from phrasedraft.corpus.endpoint import EndpointSettings, distill_through
from phrasedraft.corpus.prompts import PromptFile, read_prompts
from phrasedraft.corpus.self_prompts import SelfPromptSettings, make_prompts
from phrasedraft.errors import DataError
from phrasedraft.target.model import TransformersTarget
from phrasedraft.training.fit import FitResult, fit
from phrasedraft.training.recipe import RECIPE, Recipe, write_recipe
from phrasedraft.training.stages import Stages

STAGES = "stages.json"


def run_recipe(target: TransformersTarget, recipe: Recipe, *, command: str, console: Console) -> FitResult:
    """Make the head a recipe describes; the resolved recipe and what each stage took lie beside it.

    A run that was killed goes on where it was, given the same recipe and `work` folder.
    """
    recipe.check()
    stages = Stages()
    with stages("corpus"):
        paths = [*map(Path, recipe.corpora), *answer_prompts(target, recipe, console)]
    output = Path(recipe.output)
    result = fit(
        target,
        paths,
        output,
        recipe.settings,
        work=recipe.work_folder,
        command=command,
        stages=stages,
        console=console,
    )
    write_recipe(output / RECIPE, recipe)
    stages.save(output / STAGES)
    return result


def answer_prompts(target: TransformersTarget, recipe: Recipe, console: Console) -> list[Path]:
    """The answers to all prompts of a recipe, in its work folder; those that are there are not made again."""
    folder = recipe.work_folder / "corpus"
    files = [read_prompts(Path(path)) for path in recipe.prompts]
    if recipe.num_self_prompts:
        settings = SelfPromptSettings(template=recipe.settings.distill.template, seed=recipe.settings.distill.seed)
        path = recipe.work_folder / "prompts" / "self.jsonl"
        files.append(make_prompts(target, recipe.num_self_prompts, settings, path, console=console))
    _refuse_namesakes([*(file.name for file in files), *map(corpus_name, map(Path, recipe.corpora))])
    _refuse_same_ids(files)
    paths = []
    for file in files:
        path = folder / f"{file.name}.jsonl"
        if recipe.endpoint:
            server = EndpointSettings(url=recipe.endpoint, model=recipe.endpoint_model or recipe.target)
            distill_through(target, file, recipe.settings.distill, server, path, console=console)
        else:
            distill(target, file, recipe.settings.distill, path, console=console)
        paths.append(path)
    return paths


def _refuse_namesakes(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"two files of prompts or answers are called `{name}`, and what is made of them would lie in one place",
                hint="rename one of them",
            )


def _refuse_same_ids(files: Sequence[PromptFile]) -> None:
    """Before anything is answered: answers are known by the id of their prompt, over all files."""
    seen: dict[str, str] = {}
    for file in files:
        for name in (each for prompt in file.prompts for each in prompt.answer_ids):
            if name in seen:
                raise DataError(
                    f"`{seen[name]}` and `{file.name}` both have a prompt with the id `{name}`",
                    hint="give each prompt its own id, or leave `id` out",
                )
            seen[name] = file.name
