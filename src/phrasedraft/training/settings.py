"""Changing one setting deep inside frozen dataclasses by its dotted name."""

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from phrasedraft.errors import OptionError

S = TypeVar("S")
_KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", tuple: "a list"}


def with_overrides(settings: S, overrides: Sequence[str]) -> S:
    """`settings` with each `name.of.field=value` applied; `OptionError` for unknown fields and values of another type.

    >>> from phrasedraft.training.fit_settings import FitSettings
    >>> with_overrides(FitSettings(), ["training.num_epochs=3", "vocabulary.max_words=2"]).training.num_epochs
    3
    """
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            raise OptionError(f"`{override}` is not `section.field=value`", hint="for example `training.num_epochs=4`")
        settings = with_value(settings, name.strip(), _read(text.strip()))
    return settings


def with_value(settings: S, name: str, value: Any) -> S:
    """`settings` with the field of this dotted name set to `value`, which is of the type the field has now."""
    return _set(settings, name.split("."), value, name)  # type: ignore[no-any-return]


def _set(settings: Any, path: Sequence[str], value: Any, name: str) -> Any:  # any frozen dataclass
    known = [field.name for field in fields(settings)] if is_dataclass(settings) else []
    if path[0] not in known:
        raise OptionError(f"there is no setting `{name}`", hint=f"at `{path[0]}` there may be {', '.join(known)}")
    current = getattr(settings, path[0])
    if len(path) > 1:
        return replace(settings, **{path[0]: _set(current, path[1:], value, name)})
    if is_dataclass(current):
        raise OptionError(f"`{name}` is a section, not a setting", hint=f"set one of {', '.join(vars(current))}")
    return replace(settings, **{path[0]: _fitting(value, current, name)})


def _read(text: str) -> Any:
    """The value as JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _fitting(value: Any, current: Any, name: str) -> Any:  # a value of the type the setting has now
    if isinstance(current, tuple) and isinstance(value, list):
        item_type = type(current[0]) if current else str
        if any(type(item) is not item_type for item in value):
            raise OptionError(f"`{name}` is `{value}`, it must be a list in which each is {_KINDS[item_type]}")
        return tuple(value)
    if isinstance(current, float) and type(value) is int:
        return float(value)
    if isinstance(current, str) and isinstance(value, bool | int | float):
        return json.dumps(value) if not isinstance(value, bool) else ("on" if value else "off")
    if type(value) is not type(current):
        shown = json.dumps(value) if isinstance(value, bool) else value
        raise OptionError(f"`{name}` is `{shown}`, it must be {_KINDS[type(current)]} such as `{json.dumps(current)}`")
    return value
