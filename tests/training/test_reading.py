"""Heads that read the text: they learn to go on with what was said before, of which one hidden state knows nothing."""

import io
import random
from dataclasses import replace
from functools import cache

import pytest
import torch
from rich.console import Console

from phrasedraft.corpus.answers import is_held_out
from phrasedraft.drafters import load_head
from phrasedraft.drafters.online_vocabulary import OnlineVocabulary
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.evaluation.remembering import for_replay
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases import PhraseVocabulary, VocabularySettings
from phrasedraft.training.fit import fit
from phrasedraft.training.fit_settings import FitSettings, HeadSettings, ReplaySettings
from phrasedraft.training.trainer import TrainingSettings
from synthetic import EOS, SyntheticTarget, answer_of, recorded, write_corpus

STEPS = {"phrase-head": {}, "token-chain": {"num_steps": 2}, "phrase-chain": {"num_steps": 2}}
BUDGET = DraftBudget(num_draft_tokens=4, max_depth=4)


def repeating(name, draw, prompt_size=10):
    """An answer that says over and over what its prompt said, which no other text says."""
    tokens = draw.sample(range(4, 64), prompt_size)
    return answer_of(tokens * 4, name=name, prompt=[1, *tokens])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The result of a run and its folder, made once for each kind of head and window."""

    @cache
    def make(kind, text_window=64):
        folder = tmp_path_factory.mktemp(kind)
        return run(folder, HeadSettings(kind=kind, text_window=text_window, **STEPS[kind])), folder / "head"

    return make


def run(folder, head, answers=None, num_epochs=6):
    draw = random.Random(0)
    answers = answers or [repeating(f"t-{index}", draw) for index in range(200)]
    corpus = write_corpus(folder / "train.jsonl", answers)
    settings = FitSettings(
        head=head,
        vocabulary=VocabularySettings(num_phrases=60),
        training=TrainingSettings(
            num_epochs=num_epochs, batch_size=256, learning_rate=2e-2, trunk_width=64, dropout=0.0, input_noise=0.0
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


@pytest.mark.parametrize("kind", STEPS)
def test_a_head_that_reads_goes_on_with_what_was_said_before(fitted, kind):
    result, folder = fitted(kind)
    reads = result.replayed["train"][4].mean_acceptance_length
    assert reads > (1.8 if kind == "phrase-head" else 2.5)
    loaded = load_head(folder)
    assert loaded.config.text_window == 64
    trace = SyntheticTarget().trace(repeating("new", random.Random(99)))
    stats = replay(loaded, [recorded(trace)], BUDGET, SyntheticTarget().embed)
    assert stats.mean_acceptance_length > 0.9 * reads
    loaded.scorer.reader = None
    blind = replay(loaded, [recorded(trace)], BUDGET, SyntheticTarget().embed)
    assert blind.mean_acceptance_length < stats.mean_acceptance_length - 0.4


def test_a_head_that_does_not_read_cannot(fitted):
    assert fitted("phrase-chain", 0)[0].replayed["train"][4].mean_acceptance_length < 1.5


def test_a_replay_at_another_temperature_reads_as_well(fitted):
    head = load_head(fitted("phrase-head")[1])
    head.config = replace(head.config, temperature=1.3)
    trace = SyntheticTarget().trace(repeating("new", random.Random(98)))
    wanted = replay(head, [recorded(trace)], BUDGET, SyntheticTarget().embed)
    for each in for_replay(head):
        stats = replay(each, [recorded(trace)], BUDGET, SyntheticTarget().embed)
        assert stats.num_accepted_tokens == wanted.num_accepted_tokens > 10


def test_a_reading_head_drafts_the_same_on_a_text_it_is_given_in_parts(fitted):
    head = fitted("phrase-chain")[0].head
    trace = SyntheticTarget().trace(repeating("new", random.Random(97)))
    embed = SyntheticTarget().embed
    hidden = trace.hidden.float()
    with torch.inference_mode():
        whole = head.begin([*trace.answer.prompt, *trace.tokens[:20]], trace.tokens[20], hidden[20:21], embed)
        parts = head.begin(trace.answer.prompt, trace.tokens[0], hidden[:1], embed)
        for first, end in ((1, 4), (4, 5), (5, 21)):
            head.update(parts, trace.tokens[first:end], hidden[first:end])
        assert head.propose(whole, BUDGET).tokens == head.propose(parts, BUDGET).tokens


def test_an_online_vocabulary_beside_a_head_that_reads_sees_what_the_head_sees(fitted):
    head = load_head(fitted("phrase-head")[1])
    target, trace = SyntheticTarget(), SyntheticTarget().trace(repeating("new", random.Random(96)))
    online, hidden = OnlineVocabulary(head), trace.hidden.float()
    states = [each.begin(trace.answer.prompt, trace.tokens[0], hidden[:1], target.embed) for each in (online, head)]
    for drafter, state in zip((online, head), states, strict=True):
        drafter.update(state, trace.tokens[1:9], hidden[1:9])
    with torch.inference_mode():
        torch.testing.assert_close(head.first_state(states[0].head), head.first_state(states[1]))
        states[1].text = None
        assert not torch.allclose(head.first_state(states[0].head), head.first_state(states[1]))


def test_a_held_out_answer_of_one_token_to_a_prompt_of_rare_tokens_is_replayed(tmp_path):
    draw = random.Random(0)
    answers = [repeating(f"t-{index}", draw) for index in range(40)]
    held_out = next(
        each
        for number in range(1000)
        if is_held_out(each := answer_of([EOS], name=f"s-{number}", prompt=[3, 0]), 0.1, 0)
    )
    result = run(tmp_path, HeadSettings(text_window=64), [*answers, held_out], num_epochs=1)
    assert result.replayed["train"][4].num_generated_tokens % 40 == 1
