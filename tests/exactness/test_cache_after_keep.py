"""After `keep`, the cache gives the logits and hidden states that a fresh pass over the same text gives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from kit import PROMPT, STUBS, RightUntilDrafter, StubDrafter, greedy_answer, target_of, tree_of
from phrasedraft import Decoder, FeatureSpec, Stopping, Support
from phrasedraft.tree.draft_tree import DraftTree

TREE = tree_of(7, [(11, 0), (12, 0), (13, 1), (14, 1), (15, 2), (16, 5), (17, 4)])
TREE_PATHS = [(0,), (0, 1), (0, 2), (0, 1, 3), (0, 1, 4), (0, 2, 5), (0, 1, 4, 7), (0, 2, 5, 6)]
CHAIN = DraftTree.chain((7, 11, 12, 13, 14))
LAYERS = FeatureSpec(layers=(0, 1, -1))


@torch.inference_mode()
def fresh_pass(target, tokens):
    """The last logits and the hidden states of a pass without a cache."""
    output = target.model(torch.tensor([list(tokens)]), output_hidden_states=True, use_cache=False)
    return output.logits[0, -1], LAYERS.select(output.hidden_states)


@torch.inference_mode()
def assert_keeps(target, tree, paths, tail):
    """Verify and keep each path in turn in one sequence, and compare with fresh passes all the way."""
    sequence = target.start(LAYERS)
    text = list(PROMPT)
    sequence.prefill(text)
    for path in paths:
        nodes = [tree.tokens[node] for node in path]
        checked = sequence.verify(tree)
        for end in range(1, len(path) + 1):
            logits, hidden = fresh_pass(target, text + nodes[:end])
            assert torch.allclose(checked.logits[path[end - 1]], logits, atol=1e-4)
            assert torch.allclose(checked.hidden[path[end - 1]], hidden[-1], atol=1e-4)
        sequence.keep(path)
        text += nodes
        assert sequence.num_cached_tokens == len(text)
    final = sequence.prefill(tail)
    logits, hidden = fresh_pass(target, text + list(tail))
    assert torch.allclose(final.logits[0], logits, atol=1e-4)
    assert torch.allclose(final.hidden, hidden[-len(tail) :], atol=1e-4)


@pytest.mark.parametrize("path", TREE_PATHS)
@pytest.mark.parametrize("family", ["llama", "gpt2", "opt", "gemma3_wide_window"])
def test_any_path_of_a_tree_can_be_kept(family, path):
    assert_keeps(target_of(family), TREE, [path, (0,), path], (3, 4, 5))


@pytest.mark.parametrize("attn_implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("family", [family for family in zoo.FULL_ATTENTION if family != "bloom"])
def test_every_tree_family_keeps_a_path_that_skips_rows(family, attn_implementation):
    assert_keeps(target_of(family, attn_implementation), TREE, [(0, 2, 5), (0, 1, 4, 7)], (3, 4))


@pytest.mark.parametrize("family", [family for family in zoo.FAMILIES if family != "mamba"])
def test_every_family_keeps_the_beginning_of_a_chain(family):
    paths = [tuple(range(length)) for length in (1, 3, 5, 2, 1, 1, 4)]
    assert_keeps(target_of(family), CHAIN, paths, (3, 4, 5))


@pytest.mark.parametrize("family", zoo.WINDOWED)
def test_a_window_that_was_passed_long_ago_still_undoes_rejected_rows(family):
    assert_keeps(target_of(family), CHAIN, [tuple(range(1 + turn % 5)) for turn in range(16)], (3, 4, 5))


@pytest.mark.parametrize("family", [family for family in zoo.WINDOWED if family.endswith("wide_window")])
@torch.inference_mode()
def test_a_tree_is_allowed_only_where_the_window_holds_all_of_it(family):
    target, allowed = target_of(family), []
    for num_context in range(zoo.WIDE_WINDOW - 12, zoo.WIDE_WINDOW + 2):
        context = [(5 * number + 2) % zoo.VOCAB_SIZE for number in range(num_context)]
        sequence = target.start(LAYERS)
        sequence.prefill(context)
        allowed.append(sequence.support_for(len(TREE.tokens)) is Support.TREE)
        if allowed[-1]:
            rows = sequence.verify(TREE).logits
            for path in TREE_PATHS:
                logits, _ = fresh_pass(target, context + [TREE.tokens[node] for node in path])
                assert torch.allclose(rows[path[-1]], logits, atol=1e-4)
    assert allowed == sorted(allowed, reverse=True)
    assert {True, False} == set(allowed)


@given(
    parents=st.lists(st.integers(0, 9), min_size=1, max_size=9),
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=3),
)
@settings(max_examples=25, deadline=None)
def test_random_trees_keep_random_paths(parents, lengths):
    nodes = [(20 + node, parent % (node + 1)) for node, parent in enumerate(parents)]
    tree = tree_of(7, nodes)
    paths = []
    for leaf in (length % len(tree.tokens) for length in lengths):
        path = [leaf]
        while path[-1]:
            path.append(tree.parents[path[-1]])
        paths.append(tuple(path[::-1]))
    assert_keeps(target_of(), tree, paths, (3, 4))


@pytest.mark.parametrize("family", ["qwen3_next", "qwen3_5", "falcon_h1"])
def test_many_rejections_in_a_row_leave_the_state_exact(family):
    target = target_of(family)
    assert_keeps(target, CHAIN, [(0,)] * 12, (3, 4))
    assert target.support is Support.CHAIN


class Watching(StubDrafter):
    """Keeps every row it is given, beside what a stub drafts."""

    features = LAYERS

    def __init__(self, inner):
        super().__init__(inner.answer)
        self.inner, self.rows, self.first = inner, [], None

    def begin(self, prompt, committed, hidden, embed):
        self.first = hidden.clone()
        return self.inner.begin(prompt, committed, hidden, embed)

    def update(self, state, committed, hidden):
        self.rows.append(hidden.clone())
        self.inner.update(state, committed, hidden)

    def draft(self, state, budget):
        return self.inner.propose(state, budget)


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt_oss", "gemma3_wide_window", "qwen3_5", "qwen3_next"])
def test_drafters_are_given_the_hidden_states_of_a_fresh_pass(family, stub_name):
    answer = greedy_answer(family, 28)
    drafter = Watching(STUBS[stub_name](answer))
    # One token more than the drafter hears of: it is not told how the text ended.
    Decoder(target_of(family), drafter, num_draft_tokens=5).generate(PROMPT, stopping=Stopping(max_new_tokens=28))
    _, expected = fresh_pass(target_of(family), [*PROMPT, *answer])
    rows = torch.cat([drafter.first, *drafter.rows])
    assert len(rows) > len(PROMPT) + 18
    assert rows.shape[1] == 3 * 32
    assert torch.allclose(rows, expected[: len(rows)], atol=1e-4)


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_next"])
def test_logprobs_are_those_of_teacher_forcing(family):
    answer = greedy_answer(family, 28)
    generation = Decoder(target_of(family), RightUntilDrafter(answer), num_draft_tokens=5).generate(
        PROMPT, stopping=Stopping(max_new_tokens=28), logprobs=True
    )
    with torch.inference_mode():
        logits = target_of(family).model(torch.tensor([[*PROMPT, *answer]])).logits[0, len(PROMPT) - 1 : -1]
    expected = torch.log_softmax(logits, dim=-1).gather(-1, torch.tensor(answer)[:, None])[:, 0]
    assert generation.logprobs == pytest.approx(expected.tolist(), abs=1e-4)
