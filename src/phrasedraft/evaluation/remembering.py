"""A phrase head that scores each row once, however often it is replayed."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.drafters.text_reader import Text

MEMORY_BYTES = 64 << 20
"""Scores of earlier rows are forgotten, oldest first, beyond this."""


class RememberingScorer(PhraseScorer):
    """The scores of another scorer, kept by the bits of its input: asked again, it gives the very same numbers.

    Rows are not scored in batches, which would be faster still: a product of another shape may round otherwise, and a
    replay is to draft what the decoding loop drafts.
    """

    def __init__(self, scorer: PhraseScorer) -> None:
        nn.Module.__init__(self)  # the weights are those of `scorer`, so none are made
        self.scorer = scorer
        self.enter, self.output, self.reader = scorer.enter, scorer.output, None
        self._known: dict[bytes, Tensor] = {}
        self._num_bytes = 0
        self.num_scored = 0

    def forward(
        self,
        hidden: Float[Tensor, "batch feature"],
        embedding: Float[Tensor, "batch hidden"],
        text: Text | None = None,  # noqa: ARG002 - the scorer does not read
    ) -> Float[Tensor, "batch phrase"]:
        """One score a phrase."""
        key = _bits(hidden) + _bits(embedding)
        if key not in self._known:
            self.num_scored += len(hidden)
            self._keep(key, self.scorer(hidden, embedding))
        return self._known[key]

    def _keep(self, key: bytes, scores: Tensor) -> None:
        self._known[key] = scores
        self._num_bytes += scores.nbytes
        while self._num_bytes > MEMORY_BYTES and len(self._known) > 1:
            self._num_bytes -= self._known.pop(next(iter(self._known))).nbytes


def for_replay(drafter: Drafter) -> tuple[Drafter, Drafter | None]:
    """`drafter` as it is and with temperature 1, both ready to be replayed often; None where it has no temperature.

    Phrase heads remember their scores, and both share them; any other drafter is given back unchanged.
    """
    if type(drafter) is not PhraseHead:  # what a subclass does with scores is not known here
        return drafter, None
    # Where the text is read, the same row is scored once only, in its own place.
    scorer = RememberingScorer(drafter.scorer) if drafter.scorer.reader is None else drafter.scorer
    heads = [
        PhraseHead(scorer=scorer, vocabulary=drafter.vocabulary, config=config)
        for config in (drafter.config, replace(drafter.config, temperature=1.0))
    ]
    return heads[0], heads[1]


def _bits(rows: Tensor) -> bytes:
    return rows.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
