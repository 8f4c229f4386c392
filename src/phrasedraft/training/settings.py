"""Changing one setting deep inside frozen dataclasses by its dotted name."""

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from phrasedraft.errors import OptionError

S = TypeVar("S")


def with_overrides(settings: S, overrides: Sequence[str]) -> S:
    """`settings` with each `name.of.field=value` applied; `OptionError` for unknown fields and values of another type.

    >>> from phrasedraft.training.fit import FitSettings
    >>> with_overrides(FitSettings(), ["training.num_epochs=3", "vocabulary.max_words=2"]).training.num_epochs
    3
    """
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            raise OptionError(f"`{override}` is not `section.field=value`", hint="for example `training.num_epochs=4`")
        settings = _set(settings, name.strip().split("."), text.strip(), name.strip())
    return settings


def _set(settings: Any, path: Sequence[str], text: str, name: str) -> Any:  # any frozen dataclass
    known = [field.name for field in fields(settings)] if is_dataclass(settings) else []
    if path[0] not in known:
        raise OptionError(f"there is no setting `{name}`", hint=f"at `{path[0]}` there may be {', '.join(known)}")
    current = getattr(settings, path[0])
    if len(path) > 1:
        return replace(settings, **{path[0]: _set(current, path[1:], text, name)})
    if is_dataclass(current):
        raise OptionError(f"`{name}` is a section, not a setting", hint=f"set one of {', '.join(vars(current))}")
    return replace(settings, **{path[0]: _parse(text, current, name)})


def _parse(text: str, current: Any, name: str) -> Any:  # a value of the type the setting has now
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if isinstance(current, tuple) and isinstance(value, list):
        return tuple(value)
    if isinstance(current, float) and type(value) is int:
        return float(value)
    if type(value) is not type(current):
        raise OptionError(f"`{name}` is `{text}`, it must be a {type(current).__name__} such as `{current}`")
    return value
