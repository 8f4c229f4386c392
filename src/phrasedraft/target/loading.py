"""Load a target by name: the embedded one, a local folder, or a hub id."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from phrasedraft.errors import OptionError, TargetError, first_line
from phrasedraft.target.embedded import EMBEDDED_NAME, embedded_folder
from phrasedraft.target.model import TransformersTarget

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_target(
    name: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    attn_implementation: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    packed: bool = True,
) -> TransformersTarget:
    """The target `name`: `smollm2-135m` (embedded), a local folder, or a hub id.

    `dtype` is `auto` (what the weights are stored in), `float32`, `bfloat16` or `float16`; `device` is `auto` (the GPU
    if there is one) or a torch device. A local folder is read without any look at the network. Raises `TargetError`
    where it cannot be loaded.
    """
    if dtype != "auto" and dtype not in DTYPES:
        raise OptionError(f"`dtype` is `{dtype}`, it may be `auto`, {', '.join(f'`{known}`' for known in DTYPES)}")
    place = _place(device)
    folder = str(embedded_folder()) if name == EMBEDDED_NAME else name
    arguments: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": Path(folder).is_dir()}
    if revision is not None:
        arguments["revision"] = revision
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=DTYPES.get(dtype, "auto"),
            **({"attn_implementation": attn_implementation} if attn_implementation else {}),
            **arguments,
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, **arguments)
        model = model.to(place).eval()
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        raise TargetError(
            f"target `{name}` cannot be loaded: {first_line(error)}",
            hint=f"give `{EMBEDDED_NAME}`, a local folder with a transformers model, or a hub id that can be reached",
        ) from error
    return TransformersTarget(model, tokenizer, packed=packed, name=name)


def load_tokenizer(
    name: str, *, revision: str | None = None, trust_remote_code: bool = False
) -> tuple[PreTrainedTokenizerBase, int]:
    """The tokenizer of the target `name` and the width of its logits, without its weights; else as `load_target`."""
    folder = str(embedded_folder()) if name == EMBEDDED_NAME else name
    arguments: dict[str, Any] = {"trust_remote_code": trust_remote_code, "local_files_only": Path(folder).is_dir()}
    if revision is not None:
        arguments["revision"] = revision
    try:
        config = AutoConfig.from_pretrained(folder, **arguments).get_text_config(decoder=True)
        return AutoTokenizer.from_pretrained(folder, **arguments), config.vocab_size
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        raise TargetError(
            f"the tokenizer of target `{name}` cannot be loaded: {first_line(error)}",
            hint=f"give `{EMBEDDED_NAME}`, a local folder with a transformers model, or a hub id that can be reached",
        ) from error


def _place(device: str) -> torch.device:
    """The device by name, tried out; `OptionError` where this machine or this build of torch has none of that name."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise OptionError(
            f"`device` is `{device}`, it may be `auto`, `cpu` or a device there is: {first_line(error)}",
            hint="leave it out to take the GPU if there is one, else the CPU",
        ) from error
