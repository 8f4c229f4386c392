"""One tree from many sources: shared nodes, corrected probabilities, sources that fade and come back, exact text."""

import pytest
import torch

from kit import PROMPT, RandomTreeDrafter, StubDrafter, greedy_answer, plain, target_of, tree_of
from phrasedraft import Decoder, Stopping
from phrasedraft.drafters import DraftBudget, Observer, load_drafter
from phrasedraft.drafters.merged import MergedDrafter, merge_drafters
from phrasedraft.drafters.prompt_lookup import PromptLookup
from phrasedraft.drafters.source import Source
from phrasedraft.drafters.suffix_automaton import SuffixAutomatonDrafter
from phrasedraft.drafters.token_recycling import TokenRecycling
from phrasedraft.errors import OptionError
from phrasedraft.target import FeatureSpec
from phrasedraft.tree.draft_tree import DraftTree

WIDE = DraftBudget(num_draft_tokens=16, max_depth=16)
NO_ROWS = torch.zeros((1, 0))


class FixedTree(StubDrafter):
    """Proposes the same tree each time, below whatever the last token is."""

    name = "fixed"
    features = FeatureSpec(layers=())

    def __init__(self, tree):
        super().__init__([])
        self.tree = tree

    def draft(self, state, budget):
        return DraftTree((state.text[-1], *self.tree.tokens[1:]), self.tree.parents, self.tree.values)


def begun(drafter, text):
    return drafter.begin(text[:-1], text[-1], NO_ROWS, target_of().embed)


def paths_of(tree):
    paths = [()]
    for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
        paths.append((*paths[parent], token))
    return dict(zip(paths, tree.values, strict=True))


def test_sources_are_told_from_drafters_of_trees():
    for each in (SuffixAutomatonDrafter(), PromptLookup(), TokenRecycling()):
        assert isinstance(each, Source)
    assert not isinstance(FixedTree(DraftTree.root_only(1)), Source)


def test_the_worked_example_of_the_docs():
    head = FixedTree(DraftTree((4, 7, 8, 5), (-1, 0, 0, 1), (1.0, 0.6, 0.2, 0.3)))
    merged = merge_drafters([head, SuffixAutomatonDrafter()])
    tree = merged.propose(begun(merged, [3, 4, 8, 9, 3, 4]), DraftBudget(num_draft_tokens=4, max_depth=8))
    # The head says 7 (.6) and 8 (.2); the text says 8 (1 / 1.5); together that is more than 1, so both are scaled.
    total = 0.6 + 1 / 1.5
    expected = {
        (): 1.0,
        (8,): 1 / 1.5 / total,
        (7,): 0.6 / total,
        (8, 9): 1 / 1.5 / total * (1 / (1 + 1 / 3)),
        (8, 9, 3): 1 / 1.5 / total * (1 / (1 + 1 / 3)) * (1 / (1 + 1 / 4)),
    }
    assert paths_of(tree) == pytest.approx(expected)


def test_a_source_goes_on_where_only_the_head_has_been():
    head = FixedTree(DraftTree((1, 5), (-1, 0), (1.0, 0.9)))
    merged = merge_drafters([head, SuffixAutomatonDrafter()])
    tree = merged.propose(begun(merged, [5, 6, 7, 2, 1]), WIDE)  # 1 is new to the text, 5 is not
    assert (5, 6, 7, 2) in paths_of(tree)


@pytest.mark.parametrize(
    "name", ["suffix-automaton+prompt-lookup", "prompt-lookup", "suffix-automaton+token-recycling"]
)
def test_trees_are_sound(name):
    drafters = [load_drafter(part) for part in name.split("+")]
    merged = merge_drafters([RandomTreeDrafter([1, 2, 3, 4] * 9, 12), *drafters])
    merged.check(target_of().identity)
    state = begun(merged, [1, 2, 3, 4] * 3)
    for step in range(20):
        tree = merged.propose(state, DraftBudget(num_draft_tokens=7, max_depth=3))
        assert 0 < tree.num_draft_tokens <= 7
        assert max(tree.depths) <= 3
        assert list(tree.values[1:]) == sorted(tree.values[1:], reverse=True)
        for node, parent in enumerate(tree.parents[1:], start=1):
            assert tree.values[node] <= tree.values[parent]
        assert len({(parent, token) for parent, token in zip(tree.parents, tree.tokens, strict=True)}) == len(
            tree.tokens
        )
        merged.update(state, [step % 4 + 1], NO_ROWS)


def test_a_chain_is_one_path():
    merged = merge_drafters([SuffixAutomatonDrafter(), PromptLookup()])
    tree = merged.propose(
        begun(merged, [1, 2, 3, 4, 1, 2]), DraftBudget(num_draft_tokens=5, max_depth=9, chain_only=True)
    )
    assert tree.is_chain
    assert tree.tokens[:4] == (2, 3, 4, 1)


