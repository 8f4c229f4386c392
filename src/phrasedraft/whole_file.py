"""Files that are there whole or not at all, and folders that can be written to before a long job begins."""

import os
import tempfile
from pathlib import Path

from phrasedraft.errors import DataError, OptionError


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: a reader meets the old file or the new one, and nothing else is left behind.

    `DataError` where it cannot be written.
    """
    try:
        _replace(path, data)
    except OSError as error:
        raise DataError(
            f"`{path}` cannot be written: {error.strerror or error}",
            hint="make room, or name a folder you may write to",
        ) from error


def make_folder(folder: Path, name: str = "output") -> None:
    """Make a folder, or say before the work and not after it that nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{name} `{folder}` cannot be written: {error.strerror}", hint="check the path") from error
    if not os.access(folder, os.W_OK):
        raise OptionError(f"{name} `{folder}` cannot be written: no permission", hint="name another folder")


def check_writable(folder: Path, name: str = "output") -> None:
    """The same without making it: its nearest parent must be a folder that may be written to."""
    try:
        nearest = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    except OSError as error:
        raise OptionError(f"{name} `{folder}` cannot be written: {error.strerror}", hint="check the path") from error
    if not nearest.is_dir():
        raise OptionError(f"{name} `{folder}` cannot be written: `{nearest}` is a file", hint="name another folder")
    if not os.access(nearest, os.W_OK):
        raise OptionError(f"{name} `{folder}` cannot be written: no permission", hint="name another folder")


def _replace(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
