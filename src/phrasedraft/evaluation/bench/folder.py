"""The results of a benchmark on disk while it runs: one appended line for each finished answer."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.bench.result import Result
from phrasedraft.whole_file import replace_file

RESULTS = "results.jsonl"
RUN = "run.json"


class ResultsFolder:
    """What a run has measured so far.

    A folder belongs to one run: `OptionError` where `settings`, which say what is measured, are not those it was begun
    with. A line that a killed process left unfinished is dropped. `notes` are what was found out once for the run.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._path = folder / RESULTS
        self._run_path = folder / RUN
        self._settings = json.loads(json.dumps(settings))
        known = _read_run(self._run_path, self._settings)
        self.notes: dict[str, Any] = known.get("notes", {})
        self.results = {result.key: result for result in _read(self._path)}

    def note(self, name: str, value: Any) -> None:
        """Keep something that is measured once; the first one makes the folder, `OptionError` where none can be."""
        self.notes[name] = value
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(
                f"`{self._path.parent}` cannot be made: {error.strerror}", hint="give another folder with `-o`"
            ) from error
        text = json.dumps({"settings": self._settings, "notes": self.notes}, indent=2) + "\n"
        replace_file(self._run_path, text.encode())

    def forget_disturbed(self, most_load: float) -> int:
        """Let turns be measured again in which other programs kept more cores busy; how many those are.

        All methods of a turn, so that they stay paired in time. Their lines stay in the file, and later ones of the
        same key count in their place.
        """
        disturbed = {_turn(result) for result in self.results.values() if (result.other_load or 0.0) > most_load}
        self.results = {key: result for key, result in self.results.items() if _turn(result) not in disturbed}
        return len(disturbed)

    def add(self, results: Sequence[Result]) -> None:
        """Keep the results of one call, on disk before anything else happens."""
        if not self._run_path.is_file():
            self.note("folder", "phrasedraft bench")
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(asdict(result)) + "\n" for result in results))
            file.flush()
            os.fsync(file.fileno())
        self.results |= {result.key: result for result in results}


def _turn(result: Result) -> tuple[str, str, str, int, int]:
    return result.prompt_set, result.group, result.dtype, result.batch_size, result.turn


def _read_run(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the folder says of its run; refuses to mix two."""
    if not path.is_file():
        return {}
    try:
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        begun = known["settings"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"`{path}` is no benchmark's: {error}", hint="give another folder with `-o`") from error
    for name, value in settings.items():
        if name in begun and begun[name] != value:
            raise OptionError(
                f"`{path.parent}` holds results for `{name}` = `{begun.get(name)}`, this run has `{value}`",
                hint="give another folder with `-o`, or the same options to go on",
            )
    return known


def _read(path: Path) -> list[Result]:
    """The finished lines of a results file; an unfinished last one is cut off."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    results = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            results.append(Result(**json.loads(line)))
        except (ValueError, TypeError) as error:
            raise DataError(
                f"line {number} of `{path}` is no result: {error}", hint="remove the line, or give another folder"
            ) from error
    return results
