from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kit import PROMPT, plain, target_of
from phrasedraft import Choice, Decoder, Stopping
from phrasedraft.drafters import DraftBudget
from phrasedraft.drafters.suffix_automaton import SuffixAutomaton, SuffixAutomatonDrafter

WIDE = DraftBudget(num_draft_tokens=16, max_depth=16)
texts = st.integers(1, 4).flatmap(lambda size: st.lists(st.integers(0, size), min_size=1, max_size=30))


def automaton_of(text):
    automaton = SuffixAutomaton()
    for token in text:
        automaton.append(token)
    return automaton


def draft(text, budget=WIDE):
    drafter = SuffixAutomatonDrafter()
    tokens = [ord(letter) for letter in text]
    return drafter.propose(drafter.begin(tokens[:-1], tokens[-1], torch.zeros((1, 0)), target_of().embed), budget)


def ends_of(text, part):
    return [end for end in range(len(part), len(text) + 1) if text[end - len(part) : end] == part]


@given(texts)
def test_the_match_is_the_longest_end_of_the_text_that_was_there_before(text):
    _, length = automaton_of(text).longest_match()
    assert length == max(size for size in range(len(text)) if size == 0 or len(ends_of(text, text[-size:])) > 1)


@given(texts)
def test_followers_are_counted_as_often_as_they_followed(text):
    automaton = automaton_of(text)
    state, length = automaton.longest_match()
    if not length:
        return
    followed = Counter(text[end] for end in ends_of(text, text[-length:]) if end < len(text))
    assert {token: count for token, count, _ in automaton.followers(state)} == followed
    for token, _, after in automaton.followers(state):
        part = [*text[-length:], token]
        followed = Counter(text[end] for end in ends_of(text, part) if end < len(text))
        assert {token: count for token, count, _ in automaton.followers(after)} == followed


@given(texts)
def test_there_are_at_most_two_states_a_token(text):
    assert automaton_of(text).num_states <= max(2 * len(text), 2)


def test_the_more_frequent_continuation_is_the_more_probable_one():
    tree = draft("1abX2abY3abX4ab", DraftBudget(num_draft_tokens=2, max_depth=1))
    assert [chr(token) for token in tree.tokens] == ["b", "X", "Y"]
    assert tree.values[1:] == pytest.approx((2 / 3.5, 1 / 3.5))


def test_a_longer_match_makes_its_continuation_more_probable():
    short, long = draft("aX.a"), draft("abcdefX.abcdef")
    assert chr(short.tokens[1]) == chr(long.tokens[1]) == "X"
    assert short.values[1] == pytest.approx(1 / 2)
    assert long.values[1] == pytest.approx(1 / (1 + 1 / 6))


def test_a_path_that_reaches_the_end_of_the_text_goes_on_where_it_matches():
    chain = DraftBudget(num_draft_tokens=8, max_depth=8, chain_only=True)
    assert "".join(map(chr, draft("xyzxyzxyz", chain).tokens)) == "zxyzxyzxy"


def test_a_chain_follows_the_most_frequent_continuation():
    chain = DraftBudget(num_draft_tokens=4, max_depth=9, chain_only=True)
    assert "".join(map(chr, draft("abX.abX.abY.ab", chain).tokens)) == "bX.ab"


def test_drafts_are_accepted_where_the_target_repeats_itself():
    cycle = torch.randperm(96, generator=torch.Generator().manual_seed(1))

    def go_round(input_ids, scores):  # every text of this target runs into a loop of at most 12 tokens
        return scores.index_fill(1, cycle[input_ids[0, -1:] % 12], 1e4)

    choice = Choice(processors=(go_round,))
    stopping = Stopping(max_new_tokens=120)
    drafter = SuffixAutomatonDrafter()
    generation = Decoder(target_of(), drafter, num_draft_tokens=8).generate(PROMPT, choice, stopping)
    assert generation.tokens == plain(target_of(), choice, stopping).tokens
    assert generation.stats.mean_acceptance_length > 4
