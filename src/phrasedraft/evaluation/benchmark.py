"""The comparison itself: prompt by prompt every method answers, in random order, and each result is kept at once."""

import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.dialogue import Dialogue
from phrasedraft.evaluation.methods import Answer, Method
from phrasedraft.evaluation.statistics import Timing

RESULTS = "results.jsonl"
RUN = "run.json"
NUM_WARM_UP_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one method made of one turn of a prompt; one line of `results.jsonl`.

    `prompt_id` is the prompt's own id at its first turn, then `id#2`, `id#3`, ...
    """

    prompt_id: str
    method: str
    tokens: list[int]
    sha256: str
    finish_reason: str
    seconds: float
    load_average: float
    stats: dict[str, Any] | None
    turn: int = 1

    @property
    def conversation(self) -> str:
        """The id of the prompt itself, which all its turns share."""
        return self.prompt_id.removesuffix(f"#{self.turn}") if self.turn > 1 else self.prompt_id

    @property
    def timing(self) -> Timing:
        """What speed-ups are made of."""
        return Timing(seconds=self.seconds, num_tokens=len(self.tokens))


class ResultsFolder:
    """The results of one benchmark on disk, one appended line for each finished answer.

    A folder belongs to one run: `OptionError` where `settings`, which say what was measured, are not those it was begun
    with. A line that a killed process left unfinished is dropped.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._path = folder / RESULTS
        self._run_path = folder / RUN
        self._settings = dict(settings)
        _check_run(self._run_path, self._settings)
        self.results = {(result.prompt_id, result.method): result for result in _read(self._path)}

    def add(self, result: Result) -> None:
        """Keep a result, on disk before anything else happens; the first one makes the folder."""
        if not self._run_path.is_file():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._run_path.write_text(json.dumps(self._settings, indent=2) + "\n", encoding="utf-8")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.results[result.prompt_id, result.method] = result


def run_benchmark(
    prompts: Sequence[Dialogue],
    methods: Sequence[Method],
    folder: ResultsFolder,
    *,
    max_new_tokens: int,
    seed: int = 0,
    on_result: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Every method's result for every turn; those that `folder` holds already are not measured again.

    Methods alternate: all of them answer a turn before the next begins, in an order drawn for each turn. A method's
    later turns follow its own earlier answers, and are left out where the target's context has no room for them.
    """
    for prompt in prompts:
        said: dict[str, list[list[int]]] = {method.name: [] for method in methods}
        for turn, answer_id in enumerate(prompt.answer_ids, start=1):
            order = [method for method in methods if len(said[method.name]) == turn - 1]
            random.Random(f"{seed}:{answer_id}").shuffle(order)
            for method in order:
                result = folder.results.get((answer_id, method.name))
                if result is None:
                    tokens = prompt.tokens(said[method.name])
                    if tokens is None:
                        continue
                    load_average = os.getloadavg()[0]
                    answer = method.answer(tokens, max_new_tokens)
                    result = _result(answer_id, turn, method.name, answer, load_average)
                    folder.add(result)
                    on_result(result)
                said[method.name].append(result.tokens)
    keys = [(answer_id, method.name) for prompt in prompts for answer_id in prompt.answer_ids for method in methods]
    return [folder.results[key] for key in keys if key in folder.results]


def warm_up(prompt: Sequence[int], methods: Iterable[Method]) -> float:
    """Let every method answer once, shortly; returns the seconds that took, which count nowhere."""
    started = time.perf_counter()
    for method in methods:
        method.answer(prompt, NUM_WARM_UP_TOKENS)
    return time.perf_counter() - started


def first_difference(tokens_a: Sequence[int], tokens_b: Sequence[int]) -> int | None:
    """The first position where two texts differ (the shorter one's length where it is all they share), or None.

    >>> first_difference([1, 2, 3], [1, 2, 3]), first_difference([1, 2], [1, 2, 3]), first_difference([1, 2], [1, 4])
    (None, 2, 1)
    """
    for position, (token_a, token_b) in enumerate(zip(tokens_a, tokens_b, strict=False)):
        if token_a != token_b:
            return position
    return None if len(tokens_a) == len(tokens_b) else min(len(tokens_a), len(tokens_b))


def _result(prompt_id: str, turn: int, method: str, answer: Answer, load_average: float) -> Result:
    return Result(
        prompt_id=prompt_id,
        turn=turn,
        method=method,
        tokens=list(answer.tokens),
        sha256=hashlib.sha256(json.dumps(answer.tokens).encode()).hexdigest(),
        finish_reason=answer.finish_reason.value,
        seconds=answer.seconds,
        load_average=load_average,
        stats=answer.stats.as_dict() if answer.stats is not None else None,
    )


def _check_run(path: Path, settings: Mapping[str, Any]) -> None:
    """Refuse to mix two runs."""
    if not path.is_file():
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"`{path}` is not JSON: {error}", hint="give another folder with `-o`") from error
    for name, value in json.loads(json.dumps(settings)).items():
        if known.get(name) != value:
            raise OptionError(
                f"`{path.parent}` holds results for `{name}` = `{known.get(name)}`, this run has `{value}`",
                hint="give another folder with `-o`, or the same options to go on",
            )


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
