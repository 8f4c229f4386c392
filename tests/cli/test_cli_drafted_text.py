import io

import pytest
from rich.console import Console

from phrasedraft import Piece
from phrasedraft.cli.drafted_text import DraftedText

PIECES = [("The", False), (" total", True), (" is", True), (" 12", False), ("\n", True), ("So", True), ("", False)]


def written(**console) -> str:
    file = io.StringIO()
    text = DraftedText(Console(file=file, **console))
    for shown, was_drafted in PIECES:
        text.write(Piece(token=0, text=shown, was_drafted=was_drafted, logprob=None))
    text.end()
    return file.getvalue()


def test_a_file_gets_brackets():
    assert written() == "The[ total is] 12[\nSo]\n"


def test_a_terminal_gets_colour():
    assert "\x1b[1;32m total\x1b[0m" in written(force_terminal=True, color_system="standard")


def test_no_color_gets_underlines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    shown = written(force_terminal=True, color_system="standard")
    assert "\x1b[4m total\x1b[0m" in shown
    assert "\x1b[1;32m" not in shown


def test_tabs_and_wide_lines_go_through_unchanged():
    file = io.StringIO()
    text = DraftedText(Console(file=file, width=10))
    text.write(Piece(token=0, text="a\tb" + "c" * 40, was_drafted=False, logprob=None))
    assert file.getvalue() == "a\tb" + "c" * 40


def test_a_terminal_gets_no_control_characters_from_the_target():
    file = io.StringIO()
    text = DraftedText(Console(file=file, force_terminal=True, color_system="standard"))
    text.write(Piece(token=0, text="\x1b]0;title\x07", was_drafted=False, logprob=None))
    assert file.getvalue() == "\ufffd]0;title\ufffd"
