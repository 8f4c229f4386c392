"""The token chain: the phrase head's trunk, single tokens for entries, and one step after the other.

The control for the phrase head: the same inputs, the same width, the same training, but its entries are single tokens
and a small recurrent cell looks further ahead, as in recurrent drafters (Zhang et al. 2024, 2403.09919).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters import head_file
from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.head_config import TOKEN_CHAIN, HeadConfig
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.drafters.trained_head import HeadState, TrainedHead
from phrasedraft.errors import HeadFileError, OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.tree.draft_tree import DraftTree

MAX_BEAM = 16
"""Most nodes of one level that are looked beyond; trees of fewer nodes than this are the very best trees."""


class TokenChain(TrainedHead):
    """A drafter that scores single tokens for the next position, then for the one after each likely token, and so on.

    A draft takes up to `config.num_steps` steps, each one batched call. `propose` gives at most
    `budget.num_draft_tokens` nodes; nothing beside the root where the hidden state or the scores are not finite (with
    one warning) or there are no entries.
    """

    name = "token-chain"
    kind = TOKEN_CHAIN
    scorer_class = ChainScorer

    def __init__(self, *, scorer: ChainScorer, vocabulary: PhraseVocabulary, config: HeadConfig) -> None:
        if len(vocabulary) and vocabulary.max_tokens != 1:
            raise OptionError(
                f"the vocabulary has phrases of up to {vocabulary.max_tokens} tokens, a token chain's entries "
                "are single tokens"
            )
        super().__init__(scorer=scorer, vocabulary=vocabulary, config=config)
        self._tokens: list[int] = vocabulary.phrase_tokens[:, 0].tolist() if len(vocabulary) else []

    @classmethod
    def check_entries(cls, vocabulary: PhraseVocabulary, folder: Path) -> None:
        """Refuse entries of several tokens."""
        if len(vocabulary) and vocabulary.max_tokens != 1:
            raise HeadFileError(
                f"`{head_file.PHRASES}` in `{folder / head_file.WEIGHTS}` is {vocabulary.max_tokens} tokens wide, in "
                "a token chain it must be 1",
                hint="take the folder from where it came again",
            )

    @torch.inference_mode()
    def propose(self, state: HeadState, budget: DraftBudget) -> DraftTree:
        """The most probable nodes; where only a chain counts, the most probable token at each step."""
        size = budget.num_draft_tokens
        num_steps = min(self.config.num_steps, budget.max_depth, size)
        if num_steps <= 0 or not self._tokens:
            return DraftTree.root_only(state.token)
        draft = _Draft(size=size, width=1 if budget.chain_only else size)
        assert isinstance(self.scorer, ChainScorer)
        states = self.first_state(state)
        level = [0]
        for step in range(num_steps):
            probabilities = self.scorer.probabilities(states, self.config.temperature)
            if not torch.isfinite(probabilities[:, 0]).all():  # one that is not finite spoils its whole row
                self.warn_not_finite(state)
                return DraftTree.root_only(state.token)
            rows = draft.extend(level, probabilities)
            level = draft.newest(MAX_BEAM)
            if not level or step == num_steps - 1:
                break
            entries = torch.tensor([draft.entries[node] for node in level], device=self._device)
            states = self.scorer.advance(states[[rows[node] for node in level]], entries, state.text)
        return draft.tree(state.token, self._tokens)


@dataclass
class _Draft:
    """The best `size` nodes so far, found level by level; each level brings at most `width` of them.

    Nodes are numbered as they are found, the root is 0. No child is worth more than its parent, so whatever is not
    among the best now has no descendants there either, and need not be looked beyond.
    """

    size: int
    width: int
    entries: list[int] = field(default_factory=lambda: [-1])
    parents: list[int] = field(default_factory=lambda: [-1])
    values: list[float] = field(default_factory=lambda: [1.0])
    best: list[int] = field(default_factory=list)
    _newest: range = range(1)

    def extend(self, level: Sequence[int], probabilities: Float[Tensor, "node phrase"]) -> dict[int, int]:
        """Add the best children of `level`, given each one's probabilities; the row each new node came from."""
        above = probabilities.new_tensor([self.values[node] for node in level])
        reached = (probabilities * above[:, None]).flatten()
        found = torch.topk(reached, min(self.width, len(reached)))
        rows: dict[int, int] = {}
        first = len(self.entries)
        for value, place in zip(found.values.tolist(), found.indices.tolist(), strict=True):
            row, entry = divmod(place, probabilities.shape[1])
            if value <= 0:
                break
            rows[len(self.entries)] = row
            self.entries.append(entry)
            self.parents.append(level[row])
            self.values.append(min(value, self.values[level[row]]))
        self._newest = range(first, len(self.entries))
        # Of equal nodes the one found first stays first, so that a parent is never behind its child.
        self.best = sorted([*self.best, *self._newest], key=lambda node: -self.values[node])[: self.size]
        return rows

    def newest(self, most: int) -> list[int]:
        """The nodes of the last level that are among the best, most probable first."""
        return [node for node in self.best if node in self._newest][:most]

    def tree(self, root_token: int, tokens: Sequence[int]) -> DraftTree:
        """The best nodes as a tree, most probable first; `tokens` are those of the entries."""
        place = {0: 0} | {node: index for index, node in enumerate(self.best, start=1)}
        return DraftTree(
            tokens=(root_token, *(tokens[self.entries[node]] for node in self.best)),
            parents=(-1, *(place[self.parents[node]] for node in self.best)),
            values=(1.0, *(self.values[node] for node in self.best)),
        )
