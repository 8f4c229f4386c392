"""The phrase chain: one step is a phrase head, many steps are a token chain, and in between both."""

import itertools
import warnings
from dataclasses import replace

import pytest
import torch

import chains
from chains import make_chain, state_of
from kit import plain, target_of
from live_replay import check_replay_is_live
from phrasedraft import Stopping
from phrasedraft.drafters import Head, PhraseChain, PhraseHead, load_head
from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.protocol import DraftBudget, Drafter
from phrasedraft.errors import HeadFileError, OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from synthetic import SyntheticTarget

PHRASES = ((5,), (9,), (30,), (5, 9), (5, 30), (9, 5), (5, 9, 30), (9, 5, 5))
SINGLES = (5, 9, 30)


def make_phrase_chain(phrases=PHRASES, **changes):
    return chains.make_phrase_chain(phrases, **changes)


def draft(chain, nodes, *, depth=12, **changes):
    return chains.draft(chain, nodes, depth=depth, **changes)


def values_of(tree):
    """The value of each node by the tokens on the way to it."""
    paths = [()]
    for node in range(1, len(tree.tokens)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return dict(zip(paths[1:], tree.values[1:], strict=True))


@torch.no_grad()
def stood_everywhere(chain, length):
    """The probability of every path of single tokens, each token chosen with the state of all before it known."""
    entry = {chain.vocabulary.expand(index): index for index in range(len(chain.vocabulary))}
    values = {}
    for path in itertools.chain.from_iterable(itertools.product(SINGLES, repeat=n) for n in range(1, length + 1)):
        embedding = SyntheticTarget().embed(torch.tensor([4]))
        state, value = chain.scorer.trunk(state_of(chain).hidden, embedding), 1.0
        for token in path:
            scores = (chain.scorer.output(state)[0] / chain.config.temperature).exp()
            firsts = {each: scores[entry[(each,)]].item() for each in SINGLES}
            value *= firsts[token] / (1 + sum(firsts.values()))
            state = chain.scorer.advance(state, torch.tensor([entry[(token,)]]))
        values[path] = value
    return values


def test_it_is_a_drafter_and_a_head():
    assert isinstance(make_phrase_chain(), Drafter)
    assert isinstance(make_phrase_chain(), Head)


@pytest.mark.parametrize("nodes", [1, 3, 8])
def test_with_one_step_it_drafts_what_a_phrase_head_of_its_weights_drafts(nodes):
    chain = make_phrase_chain(num_steps=1)
    head = PhraseHead(
        scorer=chain.scorer, vocabulary=chain.vocabulary, config=replace(chain.config, kind="phrase", num_steps=1)
    )
    mine, theirs = values_of(draft(chain, nodes)), values_of(draft(head, nodes))
    assert mine.keys() == theirs.keys()
    for path, value in mine.items():
        assert value == pytest.approx(theirs[path], rel=1e-4)


@pytest.mark.parametrize("nodes", [1, 2, 5, 11, 16])
def test_with_single_tokens_for_entries_and_steps_enough_it_drafts_what_a_token_chain_drafts(nodes):
    tokens = (5, 9, 30, 31, 60)
    theirs = make_chain(tokens)
    mine = make_phrase_chain([(token,) for token in tokens], num_steps=theirs.config.num_steps)
    mine.scorer.load_state_dict(theirs.scorer.state_dict())
    budget = DraftBudget(num_draft_tokens=nodes, max_depth=theirs.config.num_steps)
    found, wanted = (values_of(each.propose(state_of(each), budget)) for each in (mine, theirs))
    assert found.keys() == wanted.keys()
    for path, value in found.items():
        assert value == pytest.approx(wanted[path], rel=1e-4)


@pytest.mark.parametrize("temperature", [0.7, 1.4])
@pytest.mark.parametrize("nodes", [4, 9, 14])
def test_a_node_that_was_stood_at_goes_on_with_what_is_seen_there_and_nothing_looked_ahead(nodes, temperature):
    chain = make_phrase_chain(num_steps=9, temperature=temperature)
    found, values = values_of(draft(chain, nodes, depth=4)), stood_everywhere(chain, 4)
    assert len(found) == nodes
    for path, value in found.items():
        assert value == pytest.approx(values[path], rel=1e-3)


def test_a_second_step_changes_what_was_looked_ahead():
    first, second = (values_of(draft(make_phrase_chain(num_steps=steps), 8)) for steps in (1, 2))
    singles = [path for path in first if len(path) == 1]
    assert all(first[path] == pytest.approx(second[path]) for path in singles if path in second)
    assert any(path in second and first[path] != pytest.approx(second[path]) for path in first if len(path) > 1) or (
        first.keys() != second.keys()
    )
    assert max(map(len, second)) > 0


def test_steps_reach_deeper_than_the_longest_phrase():
    chain = make_phrase_chain(spread=6.0, num_steps=4)
    assert max(draft(chain, 40).depths) > chain.vocabulary.max_tokens


@pytest.mark.parametrize(("nodes", "depth"), [(1, 12), (3, 12), (64, 1), (64, 2), (5, 2), (200, 12)])
def test_a_budget_is_kept_and_values_fall_along_the_tree(nodes, depth):
    tree = draft(make_phrase_chain(), nodes, depth=depth)
    assert 1 <= tree.num_draft_tokens <= nodes
    assert max(tree.depths) <= depth
    assert list(tree.values) == sorted(tree.values, reverse=True)
    assert all(tree.values[node] <= tree.values[tree.parents[node]] for node in range(1, len(tree.tokens)))


def test_a_chain_is_one_path_of_the_tree():
    chain = make_phrase_chain()
    tree, path = draft(chain, 16), draft(chain, 16, chain_only=True)
    assert path.is_chain
    assert path.num_draft_tokens > 1
    assert values_of(path).items() <= values_of(tree).items()


@pytest.mark.parametrize(("nodes", "depth"), [(0, 4), (4, 0)])
def test_no_budget_drafts_nothing(nodes, depth):
    assert draft(make_phrase_chain(), nodes, depth=depth).num_draft_tokens == 0


def test_a_phrase_that_holds_a_token_that_is_no_entry_ends_where_the_cell_cannot_follow():
    chain = make_phrase_chain(((5,), (5, 40), (5, 40, 41)), num_steps=4)
    found = values_of(draft(chain, 60))
    assert (5, 40, 41) in found
    assert (5, 5) in found
    assert not any(path[:3] == (5, 40, 41) and len(path) > 3 for path in found)


def test_entries_whose_beginnings_are_missing_are_refused(tmp_path):
    chain = make_phrase_chain()
    with pytest.raises(OptionError, match="every beginning of an entry among the entries"):
        make_phrase_chain(((5,), (9, 30)))
    chain.save_pretrained(tmp_path / "head")
    chain.vocabulary = PhraseVocabulary.from_phrases([*PHRASES[:-1], (30, 30, 30)])
    chain.save_pretrained(tmp_path / "open")
    assert load_head(tmp_path / "head").vocabulary == make_phrase_chain().vocabulary
    with pytest.raises(HeadFileError, match="lacks beginnings of its phrases"):
        load_head(tmp_path / "open")


def test_it_is_saved_and_loaded_with_the_same_drafts(tmp_path):
    chain = make_phrase_chain(num_steps=2, temperature=1.3)
    chain.save_pretrained(tmp_path, dtype=torch.float32)
    loaded = load_head(tmp_path)
    assert isinstance(loaded, PhraseChain)
    assert (loaded.config.kind, loaded.config.num_steps) == ("phrase_chain", 2)
    assert draft(loaded, 12) == draft(chain, 12)


@pytest.mark.parametrize("weight", ["output.bias", "cell.weight_hh"])
def test_weights_that_are_not_finite_draft_nothing_whichever_step_they_spoil(weight):
    chain = make_phrase_chain()
    with torch.no_grad():
        chain.scorer.get_parameter(weight).fill_(float("nan"))
    with pytest.warns(UserWarning, match="its scores in float32 are NaN or infinite"):
        assert draft(chain, 8).tokens == (4,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draft(chain, 8).tokens == (4,)


@pytest.mark.parametrize("num_draft_tokens", [1, 6, 40])
def test_replay_counts_what_the_decoding_loop_counts_and_the_text_stays(num_draft_tokens):
    target, limit, layers = target_of("llama"), 48, (1, -1)
    stopping = Stopping(max_new_tokens=limit)
    prompts = ([5, 9, 17], [3, 3, 8, 21, 4], [40])
    answers = [plain(target, stopping=stopping, prompt=prompt).tokens for prompt in prompts]
    singles = sorted({token for answer in answers for token in answer})
    pairs = sorted({pair for answer in answers for pair in itertools.pairwise(answer)})
    torch.manual_seed(0)
    hidden = target.identity.hidden_size
    config = HeadConfig(
        target_name="tiny",
        target_hidden_size=hidden,
        target_vocab_size=target.identity.vocab_size,
        target_layers=layers,
        trunk_width=32,
        kind="phrase_chain",
        num_steps=3,
    )
    phrases = [*((token,) for token in singles), *pairs]
    scorer = ChainScorer(feature_size=2 * hidden, hidden_size=hidden, num_phrases=len(phrases), trunk_width=32)
    chain = PhraseChain(scorer=scorer, vocabulary=PhraseVocabulary.from_phrases(phrases), config=config)
    landed = check_replay_is_live(target, chain, prompts, answers, num_draft_tokens=num_draft_tokens, limit=limit)
    assert landed > 0 or num_draft_tokens == 1
