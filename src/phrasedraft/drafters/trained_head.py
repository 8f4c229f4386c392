"""What heads have in common: weights and entries in a folder, a target they were made for, the last row as state."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters import head_file
from phrasedraft.drafters.composed_output import make_output
from phrasedraft.drafters.head_check import check_head
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.protocol import Embed
from phrasedraft.drafters.text_reader import OpenText, make_reader
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity

H = TypeVar("H", bound="TrainedHead")


@dataclass
class HeadState:
    """What one sequence needs for its next draft: the last token, the row that produced it, the target's embedding.

    `text` is what a head that reads can see.
    """

    hidden: Float[Tensor, "1 feature"]
    token: int
    embed: Embed
    text: OpenText | None = None

    def go_on(self, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:
        """Take in what was committed, and the rows that produced it."""
        if committed:
            self.hidden, self.token = hidden[-1:].clone(), committed[-1]
            if self.text is not None:
                self.text.append(committed)


class TrainedHead:
    """Everything of a head but its drafts: a subclass names its `kind` and weights, and has `propose`.

    `kind` is the `speculators_model_type` of its folder.
    """

    name: str
    kind: ClassVar[str]
    scorer_class: ClassVar[type[PhraseScorer]]

    def __init__(self, *, scorer: PhraseScorer, vocabulary: PhraseVocabulary, config: HeadConfig) -> None:
        self.scorer = scorer.eval()
        self.vocabulary = vocabulary
        self.config = config
        self._device = scorer.enter.weight.device
        self._has_warned = False

    @classmethod
    def from_pretrained(cls: type[H], folder: str | Path) -> H:  # `Self` is more than run-time checks understand
        """The head in `folder`; `HeadFileError` says what is wrong with a folder that does not hold one."""
        config, tensors = head_file.read(Path(folder), cls.kind)
        vocabulary = PhraseVocabulary.from_tensor(tensors.pop(head_file.PHRASES))
        cls.check_entries(vocabulary, Path(folder))
        scorer = cls.scorer_class(
            feature_size=len(config.target_layers) * config.target_hidden_size,
            hidden_size=config.target_hidden_size,
            num_phrases=len(vocabulary),
            trunk_width=config.trunk_width,
            output=make_output(
                config.output,
                vocabulary,
                hidden_size=config.target_hidden_size,
                trunk_width=config.trunk_width,
            ),
            reader=make_reader(config.text_window, config.target_hidden_size, config.trunk_width),
        )
        head_file.load_weights(scorer, tensors, Path(folder))
        return cls(scorer=scorer, vocabulary=vocabulary, config=config)

    @classmethod
    def check_entries(cls, vocabulary: PhraseVocabulary, folder: Path) -> None:
        """Raise `HeadFileError` where the entries in `folder` are none of this kind's; every phrase is, as a rule."""

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
        prompt: Sequence[int],
        committed: int,
        hidden: Float[Tensor, "row feature"],
        embed: Embed,
    ) -> HeadState:
        """The state before the first draft; earlier rows than the last are not read."""
        self.scorer.see(embed)
        reader = self.scorer.reader
        text = OpenText(reader, embed, [*prompt, committed]) if reader is not None else None
        return HeadState(hidden=hidden[-1:].clone(), token=committed, embed=embed, text=text)

    def update(self, state: HeadState, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:
        """Go on from the last committed token."""
        state.go_on(committed, hidden)

    def first_state(self, state: HeadState) -> Float[Tensor, "1 trunk"]:
        """What the output rows are compared with for the next token."""
        trunk: Tensor = self.scorer.trunk(
            state.hidden.to(self._device), self.embedding(state).to(self._device), state.text
        )
        return trunk

    def embedding(self, state: HeadState) -> Float[Tensor, "1 hidden"]:
        """The target's embedding of the last token."""
        return state.embed(torch.tensor([state.token], device=self._device))

    def warn_not_finite(self, state: HeadState) -> None:
        """Say once why nothing is drafted: else it would look like a head that is never right."""
        if self._has_warned:
            return
        self._has_warned = True
        weights, hidden = (
            str(tensor.dtype).removeprefix("torch.") for tensor in (self.scorer.enter.weight, state.hidden)
        )
        cause = (
            f"its scores in {weights} are NaN or infinite: weights that overflow in this precision, or are damaged; "
            "leave the head in the precision it is loaded in"
            if torch.isfinite(state.hidden).all()
            else f"the target's hidden states in {hidden} are NaN or infinite: load the target in bfloat16 or float32"
        )
        warnings.warn(f"`{self.name}` drafts nothing where {cause}", stacklevel=3)
