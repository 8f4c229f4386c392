"""How a phrase chain learns: at every step the longest phrase that fits, each step given the true token before it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.head_config import PHRASE_CHAIN, HeadConfig
from phrasedraft.drafters.phrase_chain import PhraseChain, check_closed
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.calibration import calibrate
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import Examples, make_examples
from phrasedraft.training.step_learner import StepLearner
from phrasedraft.training.texts import BatchText
from phrasedraft.training.traces import Trace


@dataclass(frozen=True)
class PhraseChainExamples(Examples):
    """Examples that a chain can go on from: row i + 1 is the state one token later, unless i is an answer's last row.

    `following` is the entry of the next token alone, -1 where it has none or the next row is another answer's.
    """

    following: Int[Tensor, " row"]


class PhraseChainLearner(StepLearner):
    """Teaches a `PhraseChain` what follows each row, and what follows each of the next `num_steps` - 1 tokens."""

    def check(self, vocabulary: PhraseVocabulary) -> None:
        """Here, not after an epoch when the first head is made."""
        check_closed(vocabulary)

    @property
    def max_depth(self) -> int:
        """A whole phrase a step."""
        return self.num_draft_steps * self.vocabulary.max_tokens

    def examples(self, traces: Sequence[Trace], eos_token_ids: frozenset[int]) -> PhraseChainExamples:
        """One example for each row with a token after it."""
        examples = make_examples(traces, self.vocabulary, eos_token_ids, self.text_window)
        size = 1 + max(max(trace.tokens) for trace in traces)
        singles = self.vocabulary.phrase_tokens[self.vocabulary.lengths == 1, 0]
        entry_of = np.full(max(size, int(singles.max(initial=0)) + 1), -1, dtype=np.int64)
        entry_of[singles] = np.flatnonzero(self.vocabulary.lengths == 1)
        following = [np.append(entry_of[list(trace.tokens[1:-1])], -1) for trace in traces if len(trace.tokens) > 1]
        return PhraseChainExamples(**vars(examples), following=torch.from_numpy(np.concatenate(following)))

    def loss(
        self,
        scorer: PhraseScorer,
        trunk: Float[Tensor, "batch trunk"],
        examples: Examples,
        rows: Int[Tensor, " batch"],
        text: BatchText | None = None,
    ) -> Float[Tensor, ""]:
        """The sum over the steps; a row whose next token is no entry adds nothing to later steps."""
        assert isinstance(scorer, ChainScorer)
        assert isinstance(examples, PhraseChainExamples)
        total, states, places = trunk.new_zeros(()), trunk, rows
        for step in range(self.num_steps):
            share = len(places) / len(rows)
            total = total + share * self._loss(scorer, states, examples.longest[places], examples.open_ended[places])
            entries = examples.following[places]
            goes_on = entries >= 0
            if step == self.num_steps - 1 or not bool(goes_on.any()):
                break
            text = text.of(goes_on) if text is not None else None
            states, places = scorer.advance(states[goes_on], entries[goes_on], text), places[goes_on] + 1
        return total

    def calibrate(self, scorer: PhraseScorer, examples: Examples, embedding: EmbeddingTable) -> float:
        """The temperature under which the first step of `examples` is most probable."""
        return calibrate(scorer, self.normaliser, examples, embedding)

    def head(self, scorer: PhraseScorer, config: HeadConfig) -> PhraseChain:
        """The drafter these weights make."""
        assert isinstance(scorer, ChainScorer)
        config = replace(config, kind=PHRASE_CHAIN, num_steps=self.num_draft_steps)
        return PhraseChain(scorer=scorer, vocabulary=self.vocabulary, config=config)
