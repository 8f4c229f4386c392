"""How a head lies on disk: a folder with `config.json` and `model.safetensors`.

The config follows the envelope of the `speculators` format (its own loader does not know phrases); the weights file
also holds the phrase table. `config.json` is written last and holds the other file's sha256, so a folder is either
whole or refused.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from phrasedraft.drafters.head_config import (
    ARCHITECTURES,
    FORMAT_VERSION,
    PHRASE,
    RETRAIN,
    HeadConfig,
    describe_config,
    parse_config,
)
from phrasedraft.errors import HeadFileError
from phrasedraft.whole_file import make_folder, replace_file

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PHRASES = "phrase_tokens"


def default_head_path() -> Path:
    """The head of the embedded target, shipped inside this package."""
    return Path(__file__).parent.parent / "heads" / "smollm2-135m"


def write(folder: Path, config: HeadConfig, tensors: dict[str, Tensor]) -> None:
    """Write both files; a reader meets the old head, the new head or a refusal, never a mixture."""
    make_folder(folder, "head")
    data = save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata={"format": "pt"})
    envelope = describe_config(config, tensors[PHRASES].shape)
    envelope |= {"sha256": {WEIGHTS: hashlib.sha256(data).hexdigest()}, "provenance": config.provenance}
    replace_file(folder / WEIGHTS, data)
    replace_file(folder / CONFIG, (json.dumps(envelope, indent=2) + "\n").encode())


def refuse_overflow(tensors: dict[str, Tensor]) -> None:
    """Refuse weights that are not finite in the precision they are to be stored in."""
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise HeadFileError(
                f"`{name}` does not fit {tensor.dtype}: it holds infinity or NaN",
                hint="save with `dtype=torch.float32`, or train the head again with a lower learning rate",
            )


def kind_of(folder: Path) -> str:
    """Which kind of head lies in `folder`, one of `ARCHITECTURES`; `HeadFileError` as `read`."""
    kind: str = _read_envelope(folder)["speculators_model_type"]
    return kind


def read(folder: Path, kind: str = PHRASE) -> tuple[HeadConfig, dict[str, Tensor]]:
    """The config and the tensors of the head in `folder`, of this kind; raises `HeadFileError` for every fault."""
    envelope = _read_envelope(folder)
    if envelope["speculators_model_type"] != kind:
        raise HeadFileError(
            f"`{folder}` holds a `{ARCHITECTURES[envelope['speculators_model_type']]}`, not a `{ARCHITECTURES[kind]}`",
            hint="`load_head` loads either",
        )
    config = parse_config(folder / CONFIG, envelope)
    if not isinstance(envelope.get("sha256"), dict) or not isinstance(envelope["sha256"].get(WEIGHTS), str):
        raise HeadFileError(f"`{folder / CONFIG}` has no `sha256` of `{WEIGHTS}`", hint=RETRAIN)
    tensors = _read_weights(folder, envelope)
    _check_phrases(folder / WEIGHTS, envelope, tensors.get(PHRASES))
    return config, tensors


def load_weights(module: nn.Module, tensors: dict[str, Tensor], folder: Path) -> None:
    """Fill `module` with `tensors` in its own precision; `HeadFileError` where names or shapes disagree."""
    wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise HeadFileError(
                f"`{folder / WEIGHTS}` holds `{name}` of shape {found.get(name)}, `{CONFIG}` says {wanted.get(name)}",
                hint="the two files belong to different heads; take the folder from where it came again",
            )
    module.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})


def _read_envelope(folder: Path) -> dict[str, Any]:
    """The parsed `config.json` of a format this version reads."""
    path = folder / CONFIG
    if not folder.is_dir():
        raise HeadFileError(f"head folder `{folder}` does not exist", hint=RETRAIN)
    try:
        envelope = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise HeadFileError(f"`{folder}` holds no `{CONFIG}`, so it is not a whole head", hint=RETRAIN) from None
    except (ValueError, OSError) as error:
        raise HeadFileError(f"`{path}` is not JSON: {error}", hint=RETRAIN) from error
    if not isinstance(envelope, dict) or envelope.get("speculators_model_type") not in tuple(ARCHITECTURES):
        raise HeadFileError(
            f"`{path}` does not describe a phrase head or a token chain (`speculators_model_type` is neither "
            f"{' nor '.join(f'`{kind}`' for kind in ARCHITECTURES)})",
            hint=RETRAIN,
        )
    version = envelope.get("format_version")
    if version != FORMAT_VERSION:
        raise HeadFileError(
            f"`{path}` has format version `{version}`, this version of phrasedraft reads `{FORMAT_VERSION}`",
            hint="upgrade phrasedraft, or train the head again with `phrasedraft fit`",
        )
    return envelope


def _read_weights(folder: Path, envelope: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of a weights file that is whole and the one the config was written for."""
    path = folder / WEIGHTS
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        pickles = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in folder.glob(pattern))
        if pickles:
            raise HeadFileError(
                f"`{folder}` holds `{pickles[0]}`, a pickle, which is never opened: it could run code",
                hint=f"convert it to `{WEIGHTS}` where you trust it, or train the head again with `phrasedraft fit`",
            ) from None
        raise HeadFileError(f"`{folder}` holds no `{WEIGHTS}`", hint=RETRAIN) from None
    try:
        tensors: dict[str, Tensor] = load(data)  # which reads tensors only and runs nothing
    except SafetensorError as error:
        if _looks_like_pickle(data):
            raise HeadFileError(
                f"`{path}` is a pickle under another name, which is never opened: it could run code", hint=RETRAIN
            ) from error
        raise HeadFileError(f"`{path}` is truncated or not a safetensors file: {error}", hint=RETRAIN) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != envelope["sha256"][WEIGHTS]:
        raise HeadFileError(
            f"`{path}` was altered: its sha256 is `{digest[:12]}…`, `{CONFIG}` says "
            f"`{envelope['sha256'][WEIGHTS][:12]}…`",
            hint=RETRAIN,
        )
    return tensors


def _looks_like_pickle(data: bytes) -> bool:
    """Whether a file that is no whole safetensors file is a pickle, or a zip as `torch.save` writes it.

    A safetensors file begins with the length of its header, which may begin like a pickle by chance, and then the
    header, which begins with a brace.
    """
    return data[8:9] != b"{" and (data[:2] == b"PK" or data[:1] == b"\x80")


def _check_phrases(path: Path, envelope: dict[str, Any], phrases: Tensor | None) -> None:
    """Refuse a weights file without the phrase table, or with one of another shape than the config says."""
    if phrases is None:
        raise HeadFileError(
            f"`{path}` has no `{PHRASES}`: without the phrase table the head's rows have no meaning",
            hint="save the head with `save_pretrained`, which writes it; there is no table to fall back to",
        )
    wanted = (envelope["draft_vocab_size"], envelope["max_phrase_tokens"])
    if tuple(phrases.shape) != wanted or phrases.dtype != torch.int32:
        raise HeadFileError(
            f"`{PHRASES}` in `{path}` is {phrases.dtype} of shape {tuple(phrases.shape)}, `{CONFIG}` says int32 of "
            f"{wanted}",
            hint=RETRAIN,
        )
    if phrases.numel() and int(phrases.max()) >= envelope["target_vocab_size"]:
        raise HeadFileError(
            f"`{PHRASES}` in `{path}` holds token {int(phrases.max())}, the target's vocabulary has "
            f"{envelope['target_vocab_size']}",
            hint=RETRAIN,
        )
