import itertools
import warnings
from dataclasses import replace

import pytest
import torch

from chains import STEPS, draft, make_chain, state_of
from kit import plain, target_of
from live_replay import check_replay_is_live
from phrasedraft import Stopping
from phrasedraft.drafters import Head, TokenChain, load_drafter
from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.protocol import DraftBudget, Drafter
from phrasedraft.errors import HeadMismatchError, OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.protocol import TargetIdentity
from synthetic import HIDDEN, VOCAB, SyntheticTarget, make_head


def paths_of(tree):
    """The value of each node by the tokens on the way to it."""
    paths = [()]
    for node in range(1, len(tree.tokens)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return dict(zip(paths[1:], tree.values[1:], strict=True))


@torch.no_grad()
def every_path(chain, *, token=4):
    """The probability of every path of entries, one scored alone after the other."""
    hidden, scorer = state_of(chain).hidden, chain.scorer
    values = {}
    for length in range(1, chain.config.num_steps + 1):
        for path in itertools.product(range(len(chain.vocabulary)), repeat=length):
            state, value = scorer.trunk(hidden, SyntheticTarget().embed(torch.tensor([token]))), 1.0
            for entry in path:
                value *= (scorer.output(state)[0, entry] / chain.config.temperature).exp().item() / (
                    1 + (scorer.output(state)[0] / chain.config.temperature).exp().sum().item()
                )
                state = scorer.advance(state, torch.tensor([entry]))
            values[tuple(chain.vocabulary.expand(entry)[0] for entry in path)] = value
    return values


def test_the_parameters_are_those_of_the_phrase_head_and_one_cell():
    with torch.device("meta"):
        scorer = ChainScorer(feature_size=2560, hidden_size=2560, num_phrases=8000)
    cell = 3 * 256 * (256 + 256) + 2 * 3 * 256 + 2 * 2 * 256
    assert sum(parameter.numel() for parameter in scorer.parameters()) == 3_433_792 + cell


def test_it_is_a_drafter_and_a_head():
    assert isinstance(make_chain(), Drafter)
    assert isinstance(make_chain(), Head)
    assert isinstance(make_head([(5,)]), Head)
    assert not isinstance(load_drafter("prompt-lookup"), Head)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.6])
@pytest.mark.parametrize("nodes", [1, 2, 5, 11, 16])
def test_the_tree_is_the_best_of_all_paths_and_each_value_is_the_product_along_its_path(nodes, temperature):
    chain = make_chain(temperature=temperature)
    found, values = paths_of(draft(chain, nodes)), every_path(chain)
    best = sorted(values, key=lambda path: -values[path])[:nodes]
    assert set(found) == set(best)
    for path, value in found.items():
        assert value == pytest.approx(values[path], rel=1e-4)


def test_nodes_are_in_order_of_value_and_smaller_trees_are_the_beginning_of_larger_ones():
    chain = make_chain()
    tree = draft(chain, 16)
    assert list(tree.values) == sorted(tree.values, reverse=True)
    for nodes in range(1, 16):
        smaller = draft(chain, nodes)
        assert smaller.tokens == tree.tokens[: nodes + 1]
        assert smaller.parents == tree.parents[: nodes + 1]


def test_a_tree_wider_than_the_beam_is_a_tree_of_its_size_and_nearly_the_best():
    chain = make_chain(tuple(range(3, 23)), num_steps=2, spread=4.0)
    found, values = paths_of(draft(chain, 60)), every_path(chain)
    assert len(found) == 60
    assert sum(found.values()) > 0.95 * sum(sorted(values.values(), reverse=True)[:60])


@pytest.mark.parametrize(("nodes", "depth"), [(1, 8), (3, 8), (64, 1), (64, 2), (5, 2), (200, 8)])
def test_a_budget_is_kept(nodes, depth):
    tree = draft(make_chain(), nodes, depth=depth)
    assert 1 <= tree.num_draft_tokens <= nodes
    assert max(tree.depths) <= min(depth, STEPS)


def test_a_chain_follows_the_most_probable_token_at_each_step():
    chain = make_chain()
    tree = draft(chain, 8, chain_only=True)
    values = every_path(chain)
    path = ()
    for _ in range(STEPS):
        path = max((p for p in values if p[:-1] == path and len(p) == len(path) + 1), key=values.__getitem__)
    assert tree.is_chain
    assert tree.tokens == (4, *path)
    assert draft(chain, 2, chain_only=True).tokens == (4, *path[:2])


