"""What the decoding loop needs of a host that runs the target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from phrasedraft.target.features import FeatureSpec
from phrasedraft.tree.draft_tree import DraftTree


class Support(Enum):
    """What one pass of the target can check exactly."""

    TREE = "tree"
    CHAIN = "chain"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class TargetIdentity:
    """What a drafter knows a target by.

    `vocab_size` is the width of the logits. `tokenizer_fingerprint` hashes the tokenizer's entries with ids below the
    number it is given, so tokens added at the end later do not change it; it returns None for a target without one.
    `template_fingerprint` hashes how the chat template renders under a system prompt and a setting of its thinking
    switch, `state_fingerprint` gives a few numbers of the hidden states; None and nothing where they are not known.
    """

    name: str
    hidden_size: int
    vocab_size: int
    tokenizer_fingerprint: Callable[[int], str | None]
    template_fingerprint: Callable[[str, str], str | None] = lambda *_: None
    state_fingerprint: Callable[[], tuple[float, ...]] = tuple


@dataclass(frozen=True)
class Pass:
    """What one pass of the target gives: logits for the positions asked for, features for every position."""

    logits: Float[Tensor, "row vocab"]
    hidden: Float[Tensor, "seq feature"]


@runtime_checkable
class TargetSequence(Protocol):
    """One sequence in the target's cache, which holds every committed token but the last."""

    @property
    def num_cached_tokens(self) -> int:
        """How many tokens the cache holds."""
        ...

    def prefill(self, tokens: Sequence[int]) -> Pass:
        """Read `tokens` after what is cached: features of each of them, logits after the last one only."""
        ...

    def verify(self, tree: DraftTree) -> Pass:
        """Check a tree in one pass: a row for every node, in the tree's order."""
        ...

    def keep(self, path: Sequence[int]) -> None:
        """Keep the rows of the last verified tree on `path` (root first) in the cache; the rest leave it."""
        ...

    def support_for(self, num_nodes: int) -> Support:
        """What a pass over `num_nodes` nodes can check exactly from here: a window may be full, say."""
        ...

    def crop(self, num_tokens: int) -> bool:
        """Forget all but the first `num_tokens` tokens; False, with nothing changed, where the cache cannot."""
        ...


@runtime_checkable
class Target(Protocol):
    """A frozen language model on some host."""

    @property
    def identity(self) -> TargetIdentity:
        """What drafters know it by."""
        ...

    @property
    def support(self) -> Support:
        """What one pass can check exactly."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the hidden states of a pass are."""
        ...

    @property
    def context_limit(self) -> int | None:
        """The most tokens a sequence may have, None where the target sets no limit."""
        ...

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Every token that ends a text."""
        ...

    def embed(self, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token hidden"]:
        """The target's input embedding of `tokens`."""
        ...

    def start(self, features: FeatureSpec) -> TargetSequence:
        """An empty sequence whose passes give the features asked for."""
        ...
