"""Stub drafters for tests of exactness: always wrong, always right, right until a chosen depth, random trees.

Beside them: cached targets over the zoo, and the reference texts of transformers' own `generate()`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

import zoo
from phrasedraft import GREEDY, Choice, Decoder, Generation, Stopping, TransformersTarget
from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.target import FeatureSpec, TargetIdentity
from phrasedraft.tree.draft_tree import DraftTree

PROMPT = (5, 17, 3, 44, 9)


@dataclass
class StubState:
    """What a stub knows of its sequence: every committed token."""

    text: list[int]


class StubDrafter:
    """A drafter without weights that knows the text to come: `answer` follows the prompt."""

    name = "stub"
    features = FeatureSpec(layers=(-1,))

    def __init__(self, answer: Sequence[int], vocab_size: int = zoo.VOCAB_SIZE, *, seed: int = 0) -> None:
        self.answer = list(answer)
        self.vocab_size = vocab_size
        self.random = random.Random(seed)
        self.num_rows_seen = 0
        self.num_proposals = 0
        self.chain_only_seen: set[bool] = set()

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

    def propose(self, state: StubState, budget: DraftBudget) -> DraftTree:
        self.num_proposals += 1
        self.chain_only_seen.add(budget.chain_only)
        assert budget.num_draft_tokens >= 1
        assert budget.max_depth >= 1
        return self.draft(state, budget)

    def draft(self, state: StubState, budget: DraftBudget) -> DraftTree:
        raise NotImplementedError

    def ahead(self, state: StubState, count: int) -> list[int]:
        """The next tokens of the known answer."""
        return self.answer[len(state.text) : len(state.text) + count]

    def wrong(self, token: int) -> int:
        return (token + 1 + self.random.randrange(self.vocab_size - 1)) % self.vocab_size


class WrongDrafter(StubDrafter):
    """Every draft token is wrong, in a tree of two branches."""

    name = "wrong"

    def draft(self, state: StubState, budget: DraftBudget) -> DraftTree:
        ahead = self.ahead(state, 1) or [0]
        first = self.wrong(ahead[0])
        second = next(token for token in range(self.vocab_size) if token not in (ahead[0], first))
        nodes = [(first, 0), (second, 0), (1, 1), (2, 2)][: budget.num_draft_tokens]
        return tree_of(state.text[-1], nodes)


class RightDrafter(StubDrafter):
    """One path, all of it right."""

    name = "right"

    def draft(self, state: StubState, budget: DraftBudget) -> DraftTree:
        return DraftTree.chain((state.text[-1], *self.ahead(state, budget.num_draft_tokens)))


class RightUntilDrafter(StubDrafter):
    """One path, right for `depth` tokens and wrong from there on."""

    name = "right-until"

    def __init__(
        self, answer: Sequence[int], vocab_size: int = zoo.VOCAB_SIZE, *, depth: int = 2, seed: int = 0
    ) -> None:
        super().__init__(answer, vocab_size, seed=seed)
        self.depth = depth

    def draft(self, state: StubState, budget: DraftBudget) -> DraftTree:
        ahead = self.ahead(state, budget.num_draft_tokens)
        path = [token if index < self.depth else self.wrong(token) for index, token in enumerate(ahead)]
        return DraftTree.chain((state.text[-1], *path))


class RandomTreeDrafter(StubDrafter):
    """A random tree; along its right path each new node carries the right token more often than not."""

    name = "random-tree"

    def draft(self, state: StubState, budget: DraftBudget) -> DraftTree:
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
        return tree_of(state.text[-1], nodes)


STUBS: dict[str, type[StubDrafter]] = {
    "wrong": WrongDrafter,
    "right": RightDrafter,
    "right-until": RightUntilDrafter,
    "random-tree": RandomTreeDrafter,
}


def tree_of(root: int, nodes: Sequence[tuple[int, int]]) -> DraftTree:
    """The tree of `(token, parent)` nodes below a root, each half as probable as its parent."""
    tokens = (root, *(token for token, _ in nodes))
    parents = (-1, *(parent for _, parent in nodes))
    values = [1.0]
    for node in range(1, len(tokens)):
        values.append(values[parents[node]] * 0.5)
    return DraftTree(tokens, parents, tuple(values))


@cache
def target_of(family: str = "llama", attn_implementation: str | None = None, **changes: Any) -> TransformersTarget:
    """A target over a model of the zoo, the same object for every test."""
    packed = changes.pop("packed", False)
    return TransformersTarget(zoo.tiny_model(family, attn_implementation, **changes), packed=packed)


def generated(model: Any, prompt: Sequence[int], max_new_tokens: int, /, **arguments: Any) -> list[int]:
    """The new tokens of transformers' own `generate()`."""
    tokens = torch.tensor([list(prompt)])
    settings = {
        "attention_mask": torch.ones_like(tokens),  # else transformers masks prompt tokens that are the pad token
        "max_new_tokens": max_new_tokens,
        "do_sample": False,
        "pad_token_id": 0,
    }
    output = model.generate(tokens, **{**settings, **arguments})
    return output[0, len(prompt) :].tolist()


@cache
def greedy_answer(
    family: str = "llama", max_new_tokens: int = 40, prompt: tuple[int, ...] = PROMPT, **changes: Any
) -> tuple[int, ...]:
    """The greedy text of a zoo model by transformers' `generate()`."""
    return tuple(generated(zoo.tiny_model(family, **changes), prompt, max_new_tokens))


def plain(
    target: TransformersTarget,
    choice: Choice = GREEDY,
    stopping: Stopping | None = None,
    *,
    prompt: Any = PROMPT,
    **arguments: Any,
) -> Generation:
    """Our own decoding without drafts: one token a pass."""
    decoder = Decoder(target, WrongDrafter(()), num_draft_tokens=0)
    return decoder.generate(prompt, choice, stopping or Stopping(max_new_tokens=40), **arguments)


def assert_drafts_landed(stub: StubDrafter, generation: Generation) -> None:
    """Fail for a drafter that was never asked, or never right where it can be right."""
    stats = generation.stats
    if stats.num_generated_tokens <= 2:
        return  # the first token comes from the prompt's pass, the last is not worth a draft
    assert stub.num_proposals > 0
    assert stats.num_draft_tokens > 0
    if isinstance(stub, WrongDrafter):
        assert stats.num_accepted_tokens == 0
    else:
        assert stats.num_accepted_tokens > 0
