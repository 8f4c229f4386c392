"""The exceptions this library raises on purpose.

PhraseDraftError
├── OptionError               a setting has a value it may not have
├── PromptError               a prompt cannot be answered: empty, too long, no chat template
├── TargetError               a target cannot be loaded, or cannot be verified exactly
│   └── NonFiniteLogitsError  the target's logits are NaN, or nothing is left to choose from
├── HeadFileError             a head's files are missing, truncated, altered or of another format
├── HeadMismatchError         a head was made for another target
└── DataError                 a corpus, prompt or trace file cannot be used
"""


class PhraseDraftError(Exception):
    """Base of every error this library raises on purpose; `hint` says what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")


class OptionError(PhraseDraftError, ValueError):
    """A setting has a value it may not have."""


class PromptError(PhraseDraftError, ValueError):
    """A prompt cannot be answered."""


class TargetError(PhraseDraftError):
    """A target cannot be loaded or cannot be verified exactly."""


class NonFiniteLogitsError(TargetError, ArithmeticError):
    """The target's logits hold NaN, or every token is masked."""


class HeadFileError(PhraseDraftError, OSError):
    """A head's files are missing, truncated, altered or of another format."""


class HeadMismatchError(PhraseDraftError, ValueError):
    """A head was made for another target."""


class DataError(PhraseDraftError, ValueError):
    """A corpus, prompt or trace file cannot be used."""


def first_line(error: BaseException) -> str:
    """The first line of what an error says; some say nothing."""
    return (str(error).strip() or "no message").splitlines()[0]
