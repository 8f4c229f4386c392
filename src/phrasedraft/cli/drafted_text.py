"""Text as it is decoded, with the accepted drafts marked."""

import re

from rich.console import Console
from rich.style import Style

from phrasedraft.decoding import Piece

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x9b]")
_OPEN, _CLOSE = "[", "]"


class DraftedText:
    """Writes pieces to a console: drafted text in green, underlined where there is no colour, in brackets in a file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._in_draft = False
        self._style: Style | None = None
        if console.color_system is not None:
            self._style = Style(underline=True) if console.no_color else Style(color="green", bold=True)

    @property
    def legend(self) -> str:
        """How drafts are marked, in words."""
        if self._style is None:
            return "drafted text is in [brackets]"
        return "drafted text is underlined" if self._console.no_color else "drafted text is green"

    def write(self, piece: Piece) -> None:
        """Write one piece."""
        text = safe_text(piece.text) if self._console.is_terminal else piece.text
        if not text:
            return
        if self._style is not None:
            self._out(text, self._style if piece.was_drafted else None)
            return
        if piece.was_drafted == self._in_draft:
            self._out(text)
        elif piece.was_drafted:
            self._out(_OPEN + text)
        else:
            self._out(_CLOSE + text)
        self._in_draft = piece.was_drafted

    def end(self) -> None:
        """Close an open mark and the line."""
        self._out(_CLOSE + "\n" if self._in_draft else "\n")
        self._in_draft = False

    def _out(self, text: str, style: Style | None = None) -> None:
        # Straight to the file: the console would expand tabs, and what goes into a pipe must be the text itself.
        self._console.file.write(style.render(text) if style is not None else text)
        self._console.file.flush()


def safe_text(text: str) -> str:
    r"""`text` without the control characters that would steer a terminal.

    >>> safe_text("a\x1b[2Jb")
    'a�[2Jb'
    """
    return _CONTROL.sub("\ufffd", text)
