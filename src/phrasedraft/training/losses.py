"""What the phrase head is trained on: every phrase the true text begins with, and where it leaves the phrases."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """Weights of the two parts of the loss.

    `longest` weighs the cross-entropy of the longest phrase that fits. `mass` weighs the mean of -log(mass) over all
    phrases that fit: as every one of them goes through the first, most of that weight lies on the first token.
    """

    longest: float = 1.0
    mass: float = 0.0

    def __post_init__(self) -> None:
        if self.longest < 0 or self.mass < 0 or self.longest + self.mass == 0:
            raise OptionError(f"loss weights are {self.longest} and {self.mass}, they may not be negative nor both 0")


class PhraseLoss:
    """The loss of one batch, given how the phrases begin with one another."""

    def __init__(self, normaliser: PrefixSoftmax, settings: LossSettings) -> None:
        self._normaliser = normaliser
        self._settings = settings
        self._paths = normaliser.paths()

    def __call__(
        self,
        scores: Float[Tensor, "batch phrase"],
        longest: Int[Tensor, " batch"],
        open_ended: Bool[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """The weighted mean over the batch; the step out of the phrases is left out where the text is cut off there."""
        log_choices, log_stop = self._log_steps(scores, longest)
        log_masses = log_choices.cumsum(dim=1)
        on_path = self._path(longest) >= 0
        longest_term = log_choices.sum(dim=1) + torch.where(open_ended, 0.0, log_stop)
        num_prefixes = on_path.sum(dim=1).clamp(min=1)
        mass_term = torch.where(on_path, log_masses, 0.0).sum(dim=1) / num_prefixes
        return -(self._settings.longest * longest_term + self._settings.mass * mass_term).mean()

    def _path(self, longest: Int[Tensor, " batch"]) -> Int[Tensor, "batch level"]:
        """The phrases the continuation begins with, shortest first, padded with -1."""
        if not len(self._paths):
            return torch.full((len(longest), 1), -1)
        return torch.where((longest >= 0)[:, None], self._paths[longest.clamp(min=0)], -1)

    def _log_steps(
        self, scores: Float[Tensor, "batch phrase"], longest: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch level"], Float[Tensor, " batch"]]:
        """The log-probability of each true choice among siblings (0 in padding), and of leaving after the longest."""
        path = self._path(longest)
        log_sums = self._normaliser.log_sums(scores)
        root = log_sums.shape[1] - 1
        before = torch.cat([torch.full_like(path[:, :1], root), path[:, :-1]], dim=1)
        steps = scores.gather(1, path.clamp(min=0)) - log_sums.gather(1, before.clamp(min=0))
        last = torch.where(longest >= 0, longest, root)
        return torch.where(path >= 0, steps, 0.0), -log_sums.gather(1, last[:, None])[:, 0]
