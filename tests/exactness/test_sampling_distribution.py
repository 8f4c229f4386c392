"""Sampled texts have the target's own distribution: chi-square against exact enumeration over eight tokens."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from kit import StubDrafter, StubState, target_of, tree_of
from phrasedraft import Choice, Decoder, Stopping
from phrasedraft.decoding import walk
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.tree.draft_tree import DraftTree

VOCAB_SIZE = 8
LENGTH = 3
THRESHOLD = 1e-3
"""Probability of a right sampler to fail; the wrong one below must stay under it."""

NUM_SAMPLES = 1500
BUDGET = DraftBudget(num_draft_tokens=6, max_depth=3)
PROMPT = (1, 2, 3)
OUTCOMES = list(itertools.product(range(VOCAB_SIZE), repeat=LENGTH))


def target():
    return target_of("llama", vocab_size=VOCAB_SIZE)


@cache
def raw_logits():
    """The target's logits after each prefix of up to two tokens."""
    with torch.inference_mode():
        return {
            prefix: target().model(torch.tensor([[*PROMPT, *prefix]])).logits[0, -1]
            for length in range(LENGTH)
            for prefix in itertools.product(range(VOCAB_SIZE), repeat=length)
        }


def conditionals(choice):
    """The processed distribution after each of these prefixes."""
    table = {}
    for prefix, logits in raw_logits().items():
        scores = choice.processor_list(torch.tensor([[*PROMPT, *prefix]]), logits[None].clone())
        table[prefix] = torch.softmax(scores.double(), dim=-1)[0].numpy()
    return table


def p_value(samples, table):
    """Of a chi-square test of the samples against the product of the conditionals; rare outcomes share a bin."""
    expected = np.array(
        [np.prod([table[outcome[:depth]][outcome[depth]] for depth in range(LENGTH)]) for outcome in OUTCOMES]
    ) * len(samples)
    numbers = {outcome: number for number, outcome in enumerate(OUTCOMES)}
    observed = np.bincount([numbers[sample] for sample in samples], minlength=len(OUTCOMES))
    assert observed[expected == 0].sum() == 0
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    assert len(expected) > 12
    if expected[-1] < 5:  # too few for a bin of their own
        observed = np.append(observed[:-2], observed[-2:].sum())
        expected = np.append(expected[:-2], expected[-2:].sum())
    return stats.chisquare(observed, expected).pvalue


class WideDrafter(StubDrafter):
    """Two branches of two tokens below the root, always the same."""

    def draft(self, state, budget):
        return tree_of(state.text[-1], [(0, 0), (5, 0), (0, 1), (3, 1), (5, 2), (2, 2)])


class DeepDrafter(StubDrafter):
    """One path of two tokens."""

    def draft(self, state, budget):
        return DraftTree.chain((state.text[-1], 5, 5))


SETTINGS = pytest.mark.parametrize(
    "settings",
    [{"temperature": 4.0}, {"temperature": 6.0, "top_k": 5}, {"temperature": 5.0, "top_p": 0.9}],
    ids=["temperature", "top-k", "top-p"],
)
DRAFTERS = pytest.mark.parametrize("drafter_type", [WideDrafter, DeepDrafter])


def sample(drafter_type, choose):
    """A text made by walking down draft trees, where `choose(text, children)` gives the target's token."""
    text = []

    def commit(token, was_drafted):
        text.append(token)
        return len(text) < LENGTH

    while len(text) < LENGTH:
        tree = drafter_type(()).draft(StubState(list(text)), BUDGET) if text else DraftTree.root_only(0)
        walk(tree, lambda node, tree=tree: choose(text, tree.children[node]), commit)
    return tuple(text)


def walked(drafter_type, choice):
    """The text that `choice` makes of the target's logits, walking down the drafter's trees."""

    def choose(text, children):
        return choice.token(torch.tensor([[*PROMPT, *text]]), raw_logits()[tuple(text)])

    return sample(drafter_type, choose)


@SETTINGS
def test_walked_choices_have_the_targets_distribution(settings):
    samples = [walked(WideDrafter, Choice(seed=seed, **settings)) for seed in range(NUM_SAMPLES)]
    assert p_value(samples, conditionals(Choice(seed=0, **settings))) > THRESHOLD


@DRAFTERS
def test_decoded_texts_are_the_walked_ones(drafter_type):
    decoder = Decoder(target(), drafter_type(()), num_draft_tokens=6)
    accepted = 0
    for seed in range(40):
        choice = Choice(temperature=4.0, seed=seed)
        generation = decoder.generate(PROMPT, choice, Stopping(max_new_tokens=LENGTH))
        assert generation.tokens == walked(drafter_type, choice) == walked(DeepDrafter, choice)
        accepted += generation.stats.num_accepted_tokens
    assert accepted > 4


@SETTINGS
@DRAFTERS
def test_a_wrong_acceptance_rule_is_found_out(drafter_type, settings):
    """Accepting a draft by its own probability, then drawing from everything where that failed, favours the drafts."""
    table = conditionals(Choice(seed=0, **settings))
    random = np.random.default_rng(0)

    def choose(text, children):
        probabilities = table[tuple(text)]
        for token in children:
            if random.random() < probabilities[token]:
                return token
        return int(random.choice(VOCAB_SIZE, p=probabilities))

    assert p_value([sample(drafter_type, choose) for _ in range(NUM_SAMPLES)], table) < THRESHOLD


@pytest.mark.slow
@SETTINGS
@DRAFTERS
def test_many_decoded_texts_have_the_targets_distribution(drafter_type, settings):
    decoder = Decoder(target(), drafter_type(()), num_draft_tokens=6)
    stopping = Stopping(max_new_tokens=LENGTH)
    samples = [decoder.generate(PROMPT, Choice(seed=seed, **settings), stopping).tokens for seed in range(NUM_SAMPLES)]
    assert p_value(samples, conditionals(Choice(seed=0, **settings))) > THRESHOLD


def test_the_same_seed_gives_the_same_text_and_another_seed_another_one():
    decoder = Decoder(target_of(), WideDrafter(()), num_draft_tokens=6)

    def text(seed):
        return decoder.generate(PROMPT, Choice(temperature=1.5, seed=seed), Stopping(max_new_tokens=12)).tokens

    first = text(42)
    between = text(7)
    assert text(42) == first
    assert between != first
    assert len({text(seed) for seed in range(10)}) > 5


def test_unseeded_texts_differ_and_say_which_seed_repeats_them():
    decoder = Decoder(target_of(), WideDrafter(()), num_draft_tokens=6)
    stopping = Stopping(max_new_tokens=12)
    generations = [decoder.generate(PROMPT, Choice(temperature=1.5), stopping) for _ in range(8)]
    assert len({generation.tokens for generation in generations}) > 4
    again = decoder.generate(PROMPT, Choice(temperature=1.5, seed=generations[0].seed), stopping)
    assert again.tokens == generations[0].tokens
