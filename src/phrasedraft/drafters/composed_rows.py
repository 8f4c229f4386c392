"""Output rows for tokens a head was not trained to draft, composed from the target's own embeddings."""

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.protocol import Embed
from phrasedraft.drafters.trained_head import HeadState, TrainedHead
from phrasedraft.phrases.vocabulary import PhraseVocabulary

RIDGE = 0.01
"""How much the regression is held back, relative to the mean variance of an embedding's numbers."""


class ComposedRows:
    """A linear map from the target's input embeddings to a head's output rows, fitted to the head's single tokens.

    A ridge regression in closed form: no training, and the same numbers each time. A row is the map of the token's
    embedding. A bias is such that the head, at the state its last norm is centred on, would give the token the share
    it has of the session's tokens.
    """

    def __init__(self, head: TrainedHead, embed: Embed, *, left_out: Sequence[int] = ()) -> None:
        """Fitted to all single-token entries but `left_out`, which are then no part of the head's normaliser either."""
        self.embed = embed
        self._head = head
        singles, others = _first_entries(head.vocabulary, set(left_out))
        tokens = torch.tensor([head.vocabulary.expand(entry)[0] for entry in singles], dtype=torch.long)
        head.scorer.see(embed)
        with torch.inference_mode():
            output, self._device = head.scorer.output, head.scorer.output.weight.device
            self._own = output.weight[singles + others].float()
            self._own_bias = output.bias[singles + others].float()
            self._centre = head.scorer.last_norm.bias.float()
            self._log_sum = self._log_own_sum(self._centre[None])[0]
            self._fit(self._own[: len(singles)], tokens)

    def compose(self, tokens: Sequence[int]) -> Float[Tensor, "token trunk"]:
        """The rows of some tokens."""
        with torch.inference_mode():
            embeddings = self.embed(torch.tensor(tokens, dtype=torch.long, device=self._device)).to(self._own)
            rows: Tensor = (embeddings - self._mean_embedding) @ self._map + self._mean_row
            return rows

    def biases(self, rows: Float[Tensor, "token trunk"], shares: Float[Tensor, " token"]) -> Float[Tensor, " token"]:
        """The biases that go with rows, from the share each token has of the session's tokens."""
        with torch.inference_mode():
            shares = shares.to(rows).clamp(min=1e-9)
            return self._head.config.temperature * (shares.log() + self._log_sum) - rows @ self._centre

    def probabilities(
        self, state: HeadState, rows: Float[Tensor, "token trunk"], biases: Float[Tensor, " token"]
    ) -> Float[Tensor, " token"]:
        """The probability of each token to come next: among the head's first tokens, these, and 1 for none of them."""
        with torch.inference_mode():
            return self.from_trunk(self._head.first_state(state), rows, biases)[0]

    def from_trunk(
        self, trunk: Float[Tensor, "batch trunk"], rows: Float[Tensor, "token trunk"], biases: Float[Tensor, " token"]
    ) -> Float[Tensor, "batch token"]:
        """The same for states of the head's trunk."""
        with torch.inference_mode():
            scores = (trunk.float() @ rows.T + biases) / self._head.config.temperature
            log_sums = torch.logaddexp(self._log_own_sum(trunk.float()), scores.logsumexp(dim=1))
            return (scores - log_sums[:, None]).exp()

    def _log_own_sum(self, trunk: Float[Tensor, "batch trunk"]) -> Float[Tensor, " batch"]:
        """The log of the sum over what the head may begin with, and of 1 for leaving."""
        scores = (trunk @ self._own.T + self._own_bias) / self._head.config.temperature
        return torch.logaddexp(scores.logsumexp(dim=1), scores.new_zeros(len(trunk)))

    def _fit(self, rows: Float[Tensor, "token trunk"], tokens: Tensor) -> None:
        embeddings = self.embed(tokens.to(self._device)).to(rows)
        number = max(len(tokens), 1)
        self._mean_embedding, self._mean_row = embeddings.sum(dim=0) / number, rows.sum(dim=0) / number
        centred = embeddings - self._mean_embedding
        squares = centred.T @ centred
        squares.diagonal().add_(RIDGE * squares.diagonal().mean() + 1e-6)  # of one token nothing is left
        self._map = torch.linalg.solve(squares, centred.T @ (rows - self._mean_row))


def _first_entries(vocabulary: PhraseVocabulary, left_out: Collection[int]) -> tuple[list[int], list[int]]:
    """The entries that a text may go on with first, which begin with no other entry: single tokens, and the rest."""
    phrases = [vocabulary.expand(entry) for entry in range(len(vocabulary))]
    known = set(phrases)
    first = [
        entry
        for entry, phrase in enumerate(phrases)
        if phrase[0] not in left_out and not any(phrase[:length] in known for length in range(1, len(phrase)))
    ]
    singles = [entry for entry in first if len(phrases[entry]) == 1]
    return singles, [entry for entry in first if len(phrases[entry]) > 1]
