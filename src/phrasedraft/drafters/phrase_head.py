"""The phrase head: one step from the target's hidden state to whole phrases."""

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.head_config import PHRASE, HeadConfig
from phrasedraft.drafters.node_masses import NodeMasses
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.drafters.text_reader import Text
from phrasedraft.drafters.trained_head import HeadState, TrainedHead
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.tree.build import PhraseTreeBuilder
from phrasedraft.tree.draft_tree import DraftTree

CHAIN_SEARCH = 64
"""How many nodes are looked at to find one path: a tree as small as the path would spread over its first tokens."""


class PhraseHead(TrainedHead):
    """A drafter that scores the phrases of its vocabulary once a pass and drafts the most probable of them.

    `propose` gives at most `budget.num_draft_tokens` nodes; nothing beside the root where the hidden state or the
    scores are not finite (with one warning) or the vocabulary is empty.
    """

    name = "phrase-head"
    kind = PHRASE
    scorer_class = PhraseScorer

    def __init__(self, *, scorer: PhraseScorer, vocabulary: PhraseVocabulary, config: HeadConfig) -> None:
        super().__init__(scorer=scorer, vocabulary=vocabulary, config=config)
        self.normaliser = PrefixSoftmax(vocabulary.trie)
        self._builder = PhraseTreeBuilder(vocabulary.trie)
        self._masses = NodeMasses(vocabulary.trie)

    def place(self, device: torch.device) -> None:
        """Move the weights to where the target's hidden states are."""
        super().place(device)
        self.normaliser.to(device)
        self._masses.place(device)

    def propose(self, state: HeadState, budget: DraftBudget) -> DraftTree:
        """The most probable phrases, merged into one tree; one path where only a chain counts."""
        if budget.num_draft_tokens <= 0 or budget.max_depth <= 0 or not len(self.vocabulary):
            return DraftTree.root_only(state.token)
        masses = self.masses(state.hidden, self.embedding(state), state.text)
        if not torch.isfinite(masses).all():
            self.warn_not_finite(state)
            return DraftTree.root_only(state.token)
        num_nodes = max(budget.num_draft_tokens, CHAIN_SEARCH) if budget.chain_only else budget.num_draft_tokens
        tree = self._builder.grow_from(masses, state.token, num_nodes, budget.max_depth)
        return tree.best_chain().cut(budget.num_draft_tokens) if budget.chain_only else tree

    @torch.inference_mode()
    def masses(
        self, hidden: Float[Tensor, "1 feature"], embedding: Float[Tensor, "1 hidden"], text: Text | None = None
    ) -> Float[Tensor, " node"]:
        """For each node of the vocabulary's trie, the probability that the target goes on along its path."""
        if not self._masses.is_closed:
            return self._builder.masses(self.probabilities(hidden, embedding, text)[0])
        scores = self.scorer(hidden.to(self._device), embedding.to(self._device), text)[0]
        return self._masses.of(scores.float() / self.config.temperature)

    @torch.inference_mode()
    def probabilities(
        self,
        hidden: Float[Tensor, "batch feature"],
        embedding: Float[Tensor, "batch hidden"],
        text: Text | None = None,
    ) -> Float[Tensor, "batch phrase"]:
        """For each row, the probability of each phrase to be the longest the target goes on with."""
        scores = self.scorer(hidden.to(self._device), embedding.to(self._device), text)
        probabilities: Tensor = self.normaliser(scores.float() / self.config.temperature)
        return probabilities
