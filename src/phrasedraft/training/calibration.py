"""The temperature of a head: how sharp its probabilities have to be so that they come true."""

import torch

from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import Examples
from phrasedraft.training.losses import LossSettings, PhraseLoss

TEMPERATURES = tuple(round(0.6 + 0.05 * step, 2) for step in range(29))
ROWS_AT_ONCE = 1024


@torch.inference_mode()
def calibrate(scorer: PhraseScorer, normaliser: PrefixSoftmax, examples: Examples, embedding: EmbeddingTable) -> float:
    """The one of `TEMPERATURES` under which held-out `examples` are most probable."""
    loss = PhraseLoss(normaliser, LossSettings())
    totals = torch.zeros(len(TEMPERATURES))
    for start in range(0, len(examples), ROWS_AT_ONCE):
        rows = torch.arange(start, min(start + ROWS_AT_ONCE, len(examples)))
        text = examples.view(rows, scorer.reader, embedding)
        scores = scorer(examples.hidden[rows], embedding(examples.tokens[rows]), text)
        for index, temperature in enumerate(TEMPERATURES):
            value = loss.dense(scores / temperature, examples.longest[rows], examples.open_ended[rows])
            totals[index] += value * len(scores)
    return TEMPERATURES[int(totals.argmin())]
