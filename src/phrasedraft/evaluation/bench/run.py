"""The comparison itself: turn by turn every method answers, in random order, and each result is kept at once."""

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from phrasedraft.evaluation.bench.folder import ResultsFolder
from phrasedraft.evaluation.bench.meter import Meter, Reading
from phrasedraft.evaluation.bench.result import Result
from phrasedraft.evaluation.dialogue import Dialogue
from phrasedraft.evaluation.methods import Answer, BatchMethod, Method
from phrasedraft.phrases.inspection import categorize
from phrasedraft.phrases.pieces import TokenPieces

NUM_WARM_UP_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class Group:
    """Dialogues that are answered in one call, turn by turn; one at batch size 1. `start` is the first one's place."""

    prompt_set: str
    name: str
    start: int
    dialogues: tuple[Dialogue, ...]

    @property
    def num_turns(self) -> int:
        """The turns of the longest dialogue."""
        return max(len(dialogue.answer_ids) for dialogue in self.dialogues)


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A method, and how many dialogues of each set it answers (None: all)."""

    method: Method
    limit: int | None = None

    def answers(self, group: Group) -> bool:
        """Whether the method takes part in a group."""
        return self.limit is None or group.start < self.limit


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What all methods of a run have in common. `pieces`, where there are any, say what kind of phrase was accepted."""

    dtype: str
    batch_size: int
    max_new_tokens: int
    seed: int = 0
    pieces: TokenPieces | None = None


def make_groups(sets: Mapping[str, Sequence[Dialogue]], batch_size: int) -> list[Group]:
    """The dialogues of each set in groups of `batch_size`, sets taking turns, so that a run cut short has of all."""
    columns = [
        [
            Group(
                prompt_set=name,
                name=dialogues[start].answer_ids[0],
                start=start,
                dialogues=tuple(dialogues[start : start + batch_size]),
            )
            for start in range(0, len(dialogues), batch_size)
        ]
        for name, dialogues in sets.items()
    ]
    return [group for row in zip_longest(*columns) for group in row if group is not None]


def expected_keys(
    groups: Sequence[Group], entrants: Sequence[Entrant], conditions: Conditions
) -> list[tuple[str, str, str, str, int]]:
    """The key of every result there is to be, unless a conversation outgrows the target's context."""
    return [
        (group.prompt_set, answer_id, entrant.method.name, conditions.dtype, conditions.batch_size)
        for group in groups
        for dialogue in group.dialogues
        for answer_id in dialogue.answer_ids
        for entrant in entrants
        if entrant.answers(group)
    ]


