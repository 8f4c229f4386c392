import warnings
from dataclasses import replace

import pytest
import torch

from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.protocol import DraftBudget, Drafter
from phrasedraft.errors import HeadMismatchError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.protocol import TargetIdentity
from synthetic import HIDDEN, VOCAB, SyntheticTarget, head_config, make_head

PHRASES = [(5,), (5, 6), (5, 6, 7), (8,), (9, 9), (10,), (5, 11)]
WIDE = DraftBudget(num_draft_tokens=64, max_depth=8)


def state_of(head, *, hidden=None, token=4):
    rows = torch.randn((3, HIDDEN), generator=torch.Generator().manual_seed(1)) if hidden is None else hidden
    return head.begin([1, 3], token, rows, SyntheticTarget().embed)


def identity(**changes):
    return replace(
        TargetIdentity(
            name="other", hidden_size=HIDDEN, vocab_size=VOCAB, tokenizer_fingerprint=lambda size: f"entries-{size}"
        ),
        **changes,
    )


@pytest.mark.parametrize(("num_phrases", "millions"), [(8_000, 3.433792), (80_000, 21.937792)])
def test_the_parameter_counts_are_those_of_the_paper(num_phrases, millions):
    with torch.device("meta"):
        scorer = PhraseScorer(feature_size=2560, hidden_size=2560, num_phrases=num_phrases)
    count = sum(parameter.numel() for parameter in scorer.parameters())
    assert count == millions * 1e6
    assert abs(count / 1e6 - {8_000: 3.434, 80_000: 21.94}[num_phrases]) < (0.0005 if num_phrases == 8_000 else 0.005)


def test_it_is_a_drafter():
    assert isinstance(make_head(PHRASES), Drafter)


def test_the_tree_holds_each_phrase_with_the_probability_of_all_that_go_through_it():
    head = make_head(PHRASES)
    state = state_of(head)
    tree = head.propose(state, WIDE)
    probabilities = head.probabilities(state.hidden, SyntheticTarget().embed(torch.tensor([4])))[0].tolist()
    assert tree.tokens[0] == 4
    assert tree.num_draft_tokens == 8  # 5, 5 6, 5 6 7, 5 11, 8, 9, 9 9, 10
    five = tree.children[0][5]
    through_five = sum(p for phrase, p in zip(PHRASES, probabilities, strict=True) if phrase[0] == 5)
    assert tree.values[five] == pytest.approx(through_five, abs=1e-5)
    assert tree.values[tree.children[five][11]] == pytest.approx(probabilities[6], abs=1e-5)


@pytest.mark.parametrize(("nodes", "depth"), [(1, 8), (3, 8), (64, 1), (64, 2), (5, 2)])
def test_a_budget_is_kept(nodes, depth):
    head = make_head(PHRASES)
    tree = head.propose(state_of(head), DraftBudget(num_draft_tokens=nodes, max_depth=depth))
    assert 1 <= tree.num_draft_tokens <= nodes
    assert max(tree.depths) <= depth


def test_a_chain_is_the_best_path_and_may_be_longer_than_what_a_tree_of_its_size_would_leave():
    head = make_head(PHRASES)
    with torch.no_grad():
        head.scorer.output.bias.copy_(torch.tensor([3.0, 2.0, 2.0, 2.9, 2.9, 2.9, 0.0]))
        head.scorer.output.weight.zero_()
    chain = head.propose(state_of(head), DraftBudget(num_draft_tokens=3, max_depth=8, chain_only=True))
    assert chain.is_chain
    assert chain.tokens == (4, 5, 6, 7)
    tree = head.propose(state_of(head), DraftBudget(num_draft_tokens=3, max_depth=8))
    assert tree.best_chain().num_draft_tokens < 3


@pytest.mark.parametrize(
    "budget", [DraftBudget(num_draft_tokens=0, max_depth=4), DraftBudget(num_draft_tokens=4, max_depth=0)]
)
def test_no_budget_drafts_nothing(budget):
    head = make_head(PHRASES)
    assert head.propose(state_of(head), budget).num_draft_tokens == 0


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_no_phrases_draft_nothing():
    head = make_head([])
    assert head.propose(state_of(head), WIDE).tokens == (4,)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_hidden_states_that_are_not_finite_draft_nothing(broken):
    head = make_head(PHRASES)
    hidden = torch.zeros((1, HIDDEN))
    hidden[0, 3] = broken
    with pytest.warns(UserWarning, match="the target's hidden states in float32 are NaN or infinite"):
        assert head.propose(state_of(head, hidden=hidden), WIDE).tokens == (4,)
    assert head.propose(state_of(head, hidden=hidden), WIDE).tokens == (4,)  # said once


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_hidden_states_of_any_precision_are_cast(dtype):
    head = make_head(PHRASES)
    hidden = torch.full((1, HIDDEN), 0.5)
    wanted = head.propose(state_of(head, hidden=hidden), WIDE)
    state = head.begin([1], 4, hidden.to(dtype), lambda tokens: SyntheticTarget().embed(tokens).to(dtype))
    assert set(head.propose(state, WIDE).tokens) == set(wanted.tokens)