def test_without_a_budget_nothing_is_drafted_and_the_next_draft_is_sound():
    merged = merge_drafters([SuffixAutomatonDrafter()])
    state = begun(merged, [1, 2, 1])
    assert merged.propose(state, DraftBudget(num_draft_tokens=0, max_depth=4)).num_draft_tokens == 0
    merged.update(state, [2, 1], NO_ROWS)
    assert merged.propose(state, WIDE).tokens[:3] == (1, 2, 1)


class Liar(FixedTree):
    """Sure of a token that never comes, until it is told to stop lying."""

    name = "liar"

    def __init__(self):
        super().__init__(DraftTree.root_only(0))
        self.lies = True

    def draft(self, state, budget):
        return tree_of(state.text[-1], [(90 if self.lies else (state.text[-1] % 5) + 1, 0)])


def test_a_source_that_does_not_pay_fades_within_a_few_hundred_tokens_and_comes_back():
    liar = Liar()
    merged = merge_drafters([liar, PromptLookup()])
    state = begun(merged, [1, 2, 3, 4, 5, 1])
    one = DraftBudget(num_draft_tokens=1, max_depth=1)

    def share(passes):
        firsts = []
        for _ in range(passes):
            firsts.append(merged.propose(state, one).tokens[1])
            merged.update(state, [state.token % 5 + 1], NO_ROWS)
        return sum(token == 90 for token in firsts[-20:])

    assert share(20) > 0
    assert share(180) == 0
    assert merged.propose(state, WIDE).tokens.count(90) == 0
    liar.lies = False
    share(200)
    assert merged.propose(state, one).values[1] > 0.9


def test_two_sources_that_agree_are_believed_more_than_either_alone():
    class Half(FixedTree):
        name = "half"

        def draft(self, state, budget):  # right whenever the other one says the same, else wrong
            return tree_of(state.text[-1], [(state.text[-1] % 5 + 1 if len(state.text) % 2 else 80, 0)])

    merged = merge_drafters([Half(DraftTree.root_only(0)), PromptLookup()])
    state = begun(merged, [1, 2, 3, 4, 5, 1])
    for step in range(300):
        merged.propose(state, WIDE)
        merged.update(state, [state.token % 5 + 1 if step % 2 == 0 else 60], NO_ROWS)
        state.token = state.token if state.token < 6 else 1
    both, one = merged.agreed(0b11, 0.45), merged.agreed(0b10, 0.45)
    assert both > one


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt2"])
def test_the_text_is_the_targets_own_and_drafts_are_accepted(family):
    target = target_of(family)
    answer = greedy_answer(family, 40)
    merged = merge_drafters([RandomTreeDrafter(answer), SuffixAutomatonDrafter(), TokenRecycling(), PromptLookup()])
    generation = Decoder(target, merged, num_draft_tokens=8).generate(PROMPT, stopping=Stopping(max_new_tokens=40))
    assert generation.tokens == answer == plain(target, stopping=Stopping(max_new_tokens=40)).tokens
    assert generation.stats.num_accepted_tokens > 10


def test_it_observes_only_where_one_of_its_sources_does():
    assert not isinstance(merge_drafters([SuffixAutomatonDrafter()]), Observer)
    assert isinstance(merge_drafters([SuffixAutomatonDrafter(), TokenRecycling()]), Observer)


def test_drafters_are_merged_by_name():
    merged = load_drafter("smollm2-135m+suffix-automaton")
    assert isinstance(merged, MergedDrafter)
    assert merged.name == "phrase-head+suffix-automaton"
    assert merged.features == merged.drafters[0].features
    assert merged.num_parameters == merged.drafters[0].num_parameters > 0


def test_several_may_read_hidden_states_where_they_read_the_same():
    class Reader(FixedTree):
        def __init__(self, name, *layers):
            super().__init__(DraftTree.root_only(0))
            self.name, self.features = name, FeatureSpec(layers=layers)

    merged = merge_drafters([Reader("one", 3, -1), PromptLookup(), Reader("two", 3, -1)])
    assert merged.features == FeatureSpec(layers=(3, -1))
    complaint = r"different hidden states: `one` layers \[3, -1\], `two` layers \[-1\]"
    with pytest.raises(OptionError, match=complaint):
        merge_drafters([Reader("one", 3, -1), PromptLookup(), Reader("two", -1)])


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("suffix-automaton+suffix-automaton", "each may be there once"),
        ("smollm2-135m+smollm2-135m", "each may be there once"),
        ("suffix-automaton+", "the drafter is ``"),
        ("suffix-automaton+nonsense", "the drafter is `nonsense`"),
    ],
)
def test_what_cannot_be_merged_is_refused(name, complaint):
    with pytest.raises(OptionError, match=complaint):
        load_drafter(name)
