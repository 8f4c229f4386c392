"""The measured cost on disk: measured once, anew where it no longer holds, never in the way."""

import json
from dataclasses import replace

import pytest
import torch

import kit
import zoo
from phrasedraft import TransformersTarget
from phrasedraft.budget import MOST_NODES, cost_cache
from phrasedraft.budget.cost import PassCost
from phrasedraft.budget.cost_cache import cost_facts, pass_cost


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """A cache folder of the test's own."""
    monkeypatch.setenv("PHRASEDRAFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "costs"


@pytest.fixture
def measured(monkeypatch):
    """The targets that were measured, in order; they are measured for real."""
    names, measure = [], cost_cache.measure_pass_cost

    def counted(target, counts, contexts, repeats):
        names.append((target.identity.name, contexts[0]))
        return measure(target, counts, contexts, repeats)

    monkeypatch.setattr(cost_cache, "measure_pass_cost", counted)
    return names


def test_a_target_is_measured_once_and_read_from_then_on(folder, measured):
    first = pass_cost(kit.target_of())
    assert pass_cost(kit.target_of()) == first
    assert [context for _, context in measured] == [64, 512]
    (file,) = folder.iterdir()
    assert json.loads(file.read_text())["facts"] == cost_facts(kit.target_of())
    assert {time.num_draft_tokens for time in first.times} == {0, 1, 3, 7, 15, 31, MOST_NODES}


def test_another_target_number_of_threads_or_dtype_is_measured_by_itself(folder, measured):
    torch.set_num_threads(1)
    pass_cost(kit.target_of())
    pass_cost(TransformersTarget(zoo.build_model("llama", num_hidden_layers=1), packed=False))
    pass_cost(TransformersTarget(zoo.build_model("llama").to(torch.bfloat16)))
    try:
        torch.set_num_threads(2)
        pass_cost(kit.target_of())
    finally:
        torch.set_num_threads(1)
    assert len(list(folder.iterdir())) == 4
    assert len(measured) == 8


@pytest.mark.parametrize("change", ["{", "[]", '{"facts": 1, "cost": 2}', "no times", "no time", "other facts"])
def test_a_damaged_file_is_measured_anew(folder, measured, change):
    cost = pass_cost(kit.target_of())
    (file,) = folder.iterdir()
    whole = json.loads(file.read_text())
    if change == "no times":
        change = json.dumps({**whole, "cost": {**whole["cost"], "times": []}})
    elif change == "no time":
        times = [{**time, "milliseconds": 0.0} for time in whole["cost"]["times"]]
        change = json.dumps({**whole, "cost": {**whole["cost"], "times": times}})
    elif change == "other facts":
        change = json.dumps({**whole, "facts": {**whole["facts"], "torch": "0.1"}})
    file.write_text(change)
    again = pass_cost(kit.target_of())
    assert len(measured) == 4
    assert len(again.times) == len(cost.times)
    assert json.loads(file.read_text()) == {"facts": whole["facts"], "cost": json.loads(json.dumps(again.as_dict()))}


def test_a_cache_folder_that_cannot_be_written_is_no_error(monkeypatch, tmp_path, measured):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PHRASEDRAFT_CACHE", str(tmp_path / "file"))
    assert pass_cost(kit.target_of()).milliseconds(0) > 0
    assert pass_cost(kit.target_of()).milliseconds(0) > 0
    assert len(measured) == 4


def test_contexts_stay_within_the_targets_own(folder):
    target = TransformersTarget(zoo.build_model("llama", max_position_embeddings=100), packed=False)
    cost = pass_cost(target)
    assert all(time.context_tokens + time.num_draft_tokens < 100 for time in cost.times)
    assert len({time.context_tokens for time in cost.times}) == 1


@pytest.mark.parametrize("family", ["llama", "mistral_window", "qwen3_5"])
def test_what_is_written_is_what_is_read(family):
    cost = pass_cost(kit.target_of(family))
    assert PassCost.from_dict(json.loads(json.dumps(cost.as_dict()))) == cost


def test_a_cost_without_a_plain_pass_is_none():
    cost = pass_cost(kit.target_of())
    drafted = replace(cost, times=tuple(time for time in cost.times if time.num_draft_tokens))
    with pytest.raises(ValueError, match="without draft tokens"):
        PassCost.from_dict(drafted.as_dict())
