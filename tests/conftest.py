"""What every test runs under: no network, few threads, and slow tests only when asked for."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import logging
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # `import kit`, `import zoo`

torch.set_num_threads(1)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what transformers warns about while it is imported is not ours to mend
    import transformers

transformers.logging.set_verbosity_error()
logging.getLogger("transformers").setLevel(logging.ERROR)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked `slow` as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow") or os.environ.get("PHRASEDRAFT_SLOW_TESTS"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow or PHRASEDRAFT_SLOW_TESTS=1")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def without_type_checks() -> Iterator[None]:
    """What a user sees, whose calls are not checked against the annotations."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