@pytest.mark.parametrize(("nodes", "depth"), [(0, 4), (4, 0)])
def test_no_budget_drafts_nothing(nodes, depth):
    assert draft(make_chain(), nodes, depth=depth).num_draft_tokens == 0


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_no_entries_draft_nothing():
    assert draft(make_chain(()), 8).tokens == (4,)


def test_phrases_of_several_tokens_are_refused():
    chain = make_chain()
    with pytest.raises(OptionError, match="phrases of up to 2 tokens, a token chain's entries are single tokens"):
        TokenChain(scorer=chain.scorer, vocabulary=PhraseVocabulary.from_phrases([(5, 6), (7,)]), config=chain.config)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_hidden_states_that_are_not_finite_draft_nothing(broken):
    chain = make_chain()
    hidden = torch.zeros((1, HIDDEN))
    hidden[0, 3] = broken
    with pytest.warns(UserWarning, match="the target's hidden states in float32 are NaN or infinite"):
        assert draft(chain, 8, hidden=hidden).tokens == (4,)
    assert draft(chain, 8, hidden=hidden).tokens == (4,)  # said once


@pytest.mark.parametrize("weight", ["output.bias", "cell.weight_hh"])
def test_weights_that_are_not_finite_draft_nothing_whichever_step_they_spoil(weight):
    chain = make_chain()
    with torch.no_grad():
        chain.scorer.get_parameter(weight).fill_(float("inf"))
    with pytest.warns(UserWarning, match="its scores in float32 are NaN or infinite"):
        assert draft(chain, 8).tokens == (4,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_hidden_states_of_any_precision_are_cast(dtype):
    chain, hidden = make_chain(), torch.full((1, HIDDEN), 0.5)
    wanted = draft(chain, 8, hidden=hidden)
    state = chain.begin([1], 4, hidden.to(dtype), lambda tokens: SyntheticTarget().embed(tokens).to(dtype))
    assert chain.propose(state, DraftBudget(num_draft_tokens=8, max_depth=8)).num_draft_tokens == 8
    assert wanted.num_draft_tokens == 8


def test_the_state_follows_the_last_committed_token_and_its_row():
    chain = make_chain()
    state, budget = state_of(chain), DraftBudget(num_draft_tokens=8, max_depth=8)
    before = chain.propose(state, budget)
    chain.update(state, [6, 7], torch.randn((2, HIDDEN)))
    after = chain.propose(state, budget)
    assert after.tokens[0] == 7
    assert after.values != before.values


def test_one_chain_serves_many_sequences_and_drafts_the_same_again():
    chain, budget = make_chain(), DraftBudget(num_draft_tokens=8, max_depth=8)
    first, second = state_of(chain), state_of(chain, hidden=torch.ones((1, HIDDEN)), token=9)
    alone = chain.propose(first, budget)
    chain.propose(second, budget)
    chain.update(second, [3], torch.zeros((1, HIDDEN)))
    assert chain.propose(first, budget) == alone


def test_another_target_is_refused_and_its_own_is_taken_without_a_word():
    own = TargetIdentity(
        name="other", hidden_size=HIDDEN, vocab_size=VOCAB, tokenizer_fingerprint=lambda size: f"entries-{size}"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_chain().check(own)
    with pytest.raises(HeadMismatchError, match="head `token-chain` was trained for hidden size 16"):
        make_chain().check(replace(own, hidden_size=32))


@pytest.mark.parametrize("num_draft_tokens", [1, 6, 40])
def test_replay_counts_what_the_decoding_loop_counts_and_the_text_stays(num_draft_tokens):
    target, limit, layers = target_of("llama"), 48, (1, -1)
    stopping = Stopping(max_new_tokens=limit)
    prompts = ([5, 9, 17], [3, 3, 8, 21, 4], [40])
    answers = [plain(target, stopping=stopping, prompt=prompt).tokens for prompt in prompts]
    tokens = sorted({token for answer in answers for token in answer})
    torch.manual_seed(0)
    hidden = target.identity.hidden_size
    config = HeadConfig(
        target_name="tiny",
        target_hidden_size=hidden,
        target_vocab_size=target.identity.vocab_size,
        target_layers=layers,
        trunk_width=32,
        kind="token_chain",
        num_steps=4,
    )
    scorer = ChainScorer(feature_size=2 * hidden, hidden_size=hidden, num_phrases=len(tokens), trunk_width=32)
    chain = TokenChain(
        scorer=scorer, vocabulary=PhraseVocabulary.from_phrases([(token,) for token in tokens]), config=config
    )
    landed = check_replay_is_live(target, chain, prompts, answers, num_draft_tokens=num_draft_tokens, limit=limit)
    assert landed > 0 or num_draft_tokens == 1
