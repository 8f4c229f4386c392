"""Evaluation prompts: the bundled sets, or any file that training prompts may come from."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from phrasedraft.corpus.prompts import TrainingPrompt, read_prompts
from phrasedraft.errors import DataError, OptionError

BUNDLED = ("gsm8k_test", "math500", "mt_bench", "humaneval")
"""The prompt sets that come with the package, by name."""
QUICK = "quick.json"


def load_prompts(source: str, limit: int | None = None) -> tuple[TrainingPrompt, ...]:
    """The first `limit` prompts of a bundled set or of a file; `DataError` names the line that is wrong.

    A file may have every shape that training prompts have; the name of a bundled set means that set, never a file.
    """
    if limit is not None and limit < 1:
        raise OptionError(f"the number of prompts is `{limit}`, it may be 1 or more")
    with prompt_path(source) as path:
        if not path.is_file():
            why = "it is a folder" if path.is_dir() else "there is no such file"
            raise DataError(
                f"prompt file `{source}` cannot be read: {why}",
                hint=f"give a JSONL file, or the name of a bundled set: {', '.join(f'`{name}`' for name in BUNDLED)}",
            )
        return read_prompts(path).prompts[:limit]


def quick_prompts(name: str) -> tuple[TrainingPrompt, ...]:
    """The few prompts of a bundled set that stand for it in a quick run.

    `benchmarks/quick_prompts.py` chose them from the full benchmark: their ratios are close to those of the whole set.
    """
    chosen = json.loads(files("phrasedraft.evaluation").joinpath("data", QUICK).read_text(encoding="utf-8"))
    known = {prompt.id: prompt for prompt in load_prompts(name)}
    return tuple(known[each] for each in chosen[name])


@contextmanager
def prompt_path(source: str) -> Iterator[Path]:
    """Where the prompts of a bundled set lie while they are read; any other source is a path itself."""
    if source in BUNDLED:
        with as_file(files("phrasedraft.evaluation").joinpath("data", f"{source}.jsonl")) as path:
            yield path
    else:
        yield Path(source)
