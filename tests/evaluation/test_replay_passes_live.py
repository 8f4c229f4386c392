"""Pass for pass, replay is live decoding: the same trees proposed, as many tokens accepted, the same text."""

import pytest
import torch

from kit import PROMPT, STUBS, plain, target_of
from phrasedraft import GREEDY, Choice, Decoder, Stopping
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.evaluation.remembering import for_replay
from phrasedraft.evaluation.replay import RecordedAnswer, replay_answer
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec

LIMIT = 40


class Watched:
    """Another drafter, with every tree it proposed written down, cut as the loop cuts it."""

    def __init__(self, drafter):
        self.drafter = drafter
        self.trees = []
        self.name = drafter.name
        self.features = drafter.features
        self.check, self.place = drafter.check, drafter.place
        self.begin, self.update = drafter.begin, drafter.update

    def propose(self, state, budget):
        tree = self.drafter.propose(state, budget)
        self.trees.append(tree.cut(budget.max_depth))
        return tree


def decode(target, drafter, nodes, choice, stopping):
    """The text, the proposed trees and the accepted tokens of each pass of live decoding."""
    watched, lengths, counted = Watched(drafter), [], 0
    stream = Decoder(target, watched, num_draft_tokens=nodes).stream(PROMPT, choice, stopping)
    for _ in stream:
        if stream.stats.num_passes > len(lengths):
            lengths.append(stream.stats.num_accepted_tokens - counted)
            counted = stream.stats.num_accepted_tokens
    return list(stream.result.tokens), watched.trees, lengths


def replayed(target, drafter, nodes, tokens, *, chain_only=False, max_new_tokens=LIMIT):
    """The same from the text and its hidden states alone."""
    text = torch.tensor([[*PROMPT, *tokens]])
    rows = target.hidden_rows(text, torch.ones_like(text), FeatureSpec())[0, len(PROMPT) - 1 : -1]
    answer = RecordedAnswer(prompt=PROMPT, tokens=tokens, hidden=rows, max_new_tokens=max_new_tokens)
    watched = Watched(drafter)
    budget = DraftBudget(num_draft_tokens=nodes, max_depth=max_new_tokens, chain_only=chain_only)
    found = replay_answer(watched, answer, budget, target.embed)
    return found, watched.trees, [each.num_accepted_tokens for each in found.passes]


@pytest.mark.parametrize("choice", [GREEDY, Choice(temperature=0.9, seed=5)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("nodes", [1, 5, 16])
@pytest.mark.parametrize("stub", STUBS)
def test_a_replay_makes_the_passes_of_the_loop(stub, nodes, choice):
    target, stopping = target_of("llama"), Stopping(max_new_tokens=LIMIT)
    answer = list(plain(target, choice, stopping).tokens)
    text, live_trees, live_lengths = decode(target, STUBS[stub](answer, seed=3), nodes, choice, stopping)
    assert text == answer
    found, trees, lengths = replayed(target, STUBS[stub](answer, seed=3), nodes, answer)
    assert trees == live_trees
    assert lengths == live_lengths
    assert [each.tree for each in found.passes if each.tree.num_draft_tokens] == [
        tree for tree in live_trees if tree.num_draft_tokens
    ]
    assert (sum(lengths) > 0) == (stub != "wrong")


@pytest.mark.parametrize("nodes", [4, 12])
def test_a_replay_ends_where_an_end_of_text_token_ends_the_answer(nodes):
    stopping = Stopping(max_new_tokens=LIMIT)
    free = list(plain(target_of("llama"), stopping=stopping).tokens)
    end = next(token for place, token in enumerate(free) if place > 10 and token not in free[:place])
    target = target_of("llama", eos_token_id=end)
    answer = list(plain(target, stopping=stopping).tokens)
    assert answer == free[: len(answer)]
    assert answer[-1] == end
    for stub in STUBS.values():
        text, live_trees, live_lengths = decode(target, stub(free, seed=3), nodes, GREEDY, stopping)
        found, trees, lengths = replayed(target, stub(free, seed=3), nodes, answer)
        assert (text, trees, lengths) == (answer, live_trees, live_lengths)
        assert sum(lengths) + len(lengths) + 1 == len(answer) == found.num_tokens
    # the right drafter knows the text beyond the end, of which the answer says nothing
    found, _, _ = replayed(target, STUBS["right"](free), nodes, answer)
    assert None in found.passes[-1].outcomes


@pytest.mark.parametrize("stub", STUBS)
def test_a_replay_of_one_path_only_makes_the_passes_of_a_target_that_checks_no_trees(stub):
    target, stopping = target_of("qwen3_5"), Stopping(max_new_tokens=LIMIT)
    answer = list(plain(target, stopping=stopping).tokens)
    _, live_trees, live_lengths = decode(target, STUBS[stub](answer, seed=3), 8, GREEDY, stopping)
    found, trees, lengths = replayed(target, STUBS[stub](answer, seed=3), 8, answer, chain_only=True)
    assert (trees, lengths) == (live_trees, live_lengths)
    assert all(each.tree.is_chain for each in found.passes)


def head_for(target, answer, temperature):
    """An untrained head whose phrases come from the answer, so that some drafts land and others do not."""
    phrases = {tuple(answer[i : i + n]) for i in range(len(answer)) for n in (1, 2, 4)}
    vocabulary = PhraseVocabulary.from_phrases(sorted(phrases))
    hidden = target.identity.hidden_size
    torch.manual_seed(0)
    scorer = PhraseScorer(feature_size=hidden, hidden_size=hidden, num_phrases=len(vocabulary), trunk_width=32)
    config = HeadConfig(
        target_name="tiny",
        target_hidden_size=hidden,
        target_vocab_size=target.identity.vocab_size,
        trunk_width=32,
        temperature=temperature,
    )
    return PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config)


@pytest.mark.parametrize("choice", [GREEDY, Choice(temperature=0.9, seed=5)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("nodes", [3, 24])
def test_a_phrase_head_drafts_in_a_replay_what_it_drafts_live(nodes, choice):
    target, stopping = target_of("llama"), Stopping(max_new_tokens=LIMIT)
    answer = list(plain(target, choice, stopping).tokens)
    head = head_for(target, answer, 1.4)
    text, live_trees, live_lengths = decode(target, head, nodes, choice, stopping)
    calibrated, _ = for_replay(head)
    for drafter in (head, calibrated):
        _, trees, lengths = replayed(target, drafter, nodes, answer)
        assert [(tree.tokens, tree.parents) for tree in trees] == [(tree.tokens, tree.parents) for tree in live_trees]
        for tree, live in zip(trees, live_trees, strict=True):
            assert tree.values == pytest.approx(live.values, abs=1e-4)  # hidden states of a whole text at once
        assert lengths == live_lengths
    assert text == answer
    assert sum(live_lengths) > 0
