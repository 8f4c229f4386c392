"""Where texts part is found, with the gap of a teacher-forced pass."""

from dataclasses import replace

import torch

import kit
from phrasedraft import Decoder
from phrasedraft.evaluation.bench.differences import find_differences
from phrasedraft.evaluation.bench.folder import ResultsFolder
from phrasedraft.evaluation.bench.run import Conditions, Entrant, make_groups, run_benchmark
from phrasedraft.evaluation.dialogue import Dialogue
from phrasedraft.evaluation.methods import BatchedGenerate, PlainLoop


def measured(tmp_path):
    target = kit.target_of()
    dialogue = Dialogue(
        answer_ids=("a", "a#2"),
        tokens=lambda answers: [*kit.PROMPT, *(token for answer in answers for token in answer)],
    )
    sets = {"set": [dialogue]}
    plain = PlainLoop(Decoder(target, kit.WrongDrafter(()), num_draft_tokens=0))
    entrants = [Entrant(method=BatchedGenerate(target)), Entrant(method=plain)]
    conditions = Conditions(dtype="float32", batch_size=1, max_new_tokens=8)
    results = run_benchmark(make_groups(sets, 1), entrants, ResultsFolder(tmp_path, {}), conditions)
    return target, sets, results


def test_equal_texts_have_no_differences(tmp_path):
    assert find_differences(*measured(tmp_path)) == []


def test_a_changed_token_is_found_with_the_targets_own_gap(tmp_path):
    target, sets, results = measured(tmp_path)
    index = next(i for i, each in enumerate(results) if each.method == "plain loop" and each.turn == 1)
    tokens = list(results[index].tokens)
    changed = [*tokens[:3], tokens[3] + 1, *tokens[4:]]
    results[index] = replace(results[index], tokens=changed)
    first, second = find_differences(target, sets, results)[0], find_differences(target, sets, results)[1:]
    assert (first.answer_id, first.method, first.position) == ("a", "plain loop", 3)
    prompt = torch.tensor([[*kit.PROMPT, *tokens[:3]]])
    with torch.inference_mode():
        best = target.model(prompt).logits[0, -1].topk(2).values
    assert abs(first.top_two_gap - float(best[0] - best[1])) < 1e-4
    assert second == []  # the second turn was answered the same, from what generate() had said


def test_another_reason_to_stop_is_a_difference_without_a_place(tmp_path):
    target, sets, results = measured(tmp_path)
    index = next(i for i, each in enumerate(results) if each.method == "plain loop" and each.turn == 2)
    results[index] = replace(results[index], finish_reason="eos")
    (found,) = find_differences(target, sets, results)
    assert (found.answer_id, found.position, found.top_two_gap) == ("a#2", None, None)


def test_turns_that_follow_other_answers_have_no_gap(tmp_path):
    target, sets, results = measured(tmp_path)
    for index, each in enumerate(results):
        if each.method == "plain loop":
            results[index] = replace(each, tokens=[each.tokens[0] + 1, *each.tokens[1:]])
    first, second = find_differences(target, sets, results)
    assert first.top_two_gap is not None
    assert second.answer_id == "a#2"
    assert second.top_two_gap is None
