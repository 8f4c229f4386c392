"""What is particular to one kind of head when it is trained; everything else of a training run is the same for all."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from phrasedraft.drafters.composed_output import RowSettings
from phrasedraft.drafters.head import Head
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import Examples
from phrasedraft.training.texts import BatchText
from phrasedraft.training.traces import Trace


@runtime_checkable
class Learner(Protocol):
    """How heads of one kind learn the entries of `vocabulary`: their examples, weights, loss and temperature."""

    vocabulary: PhraseVocabulary
    normaliser: PrefixSoftmax
    """How the scores of the entries become probabilities."""
    rows: RowSettings
    """Where the output rows come from."""
    text_window: int
    """How many tokens back a head sees the text, 0 for not at all."""

    @property
    def scorer_class(self) -> type[PhraseScorer]:
        """The weights."""
        ...

    @property
    def max_depth(self) -> int:
        """How many tokens a draft may be long."""
        ...

    def examples(self, traces: Sequence[Trace], eos_token_ids: frozenset[int]) -> Examples:
        """One example for each row of `traces` that a draft could be made from."""
        ...

    def loss(
        self,
        scorer: PhraseScorer,
        trunk: Float[Tensor, "batch trunk"],
        examples: Examples,
        rows: Int[Tensor, " batch"],
        text: BatchText | None = None,
    ) -> Float[Tensor, ""]:
        """The mean loss over `rows` of `examples`, whose trunk is given, and the text they see."""
        ...

    def calibrate(self, scorer: PhraseScorer, examples: Examples, embedding: EmbeddingTable) -> float:
        """The temperature under which `examples`, which were held out, are most probable."""
        ...

    def head(self, scorer: PhraseScorer, config: HeadConfig) -> Head:
        """The drafter these weights make."""
        ...
