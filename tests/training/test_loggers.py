import importlib.util
import json

import pytest

from phrasedraft.errors import OptionError
from phrasedraft.training.loggers import LOGGERS, check_logger, open_logger

MISSING = [name for name, (_, package) in LOGGERS.items() if package and importlib.util.find_spec(package) is None]


def test_figures_go_to_a_file_of_json_lines(tmp_path):
    with open_logger("jsonl", tmp_path / "run", 0) as logger:
        logger.log(1, {"loss": 2.5})
        logger.log(2, {"loss": 2.25, "tokens": 1.5})
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 2.25, "tokens": 1.5}]


def test_a_figure_is_on_disk_as_soon_as_it_is_noted(tmp_path):
    with open_logger("jsonl", tmp_path, 0) as logger:
        logger.log(1, {"loss": 2.5})
        assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 1, "loss": 2.5}


def test_what_was_noted_after_the_checkpoint_is_noted_again(tmp_path):
    with open_logger("jsonl", tmp_path, 0) as logger:
        for step in (1, 2, 3):
            logger.log(step, {"loss": float(step)})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')  # cut by a kill
    with open_logger("jsonl", tmp_path, 2) as logger:
        logger.log(3, {"loss": 30.0})
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines] == [1.0, 2.0, 30.0]


def test_nothing_is_noted_unless_asked_for(tmp_path):
    with open_logger("none", tmp_path, 0) as logger:
        logger.log(1, {"loss": 2.5})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", MISSING)
def test_a_logger_whose_package_is_missing_says_how_to_get_it(name):
    with pytest.raises(OptionError, match=f"`{name}` needs the package") as caught:
        check_logger(name)
    assert caught.value.hint == f"`pip install {LOGGERS[name][1]}`"


def test_an_unknown_logger_is_refused():
    with pytest.raises(OptionError, match="`logger` is `paper`, it may be `none`"):
        check_logger("paper")


@pytest.mark.skipif("tensorboard" in MISSING, reason="tensorboard is not installed")
def test_tensorboard_reads_what_was_noted(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with open_logger("tensorboard", tmp_path, 0) as logger:
        logger.log(1, {"loss": 2.5})
        logger.log(2, {"loss": 2.25})
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 2.5), (2, 2.25)]