def run_benchmark(
    groups: Sequence[Group],
    entrants: Sequence[Entrant],
    folder: ResultsFolder,
    conditions: Conditions,
    *,
    on_result: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Every method's result for every turn; those that `folder` holds already are not measured again.

    Methods alternate: all of them answer a turn before the next begins, in an order drawn for each turn. A method's
    later turns follow its own earlier answers, and are left out where the target's context has no room for them.
    """
    meter = Meter()
    for group in groups:
        taking_part = [entrant.method for entrant in entrants if entrant.answers(group)]
        said = {method.name: _Said(group) for method in taking_part}
        for turn in range(1, group.num_turns + 1):
            order = list(taking_part)
            random.Random(f"{conditions.seed}:{group.prompt_set}:{group.name}:{turn}").shuffle(order)
            for rank, method in enumerate(order):
                call = _Call(group, method, turn, rank, conditions)
                _answer_turn(call, said[method.name], folder, meter, on_result)
    return [folder.results[key] for key in expected_keys(groups, entrants, conditions) if key in folder.results]


@dataclass
class _Said:
    """A method's answers so far, by the dialogue's place in its group."""

    group: Group
    answers: dict[int, list[list[int]]] = field(default_factory=dict)

    def going_on(self, turn: int) -> Iterator[tuple[int, Dialogue]]:
        """The dialogues that have this turn, and had all before."""
        for place, dialogue in enumerate(self.group.dialogues):
            if turn <= len(dialogue.answer_ids) and len(self.answers.setdefault(place, [])) == turn - 1:
                yield place, dialogue


@dataclass(frozen=True)
class _Call:
    group: Group
    method: Method
    turn: int
    rank: int
    conditions: Conditions

    def key(self, answer_id: str) -> tuple[str, str, str, str, int]:
        return (
            self.group.prompt_set,
            answer_id,
            self.method.name,
            self.conditions.dtype,
            self.conditions.batch_size,
        )


def _answer_turn(
    call: _Call, said: _Said, folder: ResultsFolder, meter: Meter, on_result: Callable[[Result], None]
) -> None:
    rows = list(said.going_on(call.turn))
    known = [folder.results.get(call.key(dialogue.answer_ids[call.turn - 1])) for _, dialogue in rows]
    if rows and any(result is None for result in known):
        asked = [(place, dialogue, dialogue.tokens(said.answers[place])) for place, dialogue in rows]
        rows = [(place, dialogue) for place, dialogue, tokens in asked if tokens is not None]
        prompts = [tokens for _, _, tokens in asked if tokens is not None]
        if not rows:
            return
        meter.start()
        started_at = time.time()
        answers = _answers(call.method, prompts, call.conditions.max_new_tokens)
        reading = meter.stop()
        known = [
            _result(call, dialogue, len(prompt), answer, reading, started_at)
            for (_, dialogue), prompt, answer in zip(rows, prompts, answers, strict=True)
        ]
        folder.add([result for result in known if result is not None])
        for result in known:
            if result is not None:
                on_result(result)
    for (place, _), result in zip(rows, known, strict=True):
        if result is not None:
            said.answers[place].append(result.tokens)


def _answers(method: Method, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Answer]:
    if len(prompts) > 1 and isinstance(method, BatchMethod):
        return method.answer_batch(prompts, max_new_tokens)
    return [method.answer(prompt, max_new_tokens) for prompt in prompts]


def _result(
    call: _Call, dialogue: Dialogue, num_prompt_tokens: int, answer: Answer, reading: Reading, started_at: float
) -> Result:
    conditions, method = call.conditions, call.method
    return Result(
        prompt_set=call.group.prompt_set,
        answer_id=dialogue.answer_ids[call.turn - 1],
        turn=call.turn,
        group=call.group.name,
        method=method.name,
        drafter=method.drafter,
        num_draft_tokens=method.num_draft_tokens,
        dtype=conditions.dtype,
        batch_size=conditions.batch_size,
        num_prompt_tokens=num_prompt_tokens,
        tokens=list(answer.tokens),
        sha256=hashlib.sha256(json.dumps(answer.tokens).encode()).hexdigest(),
        finish_reason=answer.finish_reason.value,
        seconds=answer.seconds,
        first_token_seconds=answer.first_token_seconds,
        pass_lengths=[len(accepted) + 1 for accepted in answer.passes],
        categories=_categories(answer.passes, conditions.pieces),
        stats=answer.stats.as_dict() if answer.stats is not None else None,
        rank=call.rank,
        started_at=started_at,
        load_average=reading.load_average,
        other_load=reading.other_load,
        peak_bytes=reading.peak_bytes,
        energy_joules=reading.energy_joules,
    )


def _categories(passes: Iterable[Sequence[int]], pieces: TokenPieces | None) -> dict[str, int]:
    """The accepted tokens by the kind of everything their pass accepted, as `CategoryLine.num_saved_tokens`."""
    counts: dict[str, int] = {}
    for accepted in passes:
        if accepted and pieces is not None:
            kind = categorize(accepted, pieces).value
            counts[kind] = counts.get(kind, 0) + len(accepted)
    return counts


def warm_up(prompts: Sequence[Sequence[int]], methods: Iterable[Method]) -> float:
    """Let every method answer once, shortly, as many prompts together as later; the seconds that took count nowhere."""
    started = time.perf_counter()
    for method in methods:
        _answers(method, prompts, NUM_WARM_UP_TOKENS)
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
