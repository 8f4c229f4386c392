"""Do training prompts hold text of the evaluation prompts? Counted by runs of tokens both have."""

from collections.abc import Iterator, Sequence

from phrasedraft.evaluation.prompts import BUNDLED, load_prompts
from phrasedraft.phrases import Tokenizer

NUM_TOKENS = 13
"""A run this long in common is no chance (as in Brown et al. 2020, 2005.14165)."""


def evaluation_runs(tokenizer: Tokenizer) -> dict[str, frozenset[tuple[int, ...]]]:
    """Every run of the users' messages of each bundled set; shorter messages have none."""
    return {
        name: frozenset(
            run
            for prompt in load_prompts(name)
            for text in (prompt.opening[-1].content, *prompt.follow_ups)
            for run in _runs(tokenizer.encode(text, add_special_tokens=False))
        )
        for name in BUNDLED
    }


def overlap(tokenizer: Tokenizer, prompts: Sequence[Sequence[int]]) -> dict[str, int]:
    """For each bundled set, how many of `prompts` (token ids) share a run with one of its messages."""
    known = evaluation_runs(tokenizer)
    counts = dict.fromkeys(known, 0)
    for prompt in prompts:
        runs = set(_runs(prompt))
        for name, wanted in known.items():
            counts[name] += not runs.isdisjoint(wanted)
    return counts


def _runs(tokens: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return (tuple(tokens[start : start + NUM_TOKENS]) for start in range(len(tokens) - NUM_TOKENS + 1))
