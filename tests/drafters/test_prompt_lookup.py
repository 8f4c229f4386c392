import pytest
import torch

from kit import PROMPT, plain, target_of
from phrasedraft import Choice, Decoder, Stopping
from phrasedraft.drafters import DraftBudget
from phrasedraft.drafters.prompt_lookup import PromptLookup, PromptLookupSettings
from phrasedraft.errors import OptionError

WIDE = DraftBudget(num_draft_tokens=16, max_depth=16)
NO_ROWS = torch.zeros((1, 0))


def draft(text, budget=WIDE, **settings):
    """The tree that follows a text of single digits or letters."""
    drafter = PromptLookup(PromptLookupSettings(**settings))
    tokens = [ord(letter) for letter in text]
    return drafter.propose(drafter.begin(tokens[:-1], tokens[-1], NO_ROWS, target_of().embed), budget)


def paths(tree):
    """The paths from the root to each leaf, as text."""
    texts = [""]
    for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
        texts.append(texts[parent] + chr(token))
    return {text for node, text in enumerate(texts) if text and not tree.children[node]}


def test_the_longest_ngram_wins_over_a_more_recent_shorter_one():
    assert paths(draft("abcX-bcY-cZ-abc", prompt_lookup_num_tokens=1, num_paths=1)) == {"X"}
    assert paths(draft("abcX-bcY-cZ-abc", prompt_lookup_num_tokens=1, num_paths=1, max_matching_ngram_size=1)) == {"Z"}


def test_several_matches_give_several_paths_the_most_recent_the_most_probable():
    tree = draft("aX.aY.aZ.a", prompt_lookup_num_tokens=2, max_matching_ngram_size=1, num_paths=2)
    assert paths(tree) == {"Z.", "Y."}
    assert tree.values == (1.0, 0.5, 0.5, 0.25, 0.25)
    assert chr(tree.tokens[1]) == "Z"


def test_matches_that_go_on_alike_add_up():
    tree = draft("aXY.aXZ.a", prompt_lookup_num_tokens=2, max_matching_ngram_size=1)
    assert paths(tree) == {"XY", "XZ"}
    assert tree.values == (1.0, 0.75, 0.5, 0.25)


def test_a_match_that_reaches_the_end_of_the_text_goes_on_as_a_loop():
    assert paths(draft("xyxyxy", prompt_lookup_num_tokens=7, num_paths=1)) == {"xyxyxyx"}


def test_a_chain_is_the_last_match_alone():
    chain = DraftBudget(num_draft_tokens=3, max_depth=9, chain_only=True)
    assert paths(draft("aXXXX.aYYYY.a", chain)) == {"YYY"}


def test_at_most_the_set_number_of_tokens_is_copied():
    assert paths(draft("abcdefghijklmnopqrstuvwxyza")) == {"bcdefghijk"}


def test_drafts_are_accepted_where_the_target_repeats_itself():
    cycle = torch.randperm(96, generator=torch.Generator().manual_seed(1))

    def go_round(input_ids, scores):  # every text of this target runs into a loop of at most 96 tokens
        return scores.index_fill(1, cycle[input_ids[0, -1:] % 12], 1e4)

    choice = Choice(processors=(go_round,))
    stopping = Stopping(max_new_tokens=120)
    generation = Decoder(target_of(), PromptLookup(), num_draft_tokens=8).generate(PROMPT, choice, stopping)
    assert generation.tokens == plain(target_of(), choice, stopping).tokens
    assert generation.stats.mean_acceptance_length > 4


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
@pytest.mark.parametrize("name", ["max_matching_ngram_size", "prompt_lookup_num_tokens", "num_paths"])
@pytest.mark.usefixtures("without_type_checks")
def test_settings_that_cannot_be_are_refused(name, value):
    with pytest.raises(OptionError, match=f"`{name}` is `{value}`, it may be 1 or more"):
        PromptLookupSettings(**{name: value})
