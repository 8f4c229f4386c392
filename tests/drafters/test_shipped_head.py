"""The head inside the package: whole, small, for the embedded target, and with its history."""

import time

import pytest
import torch

from phrasedraft.drafters import load_head, shipped_heads
from phrasedraft.drafters.head_file import default_head_path
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.target.protocol import TargetIdentity


@pytest.fixture(scope="module")
def head():
    return PhraseHead.from_pretrained(default_head_path())


def test_it_is_for_the_embedded_target(head):
    head.check(
        TargetIdentity(
            name="smollm2-135m",
            hidden_size=576,
            vocab_size=49152,
            tokenizer_fingerprint=lambda size: head.config.tokenizer_fingerprint,
        )
    )
    assert head.config.target_name == "smollm2-135m"
    assert head.config.tokenizer_fingerprint is not None
    assert head.config.template.fingerprint is not None
    assert head.config.state_fingerprint


def test_it_is_as_small_as_promised(head):
    assert len(head.vocabulary) == 8000
    assert head.num_parameters == 3_007_808
    assert sum(file.stat().st_size for file in default_head_path().iterdir()) < 12e6


def test_every_prefix_of_its_phrases_is_a_phrase(head):
    phrases = {head.vocabulary.expand(phrase) for phrase in range(len(head.vocabulary))}
    assert all(phrase[:-1] in phrases for phrase in phrases if len(phrase) > 1)


def test_it_says_how_it_was_made(head):
    provenance = head.config.provenance
    assert provenance["command"] == "phrasedraft fit --recipe recipes/smollm2-135m-maths-chat-8k.toml"
    assert {line["name"] for line in provenance["data"]} == {
        "gsm8k_train.max200",
        "gsm8k_train2.max200",
        "chat_train.max256",
    }
    card = (default_head_path() / "README.md").read_text()
    assert "Apache-2.0" in card
    assert provenance["command"] in card


def test_held_out_answers_replay_at_two_tokens_a_pass_or_more_with_eight_nodes(head):
    assert head.config.provenance["held_out"]["gsm8k_train.max200"]["8"]["tokens_per_pass"] >= 2.45


def test_a_draft_takes_a_small_part_of_a_pass(head):
    generator = torch.Generator().manual_seed(0)
    state = head.begin(
        [1], 30, torch.randn((1, 576 * 5), generator=generator), lambda tokens: torch.zeros((len(tokens), 576))
    )
    budget = DraftBudget(num_draft_tokens=8, max_depth=12)
    seconds = []
    for _ in range(50):
        started = time.process_time()
        assert head.propose(state, budget).num_draft_tokens == 8
        seconds.append(time.process_time() - started)
    assert min(seconds) < 10e-3  # about 1 ms on an idle core, beartype left out; a pass of the target takes 90


def test_the_head_that_reads_is_shipped_beside_it_and_better_on_the_same_held_out_answers(head):
    reads = load_head("smollm2-135m-reads")
    assert isinstance(reads, PhraseHead)
    assert reads.config.text_window == 512
    assert reads.num_parameters == head.num_parameters + 304_352
    assert reads.config.state_fingerprint == pytest.approx(head.config.state_fingerprint, abs=1e-3)
    for name in ("target_name", "tokenizer_fingerprint", "target_layers", "template"):
        assert getattr(reads.config, name) == getattr(head.config, name)
    mine, other = (each.config.provenance for each in (reads, head))
    assert [line["sha256"] for line in mine["data"]] == [line["sha256"] for line in other["data"]]
    for corpus, table in other["held_out"].items():
        for nodes, line in table.items():
            assert mine["held_out"][corpus][nodes]["tokens_per_pass"] > 1.05 * line["tokens_per_pass"]
    assert sum(file.stat().st_size for file in shipped_heads()["smollm2-135m-reads"].iterdir()) < 12e6
