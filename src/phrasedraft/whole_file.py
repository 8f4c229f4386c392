"""Files that are there whole or not at all."""

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: a reader meets the old file or the new one, and nothing else is left behind."""
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
