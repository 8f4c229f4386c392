"""A drafter without weights that is told the answer: it decodes plainly with none, and probes every depth with one."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.target import FeatureSpec, TargetIdentity
from phrasedraft.tree.draft_tree import DraftTree


class KnownAnswerDrafter:
    """Drafts what follows in `answer`, with a wrong sibling before each right token so that branches are rejected too.

    Without an answer it drafts nothing and reads no hidden states, which makes a decoder decode plainly.
    """

    name = "known answer"
    features = FeatureSpec(layers=())

    def __init__(self, answer: Sequence[int] = (), vocab_size: int = 0) -> None:
        self._answer = tuple(answer)
        self._vocab_size = vocab_size

    def check(self, target: TargetIdentity) -> None:
        """Fits every target."""

    def place(self, device: torch.device) -> None:
        """There is nothing to move."""

    def begin(
        self,
        prompt: Sequence[int],  # noqa: ARG002 - the drafter protocol's signature
        committed: int,
        hidden: Float[Tensor, "row feature"],  # noqa: ARG002
        embed: Embed,  # noqa: ARG002
    ) -> list[int]:
        """The committed tokens."""
        return [committed]

    def update(self, state: list[int], committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:  # noqa: ARG002
        """Add what was committed."""
        state.extend(committed)

    def propose(self, state: list[int], budget: DraftBudget) -> DraftTree:
        """The next tokens of the answer; every second node is wrong where branches may be drafted."""
        ahead = self._answer[len(state) : len(state) + budget.max_depth]
        if budget.chain_only:
            return DraftTree.chain((state[-1], *ahead[: budget.num_draft_tokens]))
        tokens, parents, values, right = [state[-1]], [-1], [1.0], 0
        for token in ahead[: (budget.num_draft_tokens + 1) // 2]:
            tokens += [(token + 1) % self._vocab_size, token]
            parents += [right, right]
            values += [0.5, 1.0]
            right = len(tokens) - 1
        if len(tokens) - 1 > budget.num_draft_tokens:  # an odd budget has no room for the last wrong sibling
            del tokens[-2], parents[-2], values[-2]
        return DraftTree(tuple(tokens), tuple(parents), tuple(values))
