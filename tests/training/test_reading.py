"""Heads that read the text: they learn to go on with what was said before, of which one hidden state knows nothing."""

import io
import random
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from phrasedraft.drafters import load_head
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.evaluation.remembering import for_replay
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases import PhraseVocabulary, VocabularySettings
from phrasedraft.training.fit import fit
from phrasedraft.training.fit_settings import FitSettings, HeadSettings, ReplaySettings
from phrasedraft.training.trainer import TrainingSettings
from synthetic import SyntheticTarget, answer_of, recorded, write_corpus

KINDS = ("phrase-head", "token-chain", "phrase-chain")
BUDGET = DraftBudget(num_draft_tokens=4, max_depth=4)


def repeating(name, draw, prompt_size=10):
    """An answer that says over and over what its prompt said, which no other text says."""
    tokens = draw.sample(range(4, 64), prompt_size)
    return answer_of(tokens * 4, name=name, prompt=[1, *tokens])


def fitted(folder, kind, **head):
    draw = random.Random(0)
    corpus = write_corpus(folder / "train.jsonl", [repeating(f"t-{index}", draw) for index in range(300)])
    settings = FitSettings(
        head=HeadSettings(kind=kind, num_steps=2, num_draft_steps=4, **head),
        vocabulary=VocabularySettings(num_phrases=60, min_answers=1),
        training=TrainingSettings(
            num_epochs=12, batch_size=256, learning_rate=1e-2, trunk_width=64, dropout=0.0, input_noise=0.0
        ),
        replay=ReplaySettings(held_out_share=0.1, num_draft_tokens=(4,), max_answers=5),
    )
    target = SyntheticTarget()
    target.tokenizer = None  # the phrases are given
    return fit(
        target,
        [corpus],
        folder / "head",
        settings,
        work=folder / "work",
        command="phrasedraft fit",
        vocabulary=PhraseVocabulary.from_phrases([(token,) for token in range(4, 64)]),
        console=Console(file=io.StringIO()),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_that_reads_goes_on_with_what_was_said_before(tmp_path, kind):
    result = fitted(tmp_path, kind, text_window=64)
    reads = result.replayed["train"][4].mean_acceptance_length
    assert reads > (1.8 if kind == "phrase-head" else 2.5)
    loaded = load_head(tmp_path / "head")
    assert loaded.config.text_window == 64
    trace = SyntheticTarget().trace(repeating("new", random.Random(99)))
    stats = replay(loaded, [recorded(trace)], BUDGET, SyntheticTarget().embed)
    assert stats.mean_acceptance_length > 0.9 * reads
    loaded.scorer.reader = None
    blind = replay(loaded, [recorded(trace)], BUDGET, SyntheticTarget().embed)
    assert blind.mean_acceptance_length < stats.mean_acceptance_length - 0.4


def test_a_head_that_does_not_read_cannot(tmp_path):
    assert fitted(tmp_path, "phrase-chain").replayed["train"][4].mean_acceptance_length < 1.5


def test_a_replay_at_another_temperature_reads_as_well(tmp_path):
    head = fitted(tmp_path, "phrase-head", text_window=64).head
    head.config = replace(head.config, temperature=1.3)
    trace = SyntheticTarget().trace(repeating("new", random.Random(98)))
    wanted = replay(head, [recorded(trace)], BUDGET, SyntheticTarget().embed)
    for each in for_replay(head):
        stats = replay(each, [recorded(trace)], BUDGET, SyntheticTarget().embed)
        assert stats.num_accepted_tokens == wanted.num_accepted_tokens > 10


def test_a_reading_head_drafts_the_same_on_a_text_it_is_given_in_parts(tmp_path):
    head = fitted(tmp_path, "phrase-chain", text_window=64).head
    trace = SyntheticTarget().trace(repeating("new", random.Random(97)))
    embed = SyntheticTarget().embed
    hidden = trace.hidden.float()
    with torch.inference_mode():
        whole = head.begin([*trace.answer.prompt, *trace.tokens[:20]], trace.tokens[20], hidden[20:21], embed)
        parts = head.begin(trace.answer.prompt, trace.tokens[0], hidden[:1], embed)
        for first, end in ((1, 4), (4, 5), (5, 21)):
            head.update(parts, trace.tokens[first:end], hidden[first:end])
        assert head.propose(whole, BUDGET).tokens == head.propose(parts, BUDGET).tokens
