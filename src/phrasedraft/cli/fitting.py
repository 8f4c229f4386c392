"""What `phrasedraft fit` does: options become a recipe, the recipe a head, and what came of it is shown."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from phrasedraft.cli.console import compact_table, data_console, note_console, print_json
from phrasedraft.cli.loading import load_target_quietly
from phrasedraft.cli.options import LoadOptions
from phrasedraft.errors import OptionError
from phrasedraft.training.estimate import estimate
from phrasedraft.training.fit import FitResult, summary
from phrasedraft.training.pipeline import run_recipe
from phrasedraft.training.recipe import Recipe, is_override, override, read_recipe, set_in_recipe


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What the verb was given: a recipe file, fields of a recipe, settings, and what stood behind each `-o`."""

    recipe: Path | None
    given: Mapping[str, Any]
    sections: Mapping[str, Any]
    outputs: tuple[str, ...]
    overrides: tuple[str, ...]

    def resolve(self) -> Recipe:
        """The recipe file, or an empty one, with the options over it."""
        recipe = read_recipe(self.recipe) if self.recipe is not None else Recipe()
        for name, value in {**self.given, **self.sections}.items():
            recipe = set_in_recipe(recipe, name, value)
        settings = [text for text in self.outputs if is_override(text, recipe.settings)]
        folders = [text for text in self.outputs if text not in settings]
        if len(folders) > 1:
            raise OptionError(
                f"`--output` is given {len(folders)} times: {', '.join(f'`{folder}`' for folder in folders)}",
                hint="one head, one folder; a setting is `-o section.field=value`",
            )
        if folders:
            recipe = set_in_recipe(recipe, "output", folders[0])
        recipe = override(recipe, [*settings, *self.overrides])
        recipe.check()
        return recipe


def run_fit(options: FitOptions, *, dry_run: bool, as_json: bool) -> None:
    """Make the head, or say what that would take."""
    recipe = options.resolve()
    target = load_target_quietly(recipe.target, LoadOptions(dtype=recipe.dtype, device=recipe.device))
    if dry_run:
        plan = estimate(target, recipe)
        print_json(plan.as_dict()) if as_json else typer.echo("\n".join(plan.lines()))
        return
    command = shlex.join(["phrasedraft", *sys.argv[1:]])
    result = run_recipe(target, recipe, command=command, console=note_console())
    show_result(recipe.output, result, as_json=as_json)


def show_result(output: str, result: FitResult, *, as_json: bool) -> None:
    """Held-out figures and what each stage took."""
    tables = {
        name: {str(nodes): summary(stats) for nodes, stats in table.items()} for name, table in result.replayed.items()
    }
    if as_json:
        stages = [vars(stage) for stage in result.stages.done]
        print_json({"output": output, "held_out": tables, "stages": stages})
        return
    table = compact_table(["held-out answers", "draft tokens", "tokens per pass", "landing", "banked"])
    for name, lines in tables.items():
        for nodes, line in lines.items():
            figures = (f"{line['tokens_per_pass']:.3f}", f"{line['landing']:.3f}", f"{line['banked']:.2f}")
            table.add_row(name, nodes, *figures)
    data_console().print(table)
    for stage_line in result.stages.lines():
        typer.echo(stage_line)
    typer.echo(f"the head is in {output}")
