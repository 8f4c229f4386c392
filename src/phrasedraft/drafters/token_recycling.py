"""Token recycling: the successors the target last gave a token (Luo et al. 2024, arXiv 2408.08696)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32, Int, Int32
from torch import Tensor

from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.drafters.source import Candidate
from phrasedraft.drafters.training_free import TrainingFree, at_least_one
from phrasedraft.errors import HeadMismatchError
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.tree.best_first import grow_best_first
from phrasedraft.tree.draft_tree import DraftTree

BLOCK = 256
"""How many logits are first represented by their maximum."""


@dataclass
class RecyclingState:
    """What one sequence needs: its last token. What is known of successors is the drafter's, for all sequences."""

    token: int


class TokenRecycling(TrainingFree):
    """Drafts the target's own earlier guesses: for each token, the `num_successors` it gave the most probability.

    Every node of a verified tree is a guess that was paid for, also where the node was rejected; each overwrites what
    was known of its token. The paper fills a fixed tree with successors by rank; here their probabilities are kept as
    well, and the tree grows where their product is largest. 8 bytes a successor: 3 MB for 49,152 tokens.
    """

    name = "token-recycling"

    def __init__(self, num_successors: int = 8) -> None:
        at_least_one(num_successors=num_successors)
        self.num_successors = num_successors
        self._target_name = ""
        self._successors: Int32[np.ndarray, "vocab rank"] = np.zeros((0, num_successors), np.int32)
        self._probabilities: Float32[np.ndarray, "vocab rank"] = np.zeros((0, num_successors), np.float32)

    @property
    def num_bytes(self) -> int:
        """The memory of what is known; it does not grow with what is decoded."""
        return self._successors.nbytes + self._probabilities.nbytes

    def check(self, target: TargetIdentity) -> None:
        """Make room for the target's tokens; refuse a target of another vocabulary than the one learned from."""
        if not len(self._successors):
            self._target_name = target.name
            width = min(self.num_successors, target.vocab_size)
            self._successors = np.zeros((target.vocab_size, width), np.int32)
            self._probabilities = np.zeros((target.vocab_size, width), np.float32)
        elif len(self._successors) != target.vocab_size:
            raise HeadMismatchError(
                f"`{self.name}` has learned from target `{self._target_name}` of {len(self._successors)} tokens, "
                f"target `{target.name}` has {target.vocab_size}",
                hint="give each target a drafter of its own",
            )

    def begin(
        self,
        prompt: Sequence[int],  # noqa: ARG002 - what the target would have said in it is not known
        committed: int,
        hidden: Float[Tensor, "row feature"],  # noqa: ARG002
        embed: Embed,  # noqa: ARG002
    ) -> RecyclingState:
        """The last token."""
        return RecyclingState(token=committed)

    def update(self, state: RecyclingState, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:  # noqa: ARG002
        """Go on from the last committed token."""
        if committed:
            state.token = committed[-1]

    def observe(self, state: RecyclingState, tree: DraftTree, logits: Float[Tensor, "node vocab"]) -> None:  # noqa: ARG002
        """Keep the most probable successors of every node's token; of nodes with the same token, the first one's."""
        logits = logits.float()
        found, successors = _largest(logits, self._successors.shape[1])
        chances = (found - logits.logsumexp(dim=-1, keepdim=True)).exp()
        tokens = np.array(tree.tokens)[::-1]  # of an index that repeats, the last value stays
        probabilities = np.nan_to_num(chances.cpu().numpy(), nan=0.0)
        self._successors[tokens] = successors.cpu().numpy()[::-1]
        self._probabilities[tokens] = probabilities[::-1]

    def propose(self, state: RecyclingState, budget: DraftBudget) -> DraftTree:
        """The most probable paths of successors; nothing after a token the target has not been seen to go on from."""

        def followers(token: int) -> list[tuple[int, float, int]]:
            return [(after, probability, after) for after, probability, _ in self.candidates(state, token)]

        return grow_best_first(
            state.token,
            state.token,
            followers,
            num_draft_tokens=budget.num_draft_tokens,
            max_depth=budget.max_depth,
            chain_only=budget.chain_only,
        )

    def root(self, state: RecyclingState) -> int:
        """The last token: all it goes by."""
        return state.token

    def after(self, state: RecyclingState, place: int, token: int) -> int:  # noqa: ARG002 - the last token is enough
        """The token itself."""
        return token

    def candidates(self, state: RecyclingState, place: int) -> list[Candidate]:  # noqa: ARG002
        """The successors known of a token; none where the target has not been seen to go on from it."""
        pairs = zip(self._successors[place].tolist(), self._probabilities[place].tolist(), strict=True)
        return [Candidate(token, probability) for token, probability in pairs if probability > 0]


def _largest(
    logits: Float[Tensor, "node vocab"], number: int
) -> tuple[Float[Tensor, "node rank"], Int[Tensor, "node rank"]]:
    """What `torch.topk` gives, several times as fast: the largest lie in the blocks with the largest maxima."""
    num_blocks = logits.shape[1] // BLOCK
    if num_blocks <= number:
        return torch.topk(logits, number)
    whole = num_blocks * BLOCK
    blocks = logits[:, :whole].reshape(len(logits), num_blocks, BLOCK)
    chosen = torch.topk(blocks.amax(dim=2), number).indices
    places = (chosen[:, :, None] * BLOCK + torch.arange(BLOCK, device=logits.device)).flatten(1)
    rest = torch.arange(whole, logits.shape[1], device=logits.device).expand(len(logits), -1)
    places = torch.cat([places, rest], dim=1)
    best = torch.topk(logits.gather(1, places), number)
    return best.values, places.gather(1, best.indices)
