"""How the phrases of a session lie on disk: one safetensors file, whole or refused."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from phrasedraft.drafters.online_phrases import PhraseTable
from phrasedraft.errors import DataError, HeadMismatchError
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.whole_file import replace_file

FORMAT = "phrasedraft-online-1"
START_ANEW = "leave the file out: a session begins without phrases and learns its own"
NAMES = tuple(PhraseTable.__annotations__)
"""The arrays of a file."""


@dataclass(frozen=True)
class Origin:
    """Whose tokens phrases are made of; `tokenizer` is empty where the target has none."""

    name: str
    vocab_size: int
    tokenizer: str

    @classmethod
    def of(cls, target: TargetIdentity) -> "Origin":
        """That of a target."""
        return cls(target.name, target.vocab_size, target.tokenizer_fingerprint(target.vocab_size) or "")

    def refuse_other(self, target: "Origin") -> None:
        """Raise `HeadMismatchError` for a target of another vocabulary or tokenizer."""
        for what, mine, other in (
            ("a vocabulary of {} tokens", self.vocab_size, target.vocab_size),
            ("tokenizer `{}`", self.tokenizer, target.tokenizer),
        ):
            if mine and other and mine != other:
                raise HeadMismatchError(
                    f"the online vocabulary was learnt from target `{self.name}` with {what.format(mine)}, target "
                    f"`{target.name}` has {what.format(other)}",
                    hint="give each target an online vocabulary of its own",
                )


def write(path: Path, table: PhraseTable, origin: Origin) -> None:
    """Write a table; a reader meets the old file or the new one."""
    tensors = {name: np.ascontiguousarray(array) for name, array in zip(NAMES, table, strict=True)}
    metadata = {
        "format": FORMAT,
        "target": origin.name,
        "vocab_size": str(origin.vocab_size),
        "tokenizer": origin.tokenizer,
        "sha256": _digest(table),
    }
    replace_file(path, to_safetensors(tensors, metadata))


def read(path: Path) -> tuple[PhraseTable, Origin]:
    """What `write` wrote; `DataError` for a file that is missing, damaged or something else."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
    except FileNotFoundError:
        raise DataError(f"there is no online vocabulary `{path}`", hint=START_ANEW) from None
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(
            f"the online vocabulary `{path}` is truncated or not a safetensors file: {error}", hint=START_ANEW
        ) from error
    if metadata.get("format") != FORMAT or set(arrays) != set(NAMES):
        raise DataError(
            f"`{path}` has the format `{metadata.get('format')}`, an online vocabulary has `{FORMAT}`", hint=START_ANEW
        )
    table = PhraseTable(**arrays)
    if metadata.get("sha256") != _digest(table):
        raise DataError(f"the online vocabulary `{path}` was altered: its sha256 is not what it says", hint=START_ANEW)
    return table, Origin(metadata["target"], int(metadata["vocab_size"]), metadata["tokenizer"])


def _digest(table: PhraseTable) -> str:
    digest = hashlib.sha256()
    for array in table:
        digest.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
