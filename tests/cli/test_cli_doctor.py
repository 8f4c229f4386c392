import torch

QUICK = ("--repeats", "1")


def test_a_llama_with_its_head_can_be_used(run, llama, head):
    result = run("doctor", llama, head, *QUICK)
    assert result.exit_code == 0
    for part in ("tree: draft trees", "sdpa", "packed", "[256]", "context limit", "1024", "yes", "fits", "usable"):
        assert part in result.stdout
    assert "pays above tokens a pass" in result.stdout


def test_drafts_of_every_depth_are_accepted_in_the_identity_check(answer_of, llama, head):
    found = answer_of("doctor", llama, head, *QUICK)
    assert found["usable"] is True
    assert len(found["identity"]) == 3 * 2
    known = [check for check in found["identity"] if check["drafter"] == "known answer"]
    assert all(check["identical"] for check in found["identity"])
    assert all(check["num_accepted_tokens"] > 0 and check["deepest_accepted"] == 4 for check in known)
    assert found["largest_logit_difference"] <= found["tolerance"]
    assert found["eos_sources"]["config.json"] == found["eos_sources"]["tokenizer"] == 256
    assert {time["num_draft_tokens"] for time in found["pass_cost"]["times"]} >= {0, 8, 63}


def test_packing_can_be_switched_off_and_is_said(answer_of, llama):
    found = answer_of("doctor", llama, *QUICK, "--no-packed")
    assert found["packed"] is False
    assert "linears not packed: switched off" in found["notes"]


def test_a_target_without_a_chat_template_is_checked_with_plain_text(answer_of, bloom):
    found = answer_of("doctor", bloom, *QUICK)
    assert found["chat_template"] is False
    assert found["head"] is None
    assert all(check["num_accepted_tokens"] > 0 for check in found["identity"])


def test_a_hybrid_target_drafts_chains_and_says_why(answer_of, hybrid):
    found = answer_of("doctor", hybrid, *QUICK)
    assert found["support"] == "chain"
    assert any(note.startswith("no tree drafting") for note in found["notes"])
    assert all(check["num_accepted_tokens"] > 0 and check["identical"] for check in found["identity"])


def test_a_recurrent_target_is_usable_whatever_it_can_draft(answer_of, mamba):
    found = answer_of("doctor", mamba, *QUICK)
    assert found["support"] in {"chain", "nothing"}
    assert any(note.startswith("no tree drafting") for note in found["notes"])
    assert found["usable"] is True


def test_a_head_for_another_target_is_named_and_leaves_with_2(run, wider, head):
    result = run("doctor", wider, head, *QUICK)
    assert result.exit_code == 2
    assert "does not fit" in result.stdout
    assert "not usable" in result.stdout


def test_a_model_that_is_none_leaves_with_2(run, tmp_path):
    result = run("doctor", str(tmp_path / "nothing"))
    assert result.exit_code == 2
    assert f"target `{tmp_path / 'nothing'}` cannot be loaded" in result.stderr
    assert "hint:" in result.stderr


def test_low_precision_is_usable_and_its_differences_are_shown(answer_of, llama):
    found = answer_of("doctor", llama, *QUICK, "--dtype", "bfloat16")
    assert found["dtype"] == "bfloat16"
    assert found["usable"] is True
    for check in found["identity"]:
        assert (check["top_two_gap"] is None) == check["identical"]


def test_passes_are_timed_without_gradients(answer_of, llama):
    answer_of("doctor", llama, *QUICK)
    assert torch.is_grad_enabled()
