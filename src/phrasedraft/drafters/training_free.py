"""What drafters without weights have in common: they fit every target, move nowhere and read no hidden states."""

import torch

from phrasedraft.errors import OptionError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity


class TrainingFree:
    """The parts of a drafter that one without weights does not need; `begin`, `propose` and `update` are its own."""

    features = FeatureSpec(layers=())

    def check(self, target: TargetIdentity) -> None:
        """Fits every target."""

    def place(self, device: torch.device) -> None:
        """There is nothing to move."""


def at_least_one(**settings: int) -> None:
    """Raise `OptionError` for a setting that is not a whole number of 1 or more."""
    for name, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise OptionError(f"`{name}` is `{value!r}`, it may be 1 or more, a whole number")
