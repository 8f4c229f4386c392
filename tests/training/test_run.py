import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.errors import DataError
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.checkpoint import finish_checkpoint, finished_path, run_key
from phrasedraft.training.examples import EmbeddingTable, make_examples
from phrasedraft.training.losses import LossSettings
from phrasedraft.training.run import run_epochs
from phrasedraft.training.signals import stop_requests
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import SyntheticTarget, answer_of, head_config, recorded

SETTINGS = TrainingSettings(
    num_epochs=4,
    batch_size=10,
    learning_rate=1e-2,
    trunk_width=16,
    checkpoint_steps=4,
    loss=LossSettings(num_sampled=8),
)
STEPS_PER_EPOCH = 6


class Setting:
    """A run on one answer: 4 epochs of 6 steps, replayed on the same answer."""

    def __init__(self, folder, *, shifted_by=0, num_draft_tokens=3, **changes):
        tokens = [*random.Random(1).sample(range(4, 64), k=60), 4]
        phrases = {tuple(tokens[start : start + size]) for start in range(1, 61) for size in (1, 2, 3)}
        self.vocabulary = PhraseVocabulary.from_phrases(sorted(phrases))
        self.trace = SyntheticTarget().trace(answer_of(tokens))
        examples = make_examples([self.trace], self.vocabulary, frozenset())
        examples = replace(examples, longest=examples.longest.roll(shifted_by))
        embedding = EmbeddingTable.of(examples.tokens, SyntheticTarget().embed)
        self.settings = replace(SETTINGS, **changes)
        self.trainer = Trainer(examples, embedding, self.vocabulary, self.settings)
        self.checkpoint = Path(folder) / "checkpoint.pt"
        self.budget = DraftBudget(num_draft_tokens=num_draft_tokens, max_depth=3)
        self.console = Console(file=io.StringIO(), width=200)
        self.num_replays = 0

    @property
    def output(self):
        return self.console.file.getvalue()

    def replayed(self, scorer):
        self.num_replays += 1
        head = PhraseHead(scorer=scorer, vocabulary=self.vocabulary, config=head_config())
        return replay(head, [recorded(self.trace)], self.budget, SyntheticTarget().embed)

    def run(self, replayed=None):
        training = {name: value for name, value in vars(self.settings).items() if name != "loss"}
        config = {"target_name": "synthetic", "provenance": {"command": "x", "settings": {"training": training}}}
        key = run_key(config, self.vocabulary.fingerprint)
        scorer, history = run_epochs(self.trainer, replayed or self.replayed, self.checkpoint, key, self.console)
        return scorer.state_dict(), history


def same(first, second):
    (weights, history), (other_weights, other_history) = first, second
    assert history == other_history
    for name, weight in weights.items():
        assert torch.equal(weight, other_weights[name]), name


def stopping_at(setting, step, act):
    """Calls `act` when the trainer has done `step` steps."""
    real = setting.trainer.run_epoch

    def run_epoch(number, *, start=0):
        for loss in real(number, start=start):
            if setting.trainer.num_steps == step:
                act()
            yield loss

    setting.trainer.run_epoch = run_epoch
    return setting


def killed():
    raise MemoryError  # as abrupt as a kill: nothing is saved on the way out


@pytest.mark.parametrize(
    ("step", "message"), [(3, None), (5, "epoch 0 and 4 of 6 steps"), (7, "epoch 1 from"), (22, "epoch 3 and 2 of 6")]
)
def test_a_killed_run_goes_on_from_its_last_checkpoint_to_the_same_result(tmp_path, step, message):
    whole = Setting(tmp_path / "whole").run()
    with pytest.raises(MemoryError):
        stopping_at(Setting(tmp_path / "killed"), step, killed).run()
    again = Setting(tmp_path / "killed")
    same(whole, again.run())
    assert "going on" not in again.output if message is None else f"going on after {message}" in again.output
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize(
    ("number", "error", "code"), [(signal.SIGTERM, SystemExit, 143), (signal.SIGINT, KeyboardInterrupt, None)]
)
def test_sigterm_and_ctrl_c_save_where_they_meet_the_run(tmp_path, number, error, code):
    before = signal.getsignal(number)
    whole = Setting(tmp_path / "whole").run()
    stopped = stopping_at(Setting(tmp_path / "stopped"), 9, lambda: os.kill(os.getpid(), number))
    with pytest.raises(error) as caught:
        stopped.run()
    assert getattr(caught.value, "code", None) == code
    assert "stopped after step 9" in stopped.output
    assert signal.getsignal(number) == before
    again = Setting(tmp_path / "stopped")
    same(whole, again.run())
    assert "going on after epoch 1 and 3 of 6 steps" in again.output


def test_a_signal_does_not_wait_for_a_replay_to_end(tmp_path):
    whole = Setting(tmp_path / "whole").run()
    stopped = Setting(tmp_path / "stopped")

    def slow(scorer):
        if stopped.num_replays == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return stopped.replayed(scorer)

    start = time.monotonic()
    with pytest.raises(SystemExit):
        stopped.run(slow)
    assert time.monotonic() - start < 30
    again = Setting(tmp_path / "stopped")
    same(whole, again.run())
    assert "going on after epoch 1 and 6 of 6 steps" in again.output
    assert again.num_replays == 3


def test_who_insists_need_not_wait():
    seen = []

    def insist():
        with stop_requests() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            seen.append(stop.pending)
            os.kill(os.getpid(), signal.SIGINT)
            seen.append("still here")

    with pytest.raises(KeyboardInterrupt):
        insist()
    assert seen == [True]


def test_a_signal_after_the_last_step_is_not_lost():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), stop_requests():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_run_in_another_thread_leaves_signals_alone(tmp_path):
    before, found = signal.getsignal(signal.SIGTERM), []

    def work():
        with stop_requests():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]


def test_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with stop_requests() as stop:
            os.kill(os.getpid(), signal.SIGINT)
        assert not stop.pending
    finally:
        signal.signal(signal.SIGINT, before)


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


SCRIPT = """
import sys
sys.path[:0] = sys.argv[2:]
from test_run import Setting
import torch
setting = Setting(sys.argv[1], num_epochs=40, checkpoint_steps=1)
weights, history = setting.run()
torch.save([weights, history], setting.checkpoint.with_name("result.pt"))
"""


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_same_head(tmp_path):
    tests = Path(__file__).parent
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "killed"), str(tests), str(tests.parent)]
    draw, kills = random.Random(0), 0
    result = tmp_path / "killed" / "result.pt"
    while not result.exists():
        process = subprocess.Popen(command)
        checkpoint = tmp_path / "killed" / "checkpoint.pt"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns > before):
            time.sleep(0.01)
        if kills < 10:
            time.sleep(0.1 * draw.random())
            process.kill()
            kills += 1
        process.wait()
    assert kills == 10
    same(Setting(tmp_path / "whole", num_epochs=40, checkpoint_steps=1).run(), torch.load(result, weights_only=True))
