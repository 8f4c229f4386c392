import io
import json

import pytest
import torch
from rich.console import Console

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.errors import DataError
from phrasedraft.training.checkpoint import finish_checkpoint, finished_path
from small_run import Setting, killed, same, stopping_at


def test_an_unfinished_run_refuses_other_settings_and_says_which(tmp_path):
    with pytest.raises(MemoryError):
        stopping_at(Setting(tmp_path), 9, killed).run()
    before = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(DataError, match="unfinished run with other settings") as caught:
        Setting(tmp_path, learning_rate=0.5, seed=3).run()
    assert "`training.learning_rate` is 0.01 there and 0.5 now, `training.seed` is 0 there and 3 now" in str(
        caught.value
    )
    assert "--work" in caught.value.hint
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def test_how_often_a_run_is_saved_and_where_it_logs_may_change(tmp_path):
    whole = Setting(tmp_path / "whole").run()
    with pytest.raises(MemoryError):
        stopping_at(Setting(tmp_path / "killed"), 9, killed).run()
    again = Setting(tmp_path / "killed", checkpoint_steps=100, logger="jsonl")
    same(whole, again.run())
    assert "going on after epoch 1 and 2 of 6 steps" in again.output


def test_a_finished_run_is_not_trained_again_and_makes_room_for_others(tmp_path):
    first = Setting(tmp_path)
    whole = first.run()
    finish_checkpoint(first.checkpoint)
    again = Setting(tmp_path)
    same(whole, again.run())
    assert again.trainer.num_steps == 24
    assert again.num_replays == 0
    other = Setting(tmp_path, seed=5)
    other.run()
    assert other.num_replays == 4
    finish_checkpoint(other.checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == [finished_path(other.checkpoint).name]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"text" * 9])
def test_a_damaged_checkpoint_is_named(tmp_path, damage):
    setting = Setting(tmp_path, num_epochs=1)
    setting.run()
    setting.checkpoint.write_bytes(damage(setting.checkpoint.read_bytes()))
    with pytest.raises(DataError, match=r"checkpoint `.*checkpoint.pt` is damaged") as caught:
        Setting(tmp_path, num_epochs=1).run()
    assert "delete it" in caught.value.hint


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    setting = Setting(tmp_path)
    torch.save({"key": "4f2a", "trainer": {}}, setting.checkpoint)
    with pytest.raises(DataError, match="has format `None`, this version reads `2`"):
        setting.run()


def test_a_smoke_run_of_few_steps_still_replays_and_saves(tmp_path):
    setting = Setting(tmp_path, max_steps=8, learning_rate=5e-2)
    _, history = setting.run()
    assert setting.trainer.num_steps == 8
    assert len(history) == 2
    assert setting.checkpoint.exists()


def figures(*tokens_per_pass):
    """Replays that give these figures, one an epoch."""
    values = list(tokens_per_pass)

    def replayed(scorer):
        stats = DecodingStats()
        stats.num_passes, stats.num_generated_tokens, stats.num_landings = 1000, 0, 1
        stats.num_accepted_tokens = round(1000 * (values.pop(0) - 1))
        return stats

    return replayed


def test_training_ends_after_epochs_without_a_better_replay_and_keeps_the_best(tmp_path):
    setting = Setting(tmp_path, num_epochs=8, patience=2)
    best, history = setting.run(figures(1.5, 2.0, 1.9, 2.0, 9.0))
    assert [line["tokens_per_pass"] for line in history] == [1.5, 2.0, 1.9, 2.0]
    again = Setting(tmp_path, num_epochs=8, patience=2)
    same((best, history), again.run(figures()))


def test_without_patience_every_epoch_is_trained(tmp_path):
    _, history = Setting(tmp_path).run(figures(2.0, 1.9, 1.8, 1.7))
    assert len(history) == 4


def test_labels_shifted_by_one_end_in_an_error(tmp_path):
    changes = {"num_epochs": 10, "batch_size": 12, "dropout": 0.0, "input_noise": 0.0, "average": 0.0}
    right = Setting(tmp_path / "right", num_draft_tokens=1, trunk_width=32, **{**changes, "num_epochs": 16})
    assert right.run()[1][-1]["tokens_per_pass"] > 1.8  # 2 is the most: one drafted token and the bonus token
    shifted = Setting(tmp_path / "shifted", shifted_by=-1, num_draft_tokens=1, trunk_width=32, **changes)
    with pytest.raises(DataError, match="no draft on held-out answers was accepted") as caught:
        shifted.run()
    assert "shifted" in caught.value.hint


def test_the_log_of_a_run_that_was_killed_reads_as_if_it_had_not_been(tmp_path):
    Setting(tmp_path / "whole", logger="jsonl").run()
    with pytest.raises(MemoryError):
        stopping_at(Setting(tmp_path / "killed", logger="jsonl"), 11, killed).run()
    Setting(tmp_path / "killed", logger="jsonl").run()
    whole, killed_one = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "killed")
    )
    assert whole == killed_one
    assert [line["step"] for line in whole if "loss" in line] == list(range(1, 25))
    assert len([line for line in whole if "epoch/tokens_per_pass" in line]) == 4


def test_the_bar_shows_loss_replayed_tokens_speed_and_time_left(tmp_path):
    setting = Setting(tmp_path)
    setting.console = Console(file=io.StringIO(), width=200, force_terminal=True)
    setting.run()
    last = setting.output.rsplit("training", 1)[1]
    for part in ("24/24", "loss ", "tokens a pass", "steps/s", "0:00:00"):
        assert part in last
