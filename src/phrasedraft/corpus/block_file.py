"""A JSONL file that grows block by block and survives being killed: whole blocks stay, a part of one is done again.

The last line of a block carries `done`: how many blocks are whole and what was left out so far. Beside the file lies
`<name>.recipe.json`, written first, which says what its lines are made from; another recipe is refused.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasedraft.errors import DataError
from phrasedraft.whole_file import make_folder, replace_file

ELSEWHERE = "write to another place, or delete this file and its recipe to start anew"
NOT_COMPARED = frozenset({"date"})
"""What a recipe records without a change of it mattering."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """The lines of one block, and what was left out of it (a reason and how often)."""

    records: Sequence[dict[str, Any]]
    left_out: Mapping[str, int]


class BlockFile:
    """An append-only file of blocks; opening it cuts off what a killed run left of a part block."""

    def __init__(self, path: Path, recipe: dict[str, Any]) -> None:
        """Open or create `path` for `recipe`; `DataError` for another recipe or damaged lines, changing nothing."""
        self.path = path
        self.recipe_path = path.with_name(path.name + ".recipe.json")
        self.recipe: dict[str, Any] = json.loads(json.dumps(recipe))  # as it reads back: tuples become lists
        found = read_recipe(path)
        data = path.read_bytes() if path.exists() else b""
        if found is None and data:
            raise DataError(f"`{path}` exists, but not the recipe that says what it was made from", hint=ELSEWHERE)
        differing = _differing(found, self.recipe) if found is not None else []
        if differing and data:
            raise DataError(f"`{path}` was begun with another recipe: {'; '.join(differing)}", hint=ELSEWHERE)
        is_new = found is None or bool(differing)  # a recipe without lines may be replaced
        if found is not None and not differing:
            self.recipe = found
        self.records, self._left_out, self.num_blocks, whole = _whole_blocks(path, data)
        make_folder(path.parent)
        if is_new:
            replace_file(self.recipe_path, (json.dumps(self.recipe, indent=2, ensure_ascii=False) + "\n").encode())
        self.was_cut = whole < len(data)
        if self.was_cut:
            os.truncate(path, whole)

    @property
    def left_out(self) -> dict[str, int]:
        """What was left out so far, by reason."""
        return dict(self._left_out)

    def append(self, block: Block) -> None:
        """Add a block in one write that is on the disk when this returns; an empty one is only counted."""
        self.num_blocks += 1
        for reason, count in block.left_out.items():
            self._left_out[reason] = self._left_out.get(reason, 0) + count
        if not block.records:
            return
        *others, last = block.records
        done = {"blocks": self.num_blocks, "left_out": dict(sorted(self._left_out.items()))}
        records = [*others, {**last, "done": done}]
        try:
            self._write("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode())
        except OSError as error:
            raise DataError(
                f"`{self.path}` cannot be written: {error.strerror}",
                hint="make room and give the same command again; whole blocks are kept",
            ) from error
        self.records.extend(records)

    def _write(self, data: bytes) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)


def read_recipe(path: Path) -> dict[str, Any] | None:
    """What the lines of `path` were made from; None where no recipe lies beside it."""
    recipe_path = path.with_name(path.name + ".recipe.json")
    try:
        recipe = json.loads(recipe_path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"`{recipe_path}` cannot be read: {error}", hint=ELSEWHERE) from error
    if not isinstance(recipe, dict):
        raise DataError(f"`{recipe_path}` is not a recipe", hint=ELSEWHERE)
    return recipe


def _differing(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """What differs between the recipe of a file and the one asked for."""
    before, now = _flat(found), _flat(wanted)
    return [
        f"`{name}` is `{now.get(name, 'absent')}`, was `{before.get(name, 'absent')}`"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name) and name not in NOT_COMPARED
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _whole_blocks(path: Path, data: bytes) -> tuple[list[dict[str, Any]], dict[str, int], int, int]:
    """The lines of whole blocks, what was left out of them, how many there are, and how many bytes they take."""
    records: list[dict[str, Any]] = []
    num_records = position = whole = 0
    damaged: int | None = None
    done: dict[str, Any] = {"blocks": 0, "left_out": {}}
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        position += len(line) + 1
        try:
            record = json.loads(line)
        except ValueError:
            damaged = damaged or number
            continue
        records.append(record)
        if isinstance(record, dict) and "done" in record:
            if damaged is not None:  # a killed run damages the last block only, and nothing follows that
                raise DataError(f"`{path}` line {damaged} is damaged, and whole lines follow it", hint=ELSEWHERE)
            done, num_records, whole = record["done"], len(records), position
    return records[:num_records], dict(done["left_out"]), int(done["blocks"]), whole
