"""How a token chain learns: the most frequent tokens, and cross-entropy over the next few of them, teacher forced."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from rich.console import Console
from torch import Tensor

from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.head_config import TOKEN_CHAIN, HeadConfig
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.token_chain import TokenChain
from phrasedraft.phrases import PhraseVocabulary, VocabularySettings
from phrasedraft.training.calibration import ROWS_AT_ONCE, TEMPERATURES
from phrasedraft.training.chain_examples import UNKNOWN, ChainExamples, make_chain_examples
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import Examples
from phrasedraft.training.fit_target import FitTarget
from phrasedraft.training.step_learner import StepLearner
from phrasedraft.training.texts import BatchText
from phrasedraft.training.traces import Trace

CALIBRATED_ROWS = 8192
"""How many held-out rows the temperature is found on; each has several steps."""


class ChainLearner(StepLearner):
    """Teaches a `TokenChain` the next `num_steps` tokens of each row, each step given the true token before it.

    Single tokens have no beginnings in common, so the loss of a step is that of a phrase head whose phrases are these
    tokens: one softmax over all of them and over "a token outside". The chain drafts `num_draft_steps`.
    """

    @property
    def max_depth(self) -> int:
        """One token a step."""
        return self.num_draft_steps

    def examples(self, traces: Sequence[Trace], eos_token_ids: frozenset[int]) -> ChainExamples:
        """One example for each row with a token after it."""
        return make_chain_examples(traces, self.vocabulary, eos_token_ids, self.num_steps, self.text_window)

    def loss(
        self,
        scorer: PhraseScorer,
        trunk: Float[Tensor, "batch trunk"],
        examples: Examples,
        rows: Int[Tensor, " batch"],
        text: BatchText | None = None,
    ) -> Float[Tensor, ""]:
        """The sum over the steps, each weighted alike; a row that has stopped adds nothing to later steps."""
        assert isinstance(scorer, ChainScorer)
        assert isinstance(examples, ChainExamples)
        total, states, following = trunk.new_zeros(()), trunk, examples.following[rows]
        for step in range(self.num_steps):
            entries = following[:, step]
            share = len(entries) / len(rows)
            total = total + share * self._loss(scorer, states, entries.clamp(min=-1), entries == UNKNOWN)
            goes_on = entries >= 0
            if step == self.num_steps - 1 or not bool(goes_on.any()):
                break
            text = text.of(goes_on) if text is not None else None
            states, following = scorer.advance(states[goes_on], entries[goes_on], text), following[goes_on]
        return total

    @torch.inference_mode()
    def calibrate(self, scorer: PhraseScorer, examples: Examples, embedding: EmbeddingTable) -> float:
        """The one of `TEMPERATURES` under which all steps of evenly spaced `examples` are most probable."""
        assert isinstance(scorer, ChainScorer)
        assert isinstance(examples, ChainExamples)
        totals = torch.zeros(len(TEMPERATURES), dtype=torch.float64)
        rows = torch.arange(0, len(examples), max(len(examples) // CALIBRATED_ROWS, 1))
        for batch in torch.split(rows, ROWS_AT_ONCE):
            text = examples.view(batch, scorer.reader, embedding)
            states = scorer.trunk(examples.hidden[batch], embedding(examples.tokens[batch]), text)
            following = examples.following[batch]
            for entries in following.unbind(dim=1):
                known = entries != UNKNOWN
                totals += _losses(scorer.output(states[known]), entries[known])
                states = scorer.advance(states, entries.clamp(min=0), text)
        return TEMPERATURES[int(totals.argmin())]

    def head(self, scorer: PhraseScorer, config: HeadConfig) -> TokenChain:
        """The drafter these weights make."""
        assert isinstance(scorer, ChainScorer)
        config = replace(config, kind=TOKEN_CHAIN, num_steps=self.num_draft_steps)
        return TokenChain(scorer=scorer, vocabulary=self.vocabulary, config=config)


def _losses(scores: Float[Tensor, "row phrase"], entries: Int[Tensor, " row"]) -> Float[Tensor, " temperature"]:
    """The summed cross-entropy of `entries` (-1 for outside, whose score is 0) under each of `TEMPERATURES`."""
    scores = F.pad(scores, (0, 1))
    picked = scores.gather(1, (entries % scores.shape[1])[:, None]).sum()
    return torch.stack([(scores / each).logsumexp(dim=1).sum() - picked / each for each in TEMPERATURES])


def frequent_tokens(
    target: FitTarget,  # noqa: ARG001 - tokens are told apart without it
    traces: Sequence[Trace],
    settings: VocabularySettings,
    console: Console,
) -> PhraseVocabulary:
    """The `settings.num_phrases` most frequent tokens of the answers trained on, the most frequent first."""
    counts = Counter(token for trace in traces for token in trace.tokens)
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    vocabulary = PhraseVocabulary.from_phrases([(token,) for token in ranked[: settings.num_phrases]])
    share = sum(counts[token] for token in ranked[: settings.num_phrases]) / counts.total()
    console.print(f"vocabulary: {len(vocabulary):,} tokens, {share:.1%} of what the answers hold", soft_wrap=True)
    return vocabulary


def single_tokens(vocabulary: PhraseVocabulary, console: Console) -> PhraseVocabulary:
    """The phrases of one token, which are the entries of a token chain where phrases are given."""
    tokens = vocabulary.phrase_tokens[vocabulary.lengths == 1, :1]
    if len(tokens) < len(vocabulary):
        console.print(f"vocabulary: {len(tokens):,} of {len(vocabulary):,} phrases are single tokens", soft_wrap=True)
    return PhraseVocabulary(tokens)
