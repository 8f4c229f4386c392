"""How a phrase head learns: mined phrases, the longest one that fits each row, the sibling softmax."""

from collections.abc import Sequence

from jaxtyping import Float, Int
from rich.console import Console
from torch import Tensor

from phrasedraft.drafters.composed_output import RowSettings
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.errors import OptionError
from phrasedraft.phrases import PhraseVocabulary, TokenPieces, VocabularySettings, mine
from phrasedraft.training.calibration import calibrate
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import Examples, make_examples
from phrasedraft.training.fit_target import FitTarget
from phrasedraft.training.losses import LossSettings, PhraseLoss
from phrasedraft.training.texts import BatchText
from phrasedraft.training.traces import Trace


class PhraseLearner:
    """Teaches a `PhraseHead` the longest phrase each row goes on with."""

    scorer_class = PhraseScorer

    def __init__(
        self,
        vocabulary: PhraseVocabulary,
        settings: LossSettings,
        rows: RowSettings | None = None,
        text_window: int = 0,
    ) -> None:
        self.vocabulary = vocabulary
        self.rows, self.text_window = rows or RowSettings(), text_window
        self.normaliser = PrefixSoftmax(vocabulary.trie)
        self._loss = PhraseLoss(self.normaliser, settings)

    @property
    def max_depth(self) -> int:
        """The longest phrase."""
        return self.vocabulary.max_tokens

    def examples(self, traces: Sequence[Trace], eos_token_ids: frozenset[int]) -> Examples:
        """One example for each row with a token after it."""
        return make_examples(traces, self.vocabulary, eos_token_ids, self.text_window)

    def loss(
        self,
        scorer: PhraseScorer,
        trunk: Float[Tensor, "batch trunk"],
        examples: Examples,
        rows: Int[Tensor, " batch"],
        text: BatchText | None = None,  # noqa: ARG002 - the trunk has read it
    ) -> Float[Tensor, ""]:
        """The mean loss of the choices that lead to each row's longest phrase."""
        return self._loss(scorer, trunk, examples.longest[rows], examples.open_ended[rows])

    def calibrate(self, scorer: PhraseScorer, examples: Examples, embedding: EmbeddingTable) -> float:
        """The temperature under which `examples` are most probable."""
        return calibrate(scorer, self.normaliser, examples, embedding)

    def head(self, scorer: PhraseScorer, config: HeadConfig) -> PhraseHead:
        """The drafter these weights make."""
        return PhraseHead(scorer=scorer, vocabulary=self.vocabulary, config=config)


def mine_answers(
    target: FitTarget, traces: Sequence[Trace], settings: VocabularySettings, console: Console
) -> PhraseVocabulary:
    """The phrases of the answers trained on."""
    if target.tokenizer is None:
        raise OptionError("the target was given without a tokenizer, which mining needs to see words")
    pieces = TokenPieces.from_tokenizer(target.tokenizer, target.identity.vocab_size)
    vocabulary = mine([trace.tokens for trace in traces], pieces, settings)
    console.print(f"vocabulary: {len(vocabulary):,} phrases of up to {vocabulary.max_tokens} tokens", soft_wrap=True)
    return vocabulary
