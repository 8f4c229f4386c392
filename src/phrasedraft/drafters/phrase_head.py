"""The phrase head: one step from the target's hidden state to whole phrases."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from phrasedraft.drafters import head_file
from phrasedraft.drafters.head_check import check_head
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.tree.build import PhraseTreeBuilder
from phrasedraft.tree.draft_tree import DraftTree

CHAIN_SEARCH = 64
"""How many nodes are looked at to find one path: a tree as small as the path would spread over its first tokens."""


class PhraseScorer(nn.Module):
    """Scores every phrase from the target's hidden state and the embedding of the token it has just chosen.

    Two layers of `trunk_width`, then one row and one bias a phrase: 3,433,792 parameters for 8,000 phrases at hidden
    size 2560.
    """

    def __init__(
        self, *, feature_size: int, hidden_size: int, num_phrases: int, trunk_width: int = 256, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.enter = nn.Linear(feature_size + hidden_size, trunk_width)
        self.enter_norm = nn.LayerNorm(trunk_width)
        self.mix = nn.Linear(trunk_width, trunk_width)
        self.mix_norm = nn.LayerNorm(trunk_width)
        self.dropout = nn.Dropout(dropout)  # in training only
        self.output = nn.Linear(trunk_width, num_phrases)

    def trunk(
        self, hidden: Float[Tensor, "batch feature"], embedding: Float[Tensor, "batch hidden"]
    ) -> Float[Tensor, "batch trunk"]:
        """What the output rows are compared with. Inputs of any precision are cast to the weights'."""
        weight = self.enter.weight
        x = torch.cat([hidden.to(weight), embedding.to(weight)], dim=-1)
        x = self.dropout(F.silu(self.enter_norm(self.enter(x))))
        mixed: Tensor = self.dropout(self.mix_norm(x + F.silu(self.mix(x))))
        return mixed

    def forward(
        self, hidden: Float[Tensor, "batch feature"], embedding: Float[Tensor, "batch hidden"]
    ) -> Float[Tensor, "batch phrase"]:
        """One score a phrase; `PrefixSoftmax` turns them into probabilities."""
        scores: Tensor = self.output(self.trunk(hidden, embedding))
        return scores


@dataclass
class PhraseState:
    """What one sequence needs for its next draft: the last token, the row that produced it, the target's embedding."""

    hidden: Float[Tensor, "1 feature"]
    token: int
    embed: Embed


class PhraseHead:
    """A drafter that scores the phrases of its vocabulary once a pass and drafts the most probable of them.

    `propose` gives at most `budget.num_draft_tokens` nodes; nothing beside the root where the hidden state or the
    scores are not finite (with one warning) or the vocabulary is empty.
    """

    name = "phrase-head"

    def __init__(self, *, scorer: PhraseScorer, vocabulary: PhraseVocabulary, config: HeadConfig) -> None:
        self.scorer = scorer.eval()
        self.vocabulary = vocabulary
        self.config = config
        self.normaliser = PrefixSoftmax(vocabulary.trie)
        self._builder = PhraseTreeBuilder(vocabulary.trie)
        self._device = scorer.output.weight.device
        self._has_warned = False

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "PhraseHead":
        """The head in `folder`; `HeadFileError` says what is wrong with a folder that does not hold one."""
        config, tensors = head_file.read(Path(folder))
        vocabulary = PhraseVocabulary.from_tensor(tensors.pop(head_file.PHRASES))
        scorer = PhraseScorer(
            feature_size=len(config.target_layers) * config.target_hidden_size,
            hidden_size=config.target_hidden_size,
            num_phrases=len(vocabulary),
            trunk_width=config.trunk_width,
        )
        head_file.load_weights(scorer, tensors, Path(folder))
        return cls(scorer=scorer, vocabulary=vocabulary, config=config)

    def save_pretrained(self, folder: str | Path, *, dtype: torch.dtype = torch.float16) -> None:
        """Write the head to `folder`, whole or not at all."""
        tensors = {name: tensor.detach().cpu().to(dtype) for name, tensor in self.scorer.state_dict().items()}
        head_file.refuse_overflow(tensors)
        tensors[head_file.PHRASES] = self.vocabulary.to_tensor()
        head_file.write(Path(folder), self.config, tensors)

    @property
    def features(self) -> FeatureSpec:
        """The layers the head was trained on."""
        return FeatureSpec(layers=self.config.target_layers)

    @property
    def num_parameters(self) -> int:
        """How many weights the head has; the phrase table is not counted."""
        return sum(parameter.numel() for parameter in self.scorer.parameters())

    def check(self, target: TargetIdentity) -> None:
        """Refuse a target of another hidden size, vocabulary or tokenizer; warn of other weights or template."""
        check_head(self.name, self.config, target)

    def place(self, device: torch.device) -> None:
        """Move the weights to where the target's hidden states are."""
        self._device = device
        self.scorer.to(device)
        self.normaliser.to(device)

    def begin(
        self,
        prompt: Sequence[int],  # noqa: ARG002 - the head reads the last row only
        committed: int,
        hidden: Float[Tensor, "row feature"],
        embed: Embed,
    ) -> PhraseState:
        """The state before the first draft; earlier rows than the last are not read."""
        return PhraseState(hidden=hidden[-1:], token=committed, embed=embed)

    def update(self, state: PhraseState, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:
        """Go on from the last committed token."""
        if committed:
            state.hidden, state.token = hidden[-1:], committed[-1]

    def propose(self, state: PhraseState, budget: DraftBudget) -> DraftTree:
        """The most probable phrases, merged into one tree; one path where only a chain counts."""
        if budget.num_draft_tokens <= 0 or budget.max_depth <= 0 or not len(self.vocabulary):
            return DraftTree.root_only(state.token)
        token = torch.tensor([state.token], device=self._device)
        probabilities = self.probabilities(state.hidden, state.embed(token))[0]
        if not torch.isfinite(probabilities).all():
            self._warn_not_finite(state)
            return DraftTree.root_only(state.token)
        num_nodes = max(budget.num_draft_tokens, CHAIN_SEARCH) if budget.chain_only else budget.num_draft_tokens
        tree = self._builder.grow(probabilities, state.token, num_nodes, budget.max_depth)
        return tree.best_chain().cut(budget.num_draft_tokens) if budget.chain_only else tree

    def _warn_not_finite(self, state: PhraseState) -> None:
        """Say once why nothing is drafted: else it would look like a head that is never right."""
        if self._has_warned:
            return
        self._has_warned = True
        inputs = torch.isfinite(state.hidden).all()
        cause = (
            f"its scores in {str(self.scorer.output.weight.dtype).removeprefix('torch.')} are NaN or infinite: weights "
            "that overflow in this precision, or are damaged; leave the head in the precision it is loaded in"
            if inputs
            else f"the target's hidden states in {str(state.hidden.dtype).removeprefix('torch.')} are NaN or infinite: "
            "load the target in bfloat16 or float32"
        )
        warnings.warn(f"`{self.name}` drafts nothing where {cause}", stacklevel=3)

    @torch.inference_mode()
    def probabilities(
        self, hidden: Float[Tensor, "batch feature"], embedding: Float[Tensor, "batch hidden"]
    ) -> Float[Tensor, "batch phrase"]:
        """For each row, the probability of each phrase to be the longest the target goes on with."""
        scores = self.scorer(hidden.to(self._device), embedding.to(self._device))
        probabilities: Tensor = self.normaliser(scores.float() / self.config.temperature)
        return probabilities
