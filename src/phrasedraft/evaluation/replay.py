"""Replay: what a drafter would have saved on answers whose hidden states are known, without running the target.

A greedy answer is fixed, so whether a draft would have been accepted can be read off it. Every pass of a replay is the
pass the decoding loop would have made, with the same root, the same hidden state and the same draft, and is counted the
same way. `replay` gives the counts, `replay_answer` every pass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.decoding.walk import Verification, walk
from phrasedraft.drafters.protocol import DraftBudget, Drafter, Embed, Observer
from phrasedraft.errors import DataError, OptionError
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


@dataclass(frozen=True, kw_only=True)
class ReplayedPass:
    """One pass: the draft, what the target settled, and which nodes the answer goes along.

    `outcomes[node]` is True where the answer goes on along the node's whole path, False where it does not, and None
    where the answer ends on the way, so that nothing says how it would have gone on. A node that is right was accepted,
    unless it carries the answer's last token: that one is the bonus token, in the loop too.
    """

    tree: DraftTree
    verification: Verification
    outcomes: tuple[bool | None, ...]

    @property
    def num_accepted_tokens(self) -> int:
        """How many draft tokens became part of the answer."""
        return self.verification.num_accepted_tokens


@dataclass(frozen=True, kw_only=True)
class ReplayedAnswer:
    """Every pass of one answer of `num_tokens` tokens, the first of which costs no pass."""

    num_tokens: int
    passes: tuple[ReplayedPass, ...]

    @property
    def stats(self) -> DecodingStats:
        """The counts of the decoding loop, no seconds."""
        stats = DecodingStats(num_generated_tokens=self.num_tokens)
        for each in self.passes:
            stats.count(each.verification, each.tree.num_draft_tokens)
        return stats


def replay(drafter: Drafter, answers: Iterable[RecordedAnswer], budget: DraftBudget, embed: Embed) -> DecodingStats:
    """What `drafter` would have had accepted over `answers`: the counts of the decoding loop, no seconds."""
    stats = DecodingStats()

    def count(tree: DraftTree, verification: Verification, num_before: int) -> None:  # noqa: ARG001 - what a pass gives
        stats.count(verification, tree.num_draft_tokens)

    for answer in answers:
        _replay_one(drafter, answer, budget, embed, count)
        stats.num_generated_tokens += len(answer.tokens)
    return stats


def replay_answer(drafter: Drafter, answer: RecordedAnswer, budget: DraftBudget, embed: Embed) -> ReplayedAnswer:
    """Every pass that decoding `answer` with `drafter` would take, with the draft and what became of each node."""
    passes: list[ReplayedPass] = []

    def keep(tree: DraftTree, verification: Verification, num_before: int) -> None:
        outcomes = _outcomes(tree, answer.tokens, num_before)
        passes.append(ReplayedPass(tree=tree, verification=verification, outcomes=outcomes))

    _replay_one(drafter, answer, budget, embed, keep)
    return ReplayedAnswer(num_tokens=len(answer.tokens), passes=tuple(passes))


def refuse_observer(drafter: Drafter) -> None:
    """Raise `OptionError` for a drafter that learns from the target's logits, which answers do not hold."""
    if isinstance(drafter, Observer):
        raise OptionError(
            f"drafter `{drafter.name}` learns from the target's logits, which a replay does not have",
            hint=f"measure it with `phrasedraft bench --drafter {drafter.name}`, or replay another drafter",
        )


@torch.inference_mode()
def _replay_one(
    drafter: Drafter,
    answer: RecordedAnswer,
    budget: DraftBudget,
    embed: Embed,
    note: Callable[[DraftTree, Verification, int], None],
) -> None:
    """Tell `note` of each pass and of the text's length before it; the answer's first token costs no pass."""
    refuse_observer(drafter)
    text = list(answer.tokens[:1])
    state = drafter.begin(answer.prompt, text[0], answer.hidden[:1], embed)
    while (num_before := len(text)) < len(answer.tokens):
        depth = min(budget.max_depth, answer.max_new_tokens - num_before - 1)
        tree = DraftTree.root_only(text[-1])
        if depth > 0 and budget.num_draft_tokens > 0:
            tree = drafter.propose(state, replace(budget, max_depth=depth)).cut(depth)
            tree = tree.best_chain() if budget.chain_only else tree
        verification = walk(
            tree, partial(_next_token, answer.tokens, num_before, tree), partial(_commit, text, len(answer.tokens))
        )
        note(tree, verification, num_before)
        if len(text) < len(answer.tokens):
            drafter.update(state, text[num_before:], answer.hidden[num_before : len(text)])


def _next_token(answer: Sequence[int], num_before: int, tree: DraftTree, node: int) -> int:
    """What the answer goes on with after a node that it goes along."""
    return answer[num_before + tree.depths[node]]


def _commit(text: list[int], num_tokens: int, token: int, was_drafted: bool) -> bool:  # noqa: ARG001 - `walk` calls it
    text.append(token)
    return len(text) < num_tokens


def _outcomes(tree: DraftTree, answer: Sequence[int], num_before: int) -> tuple[bool | None, ...]:
    """For each node, whether the answer goes along its path; None beyond the answer's end."""
    outcomes: list[bool | None] = [True]
    for node in range(1, len(tree.tokens)):
        above, position = outcomes[tree.parents[node]], num_before + tree.depths[node] - 1
        if above is True:
            outcomes.append(tree.tokens[node] == answer[position] if position < len(answer) else None)
        else:
            outcomes.append(above)
    return tuple(outcomes)
