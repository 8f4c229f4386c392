"""What a drafter is: the three verbs the decoding loop calls, and what it says of itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.tree.draft_tree import DraftTree

Embed: TypeAlias = Callable[[Int[Tensor, " token"]], Float[Tensor, "token hidden"]]
"""The target's own input embedding of some tokens; the only way a drafter sees it."""


@dataclass(frozen=True, kw_only=True)
class DraftBudget:
    """How much one draft may hold: nodes beside the root, steps below the root, and whether only one path counts."""

    num_draft_tokens: int
    max_depth: int
    chain_only: bool = False


@runtime_checkable
class Drafter(Protocol):
    """Proposes draft trees. Weights live here, what belongs to one sequence lives in the state that `begin` returns.

    `hidden` rows are what `features` asks for, one row a token: row i is the target's state *before* token i was
    chosen, so it produced `committed[i]`.
    """

    name: str

    @property
    def features(self) -> FeatureSpec:
        """Which of the target's hidden states the drafter reads."""
        ...

    def check(self, target: TargetIdentity) -> None:
        """Refuse a target this drafter was not made for, with `HeadMismatchError`."""
        ...

    def place(self, device: torch.device) -> None:
        """Move the weights to where the target's hidden states are."""
        ...

    def begin(
        self, prompt: Sequence[int], committed: int, hidden: Float[Tensor, "row feature"], embed: Embed
    ) -> Any:  # every drafter has its own state
        """The state of one sequence: `prompt` was read, and `committed` is the first token the target chose.

        The last row of `hidden` produced `committed`; earlier rows belong to the prompt tokens before it and may be
        missing where the prompt was already in the cache.
        """
        ...

    def propose(self, state: Any, budget: DraftBudget) -> DraftTree:
        """A draft tree whose root is the last committed token, within `budget`. Fewer nodes are fine, none too."""
        ...

    def update(self, state: Any, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:
        """Learn what one pass committed (accepted tokens, then the bonus token) and the rows that produced them."""
        ...


@runtime_checkable
class Observer(Protocol):
    """A drafter that also learns from the logits of every node. Optional: the loop calls `observe` where there is one.

    A replay has no logits, so it refuses such a drafter.
    """

    def observe(self, state: Any, tree: DraftTree, logits: Float[Tensor, "node vocab"]) -> None:
        """Learn from a verified tree: row i is what the target makes of node i, before any processor, right or not.

        Called before the tree is walked; `update` follows, unless the text has ended. Neither may change the logits.
        """
        ...
