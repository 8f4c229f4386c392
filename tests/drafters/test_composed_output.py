"""Output rows that are composed of the target's embeddings."""

import copy
from dataclasses import replace

import pytest
import torch

import chains
from phrasedraft.drafters import PhraseChain, TokenChain, load_head
from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.composed_output import ComposedOutput, RowSettings, make_output
from phrasedraft.errors import HeadFileError, OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from synthetic import HIDDEN, SyntheticTarget, head_config

PHRASES = ((5,), (9,), (30,), (5, 9), (5, 30), (9, 5), (5, 9, 30), (9, 5, 5))
SETTINGS = RowSettings(rows="composed", num_own_rows=2)
WIDTH = 32


def make_rows(phrases=PHRASES, num_own_rows=2, *, seed=0, attach=True):
    torch.manual_seed(seed)
    output = ComposedOutput(
        PhraseVocabulary.from_phrases(phrases), hidden_size=HIDDEN, trunk_width=WIDTH, num_own_rows=num_own_rows
    )
    for part in (output.follow_map, output.own, output.bias):
        torch.nn.init.normal_(part)
    if attach:
        output.attach(SyntheticTarget().embed)
    return output


def make_head(kind=PhraseChain, phrases=PHRASES, settings=SETTINGS):
    output = make_rows(phrases, settings.num_own_rows, attach=False)
    scorer = ChainScorer(
        feature_size=HIDDEN, hidden_size=HIDDEN, num_phrases=len(phrases), trunk_width=WIDTH, output=output
    )
    scorer.shrink_rows(6.0)
    config = replace(head_config(), kind=kind.kind, num_steps=2, output=settings)
    return kind(scorer=scorer, vocabulary=PhraseVocabulary.from_phrases(phrases), config=config)


@torch.no_grad()
def test_a_row_is_made_of_the_last_token_the_one_before_and_its_own():
    output = make_rows()
    vectors = SyntheticTarget().embed(torch.tensor([5, 9, 30])).float()
    vectors = vectors - vectors.mean(dim=0)
    vectors = dict(zip((5, 9, 30), vectors / vectors.square().sum(dim=1).mean().sqrt(), strict=True))
    for entry, phrase in enumerate(PHRASES):
        row = vectors[phrase[-1]] @ output.maps[len(phrase) - 1]
        if len(phrase) > 1:
            row = row + vectors[phrase[-2]] @ output.follow_map
        if phrase in ((5,), (9,)):
            row = row + output.own[entry]
        assert torch.allclose(output.weight[entry], row, atol=1e-5)
    states = torch.randn(3, WIDTH)
    assert torch.allclose(output(states), states @ output.weight.T + output.bias, atol=1e-5)


def test_own_rows_go_to_the_first_single_tokens_wherever_phrases_stand():
    output = make_rows(((5, 9), (30,), (5,), (9,)), num_own_rows=2)
    assert output.owners.tolist() == [1, 2]
    assert make_rows(num_own_rows=50).own.shape == (3, WIDTH)  # there are no more


def test_an_entry_costs_a_bias():
    few, many = (make_rows([(token,) for token in range(number)], 0) for number in (8, 60))
    count = [sum(part.numel() for part in output.parameters()) for output in (few, many)]
    assert count == [HIDDEN * WIDTH + 8, HIDDEN * WIDTH + 60]


def test_rows_follow_the_weights_and_are_one_graph_a_step():
    output = make_rows()
    before = output.weight
    assert output.weight is before
    before.sum().backward()
    with torch.no_grad():
        assert not output.weight.requires_grad
        output.maps.mul_(2)
    after = output.weight
    assert after.requires_grad
    assert not torch.equal(after, before)
    other = copy.deepcopy(output)
    other.load_state_dict(make_rows(seed=1).state_dict())
    assert torch.equal(other.weight, make_rows(seed=1).weight)
    assert torch.equal(output.weight, after)


@pytest.mark.parametrize(("kind", "phrases"), [(PhraseChain, PHRASES), (TokenChain, PHRASES[:3])])
def test_a_head_is_saved_without_its_rows_and_loaded_with_the_same_drafts(tmp_path, kind, phrases):
    head = make_head(kind, phrases)
    head.save_pretrained(tmp_path, dtype=torch.float32)
    loaded = load_head(tmp_path)
    assert loaded.config.output == SETTINGS
    assert loaded.num_parameters == head.num_parameters
    tree = chains.draft(loaded, 12)
    assert tree == chains.draft(head, 12)
    assert tree.num_draft_tokens == 12 or kind is TokenChain


def test_a_head_in_inference_mode_drafts_the_same():
    wanted = chains.draft(make_head(), 8)
    with torch.inference_mode():
        head = make_head()
        assert chains.draft(head, 8) == wanted
        assert chains.draft(head, 8) == wanted
    assert chains.draft(head, 8) == wanted


def test_a_config_that_names_other_rows_is_refused(tmp_path):
    make_head().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"rows": "composed"', '"rows": "borrowed"'))
    with pytest.raises(HeadFileError, match=r"`rows` and `num_own_rows` in .* are `'borrowed'` and `2`"):
        load_head(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": "lent"}, "`rows` is `lent`, it may be `own` or `composed`"),
        ({"rows": "composed", "num_own_rows": -1}, "`num_own_rows` is -1"),
        ({"num_own_rows": 5}, "every entry has one"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(OptionError, match=message):
        RowSettings(**changes)


def test_rows_without_embeddings_are_an_error():
    with pytest.raises(RuntimeError, match="call `attach` first"):
        _ = make_rows(attach=False).weight


def test_own_rows_for_every_entry_need_nothing_composed():
    assert make_output(RowSettings(), PhraseVocabulary.from_phrases(PHRASES), hidden_size=8, trunk_width=4) is None