def test_the_state_follows_the_last_committed_token_and_its_row():
    head = make_head(PHRASES)
    state = state_of(head)
    before = head.propose(state, WIDE)
    rows = torch.randn((2, HIDDEN))
    head.update(state, [6, 7], rows)
    assert state.token == 7
    assert torch.equal(state.hidden, rows[1:])
    after = head.propose(state, WIDE)
    assert after.tokens[0] == 7
    assert after.values != before.values


def test_one_head_serves_many_sequences():
    head = make_head(PHRASES)
    first, second = state_of(head), state_of(head, hidden=torch.ones((1, HIDDEN)), token=9)
    alone = head.propose(first, WIDE)
    head.update(second, [3], torch.zeros((1, HIDDEN)))
    assert head.propose(first, WIDE) == alone


def test_the_targets_weights_are_never_touched():
    class Quantised:
        """Gives embeddings when called, and nothing else."""

        def __call__(self, tokens):
            return SyntheticTarget().embed(tokens)

        def __getattr__(self, name):
            raise AssertionError(f"the head reached for `{name}`")

    head = make_head(PHRASES)
    assert head.propose(head.begin([1], 4, torch.zeros((1, HIDDEN)), Quantised()), WIDE).num_draft_tokens > 0


def test_a_temperature_flattens_what_is_proposed():
    sharp, flat = make_head(PHRASES, temperature=0.2), make_head(PHRASES, temperature=5.0)
    spread = lambda head: max(head.propose(state_of(head), WIDE).values[1:])  # noqa: E731
    assert spread(sharp) > spread(flat)


def test_its_own_target_is_taken_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_head(PHRASES).check(identity())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 32}, r"hidden size 16, target `other` has 32"),
        ({"vocab_size": VOCAB - 1}, r"vocabulary of 64 tokens, target `other` has 63"),
        ({"tokenizer_fingerprint": lambda size: "else"}, r"tokenizer `entries-64`, target `other` has `else`"),
        ({"vocab_size": VOCAB + 1025, "tokenizer_fingerprint": lambda size: None}, r"64 tokens, .* has 1089"),
    ],
)
def test_another_target_is_refused_with_both_values_and_a_hint(changes, message):
    with pytest.raises(HeadMismatchError, match=message) as raised:
        make_head(PHRASES).check(identity(**changes))
    assert "phrasedraft fit" in str(raised.value.hint)


@pytest.mark.parametrize(
    "changes",
    [
        {"vocab_size": VOCAB + 1024, "tokenizer_fingerprint": lambda size: None},
        {"vocab_size": VOCAB + 3},
        {"vocab_size": VOCAB + 5000},
    ],
)
def test_tokens_added_since_training_are_warned_of(changes):
    with pytest.warns(UserWarning, match="tokens more than the head was trained for"):
        make_head(PHRASES).check(identity(**changes))


def test_a_target_without_a_tokenizer_is_taken_at_its_sizes():
    make_head(PHRASES).check(identity(tokenizer_fingerprint=lambda size: None))


def test_placing_a_head_moves_where_it_computes():
    head = make_head(PHRASES)
    head.place(torch.device("meta"))
    assert head.scorer.output.weight.device.type == "meta"


def test_probabilities_are_those_of_the_longest_phrase():
    head = PhraseHead(
        scorer=PhraseScorer(feature_size=HIDDEN, hidden_size=HIDDEN, num_phrases=3, trunk_width=8),
        vocabulary=PhraseVocabulary.from_phrases([(5,), (5, 6), (8,)]),
        config=head_config(),
    )
    with torch.no_grad():
        head.scorer.output.weight.zero_()
        head.scorer.output.bias.copy_(torch.tensor([1.0, 0.5, -1.0]))
    five, six, eight = torch.tensor([1.0, 0.5, -1.0]).exp().tolist()
    first, then = five / (1 + five + eight), six / (1 + six)
    found = head.probabilities(torch.zeros((2, HIDDEN)), torch.zeros((2, HIDDEN)))
    torch.testing.assert_close(found[1], torch.tensor([first * (1 - then), first * then, eight / (1 + five + eight)]))
