"""What tests of `phrasedraft bench` share."""

import json
from pathlib import Path
from typing import Any

SHORT = ("--limit", "2", "--nodes", "4,8", "--max-new-tokens", "12")


def lines_of(folder: str = "out") -> list[dict[str, Any]]:
    """The results a run has written so far."""
    return [json.loads(line) for line in Path(folder, "results.jsonl").read_text().splitlines()]
