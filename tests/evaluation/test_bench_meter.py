"""What the machine did meanwhile: planted work of others, planted memory, planted counters."""

import os
import subprocess
import sys
import time

import pytest

from phrasedraft.evaluation.bench import meter as module
from phrasedraft.evaluation.bench.meter import Meter, has_locked_counters


def test_another_program_that_works_is_seen_and_our_own_work_is_not():
    command = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(command) as other:
        try:
            time.sleep(0.2)
            meter = Meter()
            meter.start()
            started = time.thread_time()
            while time.thread_time() - started < 0.5:
                pass
            reading = meter.stop()
        finally:
            other.kill()
    cores = len(os.sched_getaffinity(0))
    assert 0.3 < reading.other_load < cores + 0.1
    assert reading.load_average >= 0


def test_the_peak_is_of_this_stretch_alone():
    meter = Meter()
    meter.start()
    block = bytearray(os.urandom(1)) * (200 << 20)
    high = meter.stop().peak_bytes
    del block
    meter.start()
    low = meter.stop().peak_bytes
    assert high - low > 150 << 20


def test_energy_is_the_rise_of_the_counters_and_absent_where_there_are_none(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RAPL", tmp_path)
    meter = Meter()
    meter.start()
    assert meter.stop().energy_joules is None
    for number, name in enumerate(("package-0", "package-1", "psys")):
        (tmp_path / f"intel-rapl:{number}").mkdir()
        (tmp_path / f"intel-rapl:{number}" / "name").write_text(f"{name}\n")
        (tmp_path / f"intel-rapl:{number}" / "energy_uj").write_text("1000000\n")
    meter = Meter()
    meter.start()
    for number in (0, 1):
        (tmp_path / f"intel-rapl:{number}" / "energy_uj").write_text("3500000\n")
    assert meter.stop().energy_joules == pytest.approx(5.0)
    meter.start()
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("100\n")  # it began again at zero
    assert meter.stop().energy_joules is None
    meter.start()
    (tmp_path / "intel-rapl:0" / "max_energy_range_uj").write_text("2000000\n")
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("40\n")
    assert meter.stop().energy_joules == pytest.approx(1.99994)


def test_counters_that_may_not_be_read_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RAPL", tmp_path)
    assert not has_locked_counters()
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "name").write_text("package-0\n")
    (zone / "energy_uj").write_text("1\n")
    assert not has_locked_counters()
    monkeypatch.setattr("os.access", lambda *_: False)
    assert has_locked_counters()


def test_without_psutil_the_load_of_others_is_not_known(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    meter = Meter()
    meter.start()
    assert meter.stop().other_load is None
