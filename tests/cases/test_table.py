"""`docs/cases.md` names a test for every case, and that test is there."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TABLE = (HERE.parents[1] / "docs" / "cases.md").read_text()
ROWS = re.findall(r"^\| `([\w-]+)` \| (\w+) \| (?:`(test_\w+\.py)`|-) \| (.+) \|$", TABLE, flags=re.MULTILINE)
NUM_CASES = {
    "greedy_mismatch": 10,
    "eos_in_block": 5,
    "stop_strings": 3,
    "max_tokens": 4,
    "streaming": 5,
    "logits_processors": 6,
    "sampling": 7,
    "sliding_window": 3,
    "hybrid_state": 3,
    "tokenizer": 5,
    "context": 4,
    "prompt_edge": 2,
    "compat": 3,
    "api": 1,
    "device": 1,
    "structured_output": 2,
    "memory": 3,
    "quantized": 5,
    "training": 16,
    "metrics": 1,
    "performance": 6,
    "convention": 4,
}


def functions_in(file):
    tree = ast.parse((HERE / file).read_text())
    return {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize(("case", "kind", "file", "note"), ROWS, ids=[row[0] for row in ROWS])
def test_every_case_has_the_test_that_the_table_names_or_a_reason(case, kind, file, note):
    if not file:
        assert len(note) > 40
        return
    assert file in {f"test_{kind}.py", "test_batch_sizes.py"} or kind == "structured_output"
    names = [name for name, text in functions_in(file).items() if text.startswith(f"`{case}`: ")]
    assert names
    assert all(name.startswith("test_" + case.replace("-", "_") + "_") for name in names)


def test_the_table_holds_every_case_of_every_kind_once():
    assert Counter(kind for _, kind, _, _ in ROWS) == NUM_CASES
    assert len({case for case, _, _, _ in ROWS}) == len(ROWS)
    assert len(ROWS) == TABLE.count("\n| `")


def test_every_test_that_names_a_case_is_in_the_table():
    known = {case for case, _, _, _ in ROWS}
    for path in HERE.glob("test_*.py"):
        for name, text in functions_in(path.name).items():
            if text.startswith("`"):
                assert text.split("`")[1] in known, name
