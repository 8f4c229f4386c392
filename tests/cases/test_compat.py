"""Cases where another version of transformers, or a private name of it, broke a library."""

import ast
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import transformers

import phrasedraft
from kit import target_of
from phrasedraft.errors import TargetError
from phrasedraft.target.cache import cache_keyword

SOURCES = sorted(Path(phrasedraft.__file__).parent.rglob("*.py"))
GUARDED = {"_attn_implementation", "_name_or_path", "_hf_hook", "_hf_peft_config_loaded"}
"""Private names of transformers and accelerate that are asked for by name and may be missing."""

OURS_OR_TORCHS = {"_version", "_forward_hooks", "_forward_pre_hooks", "_reorder_linear_weight", "_linear_pointwise"}
"""Private names of torch, used where `packing` finds out first that they are there; and those of our own classes."""


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_compat_pins_no_modelling_code_is_copied_or_imported_and_no_upper_bound_is_set():
    """`compat-pins`: nothing of `transformers.models`, no class of a target of our own, versions open upwards."""
    assert len(SOURCES) > 30
    for path in SOURCES:
        assert not any(module.startswith("transformers.models") for module, _ in imports_of(path)), path
    # Only a checkout has it; an installed package carries its bounds in its metadata.
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (requirement,) = (line for line in project["dependencies"] if line.startswith("transformers"))
    assert requirement == "transformers>=5.16"
    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    assert version >= (5, 16)


def test_compat_whisper_medusa_private_names_of_transformers_are_not_used():
    """`compat-whisper-medusa`: none imported or read; those looked up by name are ones that may be missing."""
    own = {
        node.attr
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in {"self", "cls"}
    }
    for path in SOURCES:
        for module, name in imports_of(path):
            if module.split(".")[0] in {"transformers", "accelerate", "peft"}:
                assert not name.startswith("_"), (path, name)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                assert node.attr in own | OURS_OR_TORCHS, (path, node.attr)
            is_lookup = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"getattr", "hasattr"}
            if is_lookup and isinstance(node.args[1], ast.Constant) and str(node.args[1].value).startswith("_"):
                assert node.args[1].value in GUARDED, (path, node.args[1].value)


def test_greedy_peer_api_drift_the_name_of_the_cache_is_found_by_looking(without_type_checks):
    """`greedy-peer-api-drift`: `cache` from 5.24 on, `past_key_values` before, `cache_params` for mamba."""
    for name, forward in (
        ("cache", lambda input_ids, cache=None, past_key_values=None: None),
        ("past_key_values", lambda input_ids, past_key_values=None: None),
        ("cache_params", lambda input_ids, cache_params=None: None),
    ):
        assert cache_keyword(SimpleNamespace(forward=forward)) == name
    with pytest.raises(TargetError, match="takes none of `cache`, `past_key_values`, `cache_params`"):
        cache_keyword(SimpleNamespace(forward=lambda input_ids: None))
    expected = (
        "cache"
        if tuple(int(part) for part in transformers.__version__.split(".")[:2]) >= (5, 24)
        else "past_key_values"
    )
    assert cache_keyword(target_of("llama").model) == expected
