"""The token chain: the phrase head's trunk, single tokens for entries, and one step after the other.

The control for the phrase head: the same inputs, the same width, the same training, but its entries are single tokens
and a small recurrent cell looks further ahead, as in recurrent drafters (Zhang et al. 2024, 2403.09919).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters import head_file
from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.head_check import check_head
from phrasedraft.drafters.head_config import TOKEN_CHAIN, HeadConfig
from phrasedraft.drafters.phrase_head import PhraseState
from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.errors import HeadFileError, OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.tree.draft_tree import DraftTree

MAX_BEAM = 16
"""Most nodes of one level that are looked beyond; trees of fewer nodes than this are the very best trees."""


class TokenChain:
    """A drafter that scores single tokens for the next position, then for the one after each likely token, and so on.

    A draft takes up to `config.num_steps` steps, each one batched call. `propose` gives at most
    `budget.num_draft_tokens` nodes; nothing beside the root where the hidden state or the scores are not finite (with
    one warning) or there are no entries.
    """

    name = "token-chain"

    def __init__(self, *, scorer: ChainScorer, vocabulary: PhraseVocabulary, config: HeadConfig) -> None:
        if len(vocabulary) and vocabulary.max_tokens != 1:
            raise OptionError(
                f"the vocabulary has phrases of up to {vocabulary.max_tokens} tokens, a token chain's entries "
                "are single tokens"
            )
        self.scorer = scorer.eval()
        self.vocabulary = vocabulary
        self.config = config
        self._tokens: list[int] = vocabulary.phrase_tokens[:, 0].tolist() if len(vocabulary) else []
        self._device = scorer.output.weight.device
        self._has_warned = False

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "TokenChain":
        """The head in `folder`; `HeadFileError` says what is wrong with a folder that does not hold one."""
        config, tensors = head_file.read(Path(folder), TOKEN_CHAIN)
        vocabulary = PhraseVocabulary.from_tensor(tensors.pop(head_file.PHRASES))
        if len(vocabulary) and vocabulary.max_tokens != 1:
            raise HeadFileError(
                f"`{head_file.PHRASES}` in `{Path(folder) / head_file.WEIGHTS}` is {vocabulary.max_tokens} tokens "
                "wide, in a token chain it must be 1",
                hint="take the folder from where it came again",
            )
        scorer = ChainScorer(
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
        """How many weights the head has; the table of entries is not counted."""
        return sum(parameter.numel() for parameter in self.scorer.parameters())

    def check(self, target: TargetIdentity) -> None:
        """Refuse a target of another hidden size, vocabulary or tokenizer; warn of other weights or template."""
        check_head(self.name, self.config, target)

    def place(self, device: torch.device) -> None:
        """Move the weights to where the target's hidden states are."""
        self._device = device
        self.scorer.to(device)

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

    @torch.inference_mode()
    def propose(self, state: PhraseState, budget: DraftBudget) -> DraftTree:
        """The most probable nodes; where only a chain counts, the most probable token at each step."""
        size = budget.num_draft_tokens
        num_steps = min(self.config.num_steps, budget.max_depth, size)
        if num_steps <= 0 or not self._tokens:
            return DraftTree.root_only(state.token)
        draft = _Draft(size=size, width=1 if budget.chain_only else size)
        embedding = state.embed(torch.tensor([state.token], device=self._device))
        states = self.scorer.trunk(state.hidden.to(self._device), embedding.to(self._device))
        level = [0]
        for step in range(num_steps):
            probabilities = self.scorer.probabilities(states, self.config.temperature)
            if not torch.isfinite(probabilities[:, 0]).all():  # one that is not finite spoils its whole row
                self._warn_not_finite(state)
                return DraftTree.root_only(state.token)
            rows = draft.extend(level, probabilities)
            level = draft.newest(MAX_BEAM)
            if not level or step == num_steps - 1:
                break
            entries = torch.tensor([draft.entries[node] for node in level], device=self._device)
            states = self.scorer.advance(states[[rows[node] for node in level]], entries)
        return draft.tree(state.token, self._tokens)

    def _warn_not_finite(self, state: PhraseState) -> None:
        """Say once why nothing is drafted: else it would look like a head that is never right."""
        if self._has_warned:
            return
        self._has_warned = True
        weights, hidden = (
            str(tensor.dtype).removeprefix("torch.") for tensor in (self.scorer.output.weight, state.hidden)
        )
        cause = (
            f"its scores in {weights} are NaN or infinite: weights that overflow in this precision, or are damaged; "
            "leave the head in the precision it is loaded in"
            if torch.isfinite(state.hidden).all()
            else f"the target's hidden states in {hidden} are NaN or infinite: load the target in bfloat16 or float32"
        )
        warnings.warn(f"`{self.name}` drafts nothing where {cause}", stacklevel=3)


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
