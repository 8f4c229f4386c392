"""Token ids to text, piece by piece: whole characters only, nothing past a stop string, nothing lost at the end."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

REPLACEMENT = "\ufffd"

MAX_HELD_TOKENS = 8
"""Bytes that still form no character after this many tokens are not the start of one; they are shown as they decode."""


@runtime_checkable
class Decodes(Protocol):
    """The one method of a tokenizer this module needs."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """The text of some tokens."""
        ...


class TextStream:
    """The text of a growing list of tokens.

    The pieces that `push` and `finish` return join to what the tokenizer makes of all tokens at once, cut in front of
    the first stop string. Text that may be the beginning of a stop string is held back until it is decided.
    """

    def __init__(self, tokenizer: Decodes, stop_strings: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop_strings = tuple(stop_strings)
        self._longest = max(map(len, self._stop_strings), default=0)
        self._ids: list[int] = []
        self._window = 0  # tokens before this are no longer needed as context
        self._read = 0  # tokens before this are in `text`
        self._window_text = ""  # what tokens `window` to `read` decode to
        self._shown = 0
        self.text = ""
        self.stop_string: str | None = None

    def push(self, token: int, *, may_stop: bool = True) -> str:
        """Add a token; the text that can be shown now. `stop_string` is set once one has appeared."""
        self._ids.append(token)
        tail = self._decode(self._ids[self._window :])
        if tail.endswith(REPLACEMENT) and len(self._ids) - self._read < MAX_HELD_TOKENS:
            return ""
        new = tail[len(self._window_text) :]
        next_text = self._decode(self._ids[self._read :])
        if next_text:  # context that shows nothing (a special token, say) would lose the space after it
            self._window, tail = self._read, next_text
        self._read, self._window_text = len(self._ids), tail
        return self._extend(new, may_stop)

    def finish(self) -> str:
        """The rest of the text, when no token follows."""
        if self.stop_string is None:
            whole = self._decode(self._ids)
            if whole.startswith(self.text):
                self.text = whole
        rest, self._shown = self.text[self._shown :], len(self.text)
        return rest

    def _extend(self, new: str, may_stop: bool) -> str:
        known = len(self.text)
        self.text += new
        if may_stop:
            hits = [(self.text.find(stop, max(0, known - len(stop) + 1)), stop) for stop in self._stop_strings]
            first = min(((position, stop) for position, stop in hits if position >= 0), default=None)
            if first is not None:
                cut, self.stop_string = first
                self.text = self.text[: max(cut, self._shown)]
        safe = len(self.text) if self.stop_string is not None else len(self.text) - self._undecided()
        shown, self._shown = self.text[self._shown : safe], max(self._shown, safe)
        return shown

    def _undecided(self) -> int:
        """How many characters at the end may be the beginning of a stop string."""
        for length in range(min(self._longest - 1, len(self.text) - self._shown), 0, -1):
            if any(stop.startswith(self.text[-length:]) for stop in self._stop_strings):
                return length
        return 0

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
