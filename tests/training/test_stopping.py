"""Killed, asked to stop or interrupted: the same command goes on to the same head."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from phrasedraft.training.signals import stop_requests
from small_run import Setting, killed, same, stopping_at


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


SCRIPT = """
import sys
sys.path[:0] = sys.argv[2:]
from small_run import Setting
import torch
setting = Setting(sys.argv[1], num_epochs=40, checkpoint_steps=1)
weights, history = setting.run()
torch.save([weights, history], setting.checkpoint.with_name("result.pt"))
"""


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_with_the_same_head(tmp_path):
    tests = Path(__file__).parent.parent
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "killed"), str(tests)]
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
