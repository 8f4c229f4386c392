"""What heads that draft step by step have in common when they learn."""

from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.composed_output import RowSettings
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.phrases import PhraseVocabulary
from phrasedraft.training.losses import LossSettings, PhraseLoss


class StepLearner:
    """Entries, the loss of one step, and the number of steps: `num_steps` are learnt, `num_draft_steps` drafted."""

    scorer_class = ChainScorer

    def __init__(
        self,
        vocabulary: PhraseVocabulary,
        settings: LossSettings,
        num_steps: int,
        num_draft_steps: int,
        rows: RowSettings | None = None,
        text_window: int = 0,
    ) -> None:
        self.check(vocabulary)
        self.vocabulary = vocabulary
        self.rows, self.text_window = rows or RowSettings(), text_window
        self.normaliser = PrefixSoftmax(vocabulary.trie)
        self.num_steps, self.num_draft_steps = num_steps, num_draft_steps
        self._loss = PhraseLoss(self.normaliser, settings)

    def check(self, vocabulary: PhraseVocabulary) -> None:
        """Raise `OptionError` for entries such a head cannot have; all are fine unless a kind says otherwise."""
