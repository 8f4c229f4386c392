"""Where texts part that should be the same, and how close the target's choice was there."""

from collections.abc import Mapping, Sequence

from phrasedraft.decoding import first_divergence
from phrasedraft.evaluation.bench.result import GENERATE, Difference, Result
from phrasedraft.evaluation.bench.run import first_difference
from phrasedraft.evaluation.dialogue import Dialogue
from phrasedraft.target import TransformersTarget


def find_differences(
    target: TransformersTarget, sets: Mapping[str, Sequence[Dialogue]], results: Sequence[Result]
) -> list[Difference]:
    """Every text that is not the one of `generate()` under the same conditions, with the gap of a teacher-forced pass.

    `results` are those of one target: one dtype.
    """
    by_key = {result.key: result for result in results}
    places = {
        (name, answer_id): (dialogue, turn)
        for name, dialogues in sets.items()
        for dialogue in dialogues
        for turn, answer_id in enumerate(dialogue.answer_ids)
    }
    differences = []
    for mine in results:
        theirs = by_key.get((mine.prompt_set, mine.answer_id, GENERATE, mine.dtype, mine.batch_size))
        if theirs is None or (mine.tokens, mine.finish_reason) == (theirs.tokens, theirs.finish_reason):
            continue
        dialogue, turn = places[mine.prompt_set, mine.answer_id]
        earlier, own_earlier = (
            [
                by_key[mine.prompt_set, name, method, mine.dtype, mine.batch_size].tokens
                for name in dialogue.answer_ids[:turn]
            ]
            for method in (GENERATE, mine.method)
        )
        gap = None
        if earlier == own_earlier:
            prompt = dialogue.tokens(earlier) or []
            parting = first_divergence(target, prompt, theirs.tokens, mine.tokens)
            gap = parting.top_two_gap if parting is not None else None
        differences.append(
            Difference(
                prompt_set=mine.prompt_set,
                answer_id=mine.answer_id,
                method=mine.method,
                dtype=mine.dtype,
                batch_size=mine.batch_size,
                position=first_difference(theirs.tokens, mine.tokens),
                top_two_gap=gap,
            )
        )
    return differences
