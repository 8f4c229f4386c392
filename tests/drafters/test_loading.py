"""Drafters by name, and what every drafter without weights has to hold."""

import random
import sys
from collections import Counter

import pytest
import torch

from kit import PROMPT, greedy_answer, plain, target_of
from phrasedraft import Choice, Decoder, Stopping
from phrasedraft.drafters import DraftBudget, Drafter, Observer, load_drafter
from phrasedraft.drafters.loading import TRAINING_FREE
from phrasedraft.errors import OptionError
from phrasedraft.evaluation.replay import RecordedAnswer, replay
from phrasedraft.target import FeatureSpec
from phrasedraft.tree.draft_tree import DraftTree

STOPPING = Stopping(max_new_tokens=60)
CYCLE = (7, 21, 3, 50, 11, 33)
NO_ROWS = torch.zeros((1, 0))

pytestmark = pytest.mark.filterwarnings("ignore:no drafts accepted")


def begun(name, text):
    """A drafter for the tiny llama that has read a text, and the text's state."""
    drafter = load_drafter(name)
    target = target_of()
    drafter.check(target.identity)
    drafter.place(target.device)
    state = drafter.begin(text[:-1], text[-1], NO_ROWS, target.embed)
    if isinstance(drafter, Observer):  # the target that goes on as the text did, half the time
        logits = torch.full((len(text), target.identity.vocab_size), -5.0)
        for node, token in enumerate(text):
            following = text[node + 1] if node + 1 < len(text) else text[0]
            logits[node, following] = 2.0
            logits[node, token] = 1.5
        drafter.observe(state, DraftTree.chain(tuple(text)), logits)
    return drafter, state


@pytest.mark.parametrize("name", TRAINING_FREE)
def test_each_name_gives_a_new_drafter_that_reads_no_hidden_states(name):
    drafter = load_drafter(name)
    assert isinstance(drafter, Drafter)
    assert drafter.name == name
    assert drafter.features == FeatureSpec(layers=())
    assert load_drafter(name) is not drafter


def test_a_name_that_is_none_lists_those_that_are():
    with pytest.raises(OptionError, match="`lookup`, it may be `prompt-lookup`, `suffix-automaton`, `token-recycling`"):
        load_drafter("lookup")


@pytest.mark.parametrize("family", ["llama", "gpt2", "bloom", "gemma3", "gemma3_wide_window", "qwen3_5"])
@pytest.mark.parametrize("name", TRAINING_FREE)
def test_greedy_text_is_that_of_generate(name, family):
    prompt = (*PROMPT, *PROMPT)
    decoder = Decoder(target_of(family), load_drafter(name), num_draft_tokens=6)
    for _ in range(2):  # the second time a drafter may know the text
        generation = decoder.generate(prompt, stopping=Stopping(max_new_tokens=40))
        assert generation.tokens == greedy_answer(family, 40, prompt)
        assert generation.stats.num_draft_tokens > 0


@pytest.mark.parametrize("num_draft_tokens", [1, 4, 16])
@pytest.mark.parametrize("name", TRAINING_FREE)
def test_sampled_text_is_that_of_plain_decoding_with_the_same_seed(name, num_draft_tokens):
    choice = Choice(temperature=1.1, top_k=12, repetition_penalty=1.1, seed=4)
    decoder = Decoder(target_of(), load_drafter(name), num_draft_tokens=num_draft_tokens)
    generation = decoder.generate(PROMPT, choice, STOPPING)
    assert generation.tokens == plain(target_of(), choice, STOPPING).tokens
    assert generation.stats.num_draft_tokens > 0


@pytest.mark.parametrize("name", TRAINING_FREE)
def test_one_drafter_serves_two_texts_in_turns(name):
    prompts = (PROMPT, (9, 2, 4, 4))
    decoder = Decoder(target_of(), load_drafter(name), num_draft_tokens=5)
    streams = [decoder.stream(prompt, stopping=STOPPING) for prompt in prompts]
    open_streams = list(streams)
    while open_streams:
        open_streams = [stream for stream in open_streams if next(stream, None) is not None]
    for prompt, stream in zip(prompts, streams, strict=True):
        assert stream.result.tokens == greedy_answer("llama", 60, prompt)


@pytest.mark.parametrize("name", TRAINING_FREE)
def test_a_text_that_repeats_itself_is_drafted_and_accepted(name):
    text = CYCLE * 3
    drafter, state = begun(name, text)
    tree = drafter.propose(state, DraftBudget(num_draft_tokens=16, max_depth=20))
    node, depth = 0, 0
    while (node := tree.children[node].get(CYCLE[depth % len(CYCLE)])) is not None:
        depth += 1
    assert depth >= 4


