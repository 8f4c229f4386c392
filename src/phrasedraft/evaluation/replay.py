"""Replay: what a drafter would have saved on answers whose hidden states are known, without running the target.

A greedy answer is fixed, so whether a draft would have been accepted can be read off it. Every pass of a replay is the
pass the decoding loop would have made, with the same root, the same hidden state and the same draft, and is counted the
same way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.decoding.walk import Verification, walk
from phrasedraft.drafters.protocol import DraftBudget, Drafter, Embed
from phrasedraft.errors import DataError
from phrasedraft.tree.draft_tree import DraftTree


@dataclass(frozen=True, kw_only=True)
class RecordedAnswer:
    """A greedy answer with the target's hidden state before each of its tokens.

    `max_new_tokens` is the limit the answer was generated with, which the loop does not draft beyond.
    """

    prompt: Sequence[int]
    tokens: Sequence[int]
    hidden: Float[Tensor, "row feature"]
    max_new_tokens: int

    def __post_init__(self) -> None:
        if not 0 < len(self.tokens) <= min(len(self.hidden), self.max_new_tokens):
            raise DataError(
                f"an answer of {len(self.tokens)} tokens has {len(self.hidden)} hidden states and the limit "
                f"{self.max_new_tokens}"
            )


def replay(drafter: Drafter, answers: Iterable[RecordedAnswer], budget: DraftBudget, embed: Embed) -> DecodingStats:
    """What `drafter` would have had accepted over `answers`: the counts of the decoding loop, no seconds."""
    stats = DecodingStats()
    for answer in answers:
        _replay_one(drafter, answer, budget, embed, stats)
    return stats


@torch.inference_mode()
def _replay_one(
    drafter: Drafter, answer: RecordedAnswer, budget: DraftBudget, embed: Embed, stats: DecodingStats
) -> None:
    """Add one answer's passes to `stats`; its first token comes from reading the prompt and costs no pass."""
    text = list(answer.tokens[:1])
    state = drafter.begin(answer.prompt, text[0], answer.hidden[:1], embed)
    while (num_before := len(text)) < len(answer.tokens):
        depth = min(budget.max_depth, answer.max_new_tokens - num_before - 1)
        tree = DraftTree.root_only(text[-1])
        if depth > 0:
            tree = drafter.propose(state, replace(budget, max_depth=depth)).cut(depth)
        verification = _check(tree, answer.tokens, text)
        stats.count(verification, tree.num_draft_tokens)
        drafter.update(state, text[num_before:], answer.hidden[num_before : len(text)])
    stats.num_generated_tokens += len(text)


def _check(tree: DraftTree, answer: Sequence[int], text: list[int]) -> Verification:
    """What one pass of the target settles, where it goes on from `text` as in `answer`; extends `text`."""
    first = len(text)

    def commit(token: int, was_drafted: bool) -> bool:  # noqa: ARG001 - what `walk` calls
        text.append(token)
        return len(text) < len(answer)

    return walk(tree, lambda node: answer[first + tree.depths[node]], commit)
