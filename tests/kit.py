"""Stub drafters for tests of exactness: always wrong, always right, right until a chosen depth, random trees."""

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.tree.draft_tree import DraftTree


@dataclass
class StubState:
    """What a stub knows of its sequence: every committed token."""

    text: list[int]


class StubDrafter:
    """A drafter without weights that knows the text to come: `answer` follows the prompt."""

    name = "stub"
    features = FeatureSpec(layers=(-1,))

    def __init__(self, answer: Sequence[int], vocab_size: int, *, seed: int = 0) -> None:
        self.answer = list(answer)
        self.vocab_size = vocab_size
        self.random = random.Random(seed)
        self.num_rows_seen = 0

    def check(self, target: TargetIdentity) -> None:
        pass

    def place(self, device: torch.device) -> None:
        pass

    def begin(self, prompt: Sequence[int], committed: int, hidden: Tensor, embed: Embed) -> StubState:
        assert hidden.shape[0] >= 1
        assert embed(torch.tensor([committed])).shape[0] == 1
        return StubState([committed])

    def update(self, state: StubState, committed: Sequence[int], hidden: Tensor) -> None:
        assert len(committed) == hidden.shape[0]
        self.num_rows_seen += hidden.shape[0]
        state.text.extend(committed)

    def ahead(self, state: StubState, count: int) -> list[int]:
        """The next tokens of the known answer."""
        return self.answer[len(state.text) : len(state.text) + count]

    def wrong(self, token: int) -> int:
        return (token + 1 + self.random.randrange(self.vocab_size - 1)) % self.vocab_size

    def propose(self, state: StubState, budget: DraftBudget) -> DraftTree:
        raise NotImplementedError


class WrongDrafter(StubDrafter):
    """Every draft token is wrong, in a tree of two branches."""

    name = "wrong"

    def propose(self, state: StubState, budget: DraftBudget) -> DraftTree:
        root = state.text[-1]
        ahead = self.ahead(state, 1) or [0]
        first = self.wrong(ahead[0])
        second = next(t for t in range(self.vocab_size) if t not in (ahead[0], first))
        tree = [(first, 0), (second, 0), (1, 1), (2, 2)][: budget.num_draft_tokens]
        return _tree(root, tree)


class RightDrafter(StubDrafter):
    """One path, all of it right."""

    name = "right"

    def propose(self, state: StubState, budget: DraftBudget) -> DraftTree:
        return DraftTree.chain((state.text[-1], *self.ahead(state, budget.num_draft_tokens)))


class RightUntilDrafter(StubDrafter):
    """One path, right for `depth` tokens and wrong from there on."""

    name = "right-until"

    def __init__(self, answer: Sequence[int], vocab_size: int, *, depth: int = 2, seed: int = 0) -> None:
        super().__init__(answer, vocab_size, seed=seed)
        self.depth = depth

    def propose(self, state: StubState, budget: DraftBudget) -> DraftTree:
        ahead = self.ahead(state, budget.num_draft_tokens)
        path = [token if index < self.depth else self.wrong(token) for index, token in enumerate(ahead)]
        return DraftTree.chain((state.text[-1], *path))


class RandomTreeDrafter(StubDrafter):
    """A random tree; each node carries the right token for its depth with probability one half, if no sibling does."""

    name = "random-tree"

    def propose(self, state: StubState, budget: DraftBudget) -> DraftTree:
        ahead = self.ahead(state, budget.num_draft_tokens)
        nodes: list[tuple[int, int]] = []
        depths = [0]
        on_path = [True]
        for _ in range(budget.num_draft_tokens):
            parent = self.random.randrange(len(depths))
            siblings = {token for token, above in nodes if above == parent}
            depth = depths[parent]
            token = self.random.randrange(self.vocab_size)
            if on_path[parent] and depth < len(ahead) and self.random.random() < 0.7:
                token = ahead[depth]
            if token in siblings:
                continue
            nodes.append((token, parent))
            on_path.append(on_path[parent] and depth < len(ahead) and token == ahead[depth])
            depths.append(depth + 1)
        return _tree(state.text[-1], nodes)


STUBS = {
    "wrong": WrongDrafter,
    "right": RightDrafter,
    "right-until": RightUntilDrafter,
    "random-tree": RandomTreeDrafter,
}


def _tree(root: int, nodes: list[tuple[int, int]]) -> DraftTree:
    tokens = (root, *(token for token, _ in nodes))
    parents = (-1, *(parent for _, parent in nodes))
    values = [1.0]
    for node in range(1, len(tokens)):
        values.append(values[parents[node]] * 0.5)
    return DraftTree(tokens, parents, tuple(values))
