"""How a head lies on disk: a folder with `config.json` and `model.safetensors`.

The config follows the envelope of the `speculators` format (its own loader does not know phrases); the weights file
also holds the phrase table. `config.json` is written last and holds the other file's sha256, so a folder is either
whole or refused.
"""

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from phrasedraft.errors import HeadFileError

FORMAT_VERSION = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PHRASES = "phrase_tokens"
RETRAIN = "train a head with `phrasedraft fit`, or take the folder from where it came again"


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What a head was made for, how it is built and where it comes from."""

    target_name: str
    target_hidden_size: int
    target_vocab_size: int
    tokenizer_fingerprint: str | None = None
    target_layers: tuple[int, ...] = (-1,)
    trunk_width: int = 256
    temperature: float = 1.0
    provenance: dict[str, Any] = field(default_factory=dict)


def default_head_path() -> Path:
    """The head of the embedded target, shipped inside this package."""
    return Path(__file__).parent.parent / "heads" / "smollm2-135m"


def write(folder: Path, config: HeadConfig, tensors: dict[str, Tensor]) -> None:
    """Write both files; a reader meets the old head, the new head or a refusal, never a mixture."""
    folder.mkdir(parents=True, exist_ok=True)
    data = save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata={"format": "pt"})
    phrases = tensors[PHRASES]
    envelope = {
        "format_version": FORMAT_VERSION,
        "speculators_model_type": "phrase",
        "architectures": ["PhraseHead"],
        "draft_vocab_size": phrases.shape[0],
        "max_phrase_tokens": phrases.shape[1],
        "target_hidden_size": config.target_hidden_size,
        "target_vocab_size": config.target_vocab_size,
        "target_layers": list(config.target_layers),
        "trunk_width": config.trunk_width,
        "temperature": config.temperature,
        "speculators_config": {
            "algorithm": "phrase",
            "verifier": {
                "name_or_path": config.target_name,
                "tokenizer_fingerprint": config.tokenizer_fingerprint,
            },
        },
        "sha256": {WEIGHTS: hashlib.sha256(data).hexdigest()},
        "provenance": config.provenance,
    }
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


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: a reader meets the old file or the new one."""
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


def read(folder: Path) -> tuple[HeadConfig, dict[str, Tensor]]:
    """The config and the tensors of the head in `folder`; raises `HeadFileError` for every fault."""
    if not folder.is_dir():
        raise HeadFileError(f"head folder `{folder}` does not exist", hint=RETRAIN)
    envelope = _read_envelope(folder)
    config = _parse(folder / CONFIG, envelope)
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
    try:
        envelope = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise HeadFileError(f"`{folder}` holds no `{CONFIG}`, so it is not a whole head", hint=RETRAIN) from None
    except (ValueError, OSError) as error:
        raise HeadFileError(f"`{path}` is not JSON: {error}", hint=RETRAIN) from error
    if not isinstance(envelope, dict) or envelope.get("speculators_model_type") != "phrase":
        raise HeadFileError(
            f"`{path}` does not describe a phrase head (`speculators_model_type` is not `phrase`)", hint=RETRAIN
        )
    version = envelope.get("format_version")
    if version != FORMAT_VERSION:
        raise HeadFileError(
            f"`{path}` has format version `{version}`, this version of phrasedraft reads `{FORMAT_VERSION}`",
            hint="upgrade phrasedraft, or train the head again with `phrasedraft fit`",
        )
    return envelope


def _parse(path: Path, envelope: dict[str, Any]) -> HeadConfig:
    """The config an envelope holds; every field is required and of its own type."""

    def field_of(line: dict[str, Any], name: str, *kinds: type) -> Any:  # the caller knows which kind it asked for
        if name not in line:
            raise HeadFileError(f"`{path}` has no `{name}`", hint=RETRAIN)
        if not isinstance(line[name], kinds) or isinstance(line[name], bool):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise HeadFileError(f"`{name}` in `{path}` is `{line[name]!r}`, it must be {wanted}", hint=RETRAIN)
        return line[name]

    verifier = field_of(field_of(envelope, "speculators_config", dict), "verifier", dict)
    field_of(envelope, "draft_vocab_size", int)
    field_of(envelope, "max_phrase_tokens", int)
    field_of(field_of(envelope, "sha256", dict), WEIGHTS, str)
    layers = field_of(envelope, "target_layers", list)
    temperature = float(field_of(envelope, "temperature", int, float))
    if not temperature > 0 or not all(isinstance(layer, int) for layer in layers):
        raise HeadFileError(
            f"`{path}` has a temperature or layers that cannot be: {temperature}, {layers}", hint=RETRAIN
        )
    return HeadConfig(
        target_name=field_of(verifier, "name_or_path", str),
        target_hidden_size=field_of(envelope, "target_hidden_size", int),
        target_vocab_size=field_of(envelope, "target_vocab_size", int),
        tokenizer_fingerprint=field_of(verifier, "tokenizer_fingerprint", str, type(None)),
        target_layers=tuple(layers),
        trunk_width=field_of(envelope, "trunk_width", int),
        temperature=temperature,
        provenance=field_of(envelope, "provenance", dict),
    )


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