@pytest.mark.parametrize("chain_only", [False, True])
@pytest.mark.parametrize(("num_draft_tokens", "max_depth"), [(1, 1), (1, 9), (7, 1), (5, 3), (40, 6), (0, 4), (4, 0)])
@pytest.mark.parametrize("name", TRAINING_FREE)
def test_drafts_stay_within_the_budget(name, num_draft_tokens, max_depth, chain_only):
    generator = random.Random(3)
    text = [generator.randrange(6) for _ in range(300)]
    drafter, state = begun(name, text)
    budget = DraftBudget(num_draft_tokens=num_draft_tokens, max_depth=max_depth, chain_only=chain_only)
    tree = drafter.propose(state, budget)
    assert tree.tokens[0] == text[-1]
    assert (tree.num_draft_tokens > 0) is (num_draft_tokens > 0 and max_depth > 0)
    assert tree.num_draft_tokens <= num_draft_tokens
    assert max(tree.depths) <= max_depth
    assert tree.is_chain or not chain_only
    assert sum(map(len, tree.children)) == tree.num_draft_tokens  # siblings carry different tokens
    for parent, value in zip(tree.parents[1:], tree.values[1:], strict=True):
        assert 0 < value <= tree.values[parent] <= 1


@pytest.mark.parametrize("name", TRAINING_FREE)
def test_an_empty_prompt_and_a_text_without_repeats_draft_nothing(name):
    target = target_of()
    budget = DraftBudget(num_draft_tokens=8, max_depth=8)
    drafter = load_drafter(name)
    drafter.check(target.identity)
    state = drafter.begin([], 5, NO_ROWS, target.embed)
    assert drafter.propose(state, budget) == DraftTree.root_only(5)
    drafter.update(state, [8, 9], torch.zeros((2, 0)))
    assert drafter.propose(state, budget) == DraftTree.root_only(9)


def lines_run(call) -> int:
    """How many lines of this package's drafters and trees a call runs."""
    counts: Counter[str] = Counter()

    def trace(frame, event, argument):
        path = frame.f_code.co_filename
        if "phrasedraft/drafters" not in path and "phrasedraft/tree" not in path:
            return None
        counts[event] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return counts["line"]


@pytest.mark.parametrize("kind", ["random", "cycle", "one-token", "words"])
@pytest.mark.parametrize("name", TRAINING_FREE)
def test_a_token_costs_no_more_in_a_long_text(name, kind):
    generator = random.Random(0)
    words = [[generator.randrange(96) for _ in range(generator.randint(1, 6))] for _ in range(60)]
    text = {
        "random": [generator.randrange(96) for _ in range(10_000)],
        "cycle": [*CYCLE] * 1667,
        "one-token": [5] * 10_000,
        "words": [token for _ in range(5000) for token in generator.choice(words)],
    }[kind][:10_000]
    budget = DraftBudget(num_draft_tokens=8, max_depth=16)
    target = target_of()
    drafter = load_drafter(name)
    drafter.check(target.identity)
    state = drafter.begin(text[:1], text[1], NO_ROWS, target.embed)

    def read(tokens):
        for token in tokens:
            drafter.update(state, [token], NO_ROWS)

    early = lines_run(lambda: read(text[2:1002]))
    early_draft = lines_run(lambda: drafter.propose(state, budget))
    read(text[1002:9000])
    assert lines_run(lambda: read(text[9000:])) <= 1.25 * early + 100
    # A draft looks at what followed its nodes, which are different tokens: as many as there are in the vocabulary.
    assert lines_run(lambda: drafter.propose(state, budget)) <= early_draft + 8 * 96


@pytest.mark.parametrize("name", ["prompt-lookup", "suffix-automaton"])
@pytest.mark.parametrize("num_draft_tokens", [1, 6, 16])
def test_replay_counts_what_the_decoding_loop_counts(name, num_draft_tokens):
    target = target_of()
    prompt = (*PROMPT, *greedy_answer("llama", 20), *PROMPT)
    live = Decoder(target, load_drafter(name), num_draft_tokens=num_draft_tokens).generate(prompt, stopping=STOPPING)
    rows = torch.zeros((len(live.tokens), 0))
    recorded = RecordedAnswer(prompt=prompt, tokens=live.tokens, hidden=rows, max_new_tokens=60)
    budget = DraftBudget(num_draft_tokens=num_draft_tokens, max_depth=60)
    replayed = replay(load_drafter(name), [recorded], budget, target.embed)
    counted = ("num_passes", "num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_landings")
    assert {each: getattr(replayed, each) for each in counted} == {each: getattr(live.stats, each) for each in counted}
    assert replayed.num_draft_tokens > 0
