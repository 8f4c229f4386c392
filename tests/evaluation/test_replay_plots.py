import importlib.util

import pytest

from phrasedraft.errors import OptionError
from phrasedraft.evaluation.replay_plots import PLOTS, plot_replay, require_matplotlib
from phrasedraft.evaluation.replay_sets import ReplaySettings, replay_sets
from worked_example import PIECES, STORY, STORY_DRAFTER, embed


def reports():
    return replay_sets(STORY_DRAFTER, {"a": [STORY], "b": [STORY]}, ReplaySettings(node_counts=(4, 8)), embed, PIECES)


def test_three_pictures_are_written_whole(tmp_path):
    pytest.importorskip("matplotlib")
    paths = plot_replay(tmp_path / "plots", reports())
    assert [path.name for path in paths] == list(PLOTS)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == sorted(PLOTS)


def test_without_matplotlib_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="matplotlib") as caught:
        require_matplotlib()
    assert "phrasedraft[plots]" in caught.value.hint
