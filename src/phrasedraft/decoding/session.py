"""A conversation's place in the target's cache, kept from one turn to the next."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from phrasedraft.errors import OptionError, PhraseDraftError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import Target, TargetSequence


@runtime_checkable
class Changing(Protocol):
    """A target whose weights may change between two texts."""

    def weights_stamp(self) -> object:
        """Changes with them."""
        ...


class Session:
    """The tokens that are in the target's cache, so that a next prompt that begins with them reads only the rest.

    `sequence` may be one that was begun elsewhere and holds `cached_tokens`.

    A session is settled between passes. One that was left in the middle of a pass, by an error or an interrupt, starts
    afresh at its next prompt, and so does one whose target's weights have changed. It serves one answer at a time: the
    next prompt ends the one before.
    """

    def __init__(
        self,
        target: Target,
        features: FeatureSpec,
        *,
        sequence: TargetSequence | None = None,
        cached_tokens: Sequence[int] = (),
    ) -> None:
        self._target = target
        self._features = features
        self._sequence = sequence or target.start(features)
        self._text = list(cached_tokens)
        self._is_settled = True
        self._weights: object = None  # of no text yet
        self.turn = 0

    @property
    def num_cached_tokens(self) -> int:
        """How many tokens of the conversation are in the cache."""
        return self._sequence.num_cached_tokens if self._is_settled else 0

    def open(self, prompt: Sequence[int]) -> tuple[TargetSequence, list[int]]:
        """The sequence, cut back to what it shares with `prompt`, and the tokens it still has to read (one or more)."""
        shared = 0
        for cached, token in zip(self._text[: self.num_cached_tokens], prompt[:-1], strict=False):
            if cached != token:
                break
            shared += 1
        weights = self._stamp()
        has_changed = self._weights is not None and weights != self._weights
        if not self._is_settled or has_changed or not self._sequence.crop(shared):
            self._sequence = self._target.start(self._features)
            shared = 0
        self._text = list(prompt)
        self._weights = weights
        self._is_settled = False
        self.turn += 1
        return self._sequence, list(prompt[shared:])

    def _stamp(self) -> object:
        return self._target.weights_stamp() if isinstance(self._target, Changing) else None

    def check(self, target: Target, features: FeatureSpec) -> None:
        """Raise `OptionError` where the cache is not the target's, or does not give these features."""
        if self._target is not target or self._features != features:
            raise OptionError(
                "the session was made for another target, or for a drafter that reads other layers",
                hint="make it with the `session()` of the decoder that uses it",
            )

    def unsettle(self, turn: int) -> None:
        """A pass of the answer begun as `turn` begins: until it is settled, the cache holds more than the text."""
        if turn != self.turn:
            raise PhraseDraftError(
                "the session has gone on to another prompt, so this answer cannot be continued",
                hint="give answers that are read in turns a session each",
            )
        self._is_settled = False

    def settle(self, committed: Sequence[int]) -> None:
        """A pass ended with `committed`; the cache now holds every token of the text but the last."""
        self._text.extend(committed)
        self._is_settled = True
