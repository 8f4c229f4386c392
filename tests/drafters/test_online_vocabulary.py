"""The online vocabulary: what one text taught is drafted in the next, tokens a head lacks, exact text, kept on disk."""

import itertools

import pytest
import torch
from safetensors.numpy import save_file

from kit import PROMPT, RandomTreeDrafter, greedy_answer, plain, target_of
from phrasedraft import Decoder, Stopping, load_target
from phrasedraft.drafters import DraftBudget, load_drafter
from phrasedraft.drafters.composed_rows import ComposedRows
from phrasedraft.drafters.loading import MIN_MATCH_BESIDE
from phrasedraft.drafters.merged import merge_drafters
from phrasedraft.drafters.online_phrases import OnlineSettings
from phrasedraft.drafters.online_vocabulary import OnlineVocabulary
from phrasedraft.drafters.source import Candidate, Source
from phrasedraft.drafters.suffix_automaton import SuffixAutomatonDrafter
from phrasedraft.errors import DataError, HeadMismatchError, OptionError
from phrasedraft.target import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from synthetic import HIDDEN, VOCAB, SyntheticTarget, make_head

WIDE = DraftBudget(num_draft_tokens=16, max_depth=16)
LONG = OnlineSettings(half_life=10**9)
SINGLES = [(token,) for token in range(3, 43)]


def begun(drafter, text, *, hidden=None):
    drafter.check(SyntheticTarget().identity)
    return drafter.begin(text[:-1], text[-1], torch.ones((1, HIDDEN)) if hidden is None else hidden, EMBED)


EMBED = SyntheticTarget().embed


def flat_head(entries, biases):
    """A head whose scores are its biases, whatever it reads."""
    head = make_head(entries)
    with torch.no_grad():
        head.scorer.output.weight.zero_()
        head.scorer.output.bias.copy_(torch.tensor(biases))
    return head


def identity(vocab_size=VOCAB, tokenizer="entries"):
    return TargetIdentity(
        name="other", hidden_size=HIDDEN, vocab_size=vocab_size, tokenizer_fingerprint=lambda _: tokenizer
    )


def test_it_is_a_source_that_reads_what_its_head_reads():
    head = make_head([(5,)])
    assert isinstance(OnlineVocabulary(), Source)
    assert OnlineVocabulary(head).features == head.features
    assert OnlineVocabulary().features == FeatureSpec(layers=())


def test_a_phrase_of_one_text_is_drafted_in_the_next():
    drafter = OnlineVocabulary(settings=LONG)
    begun(drafter, [20, 21, 22, 23])
    assert drafter.propose(begun(drafter, [7, 20]), WIDE).num_draft_tokens == 0  # seen once, so no phrase yet
    drafter.update(begun(drafter, [9, 20]), [21, 22, 23], torch.zeros((3, HIDDEN)))
    tree = drafter.propose(begun(drafter, [8, 20]), WIDE)
    assert tree.tokens == (20, 21, 22, 23)
    # 21 came both times after 20 since that is a phrase; one token matched, then two, then three.
    assert tree.values == pytest.approx((1, 2 / 3, 2 / 3 * 2 / 2.5, 2 / 3 * 2 / 2.5 * 2 / (2 + 1 / 3)))


def test_the_worked_example_of_the_docs():
    head = flat_head([(5,), (8,)], [1.0, 0.0])
    drafter = OnlineVocabulary(head, LONG)
    state = begun(drafter, [40, 5, 8, 40])
    # 40 is half of all tokens. The head's own sum is 1 + e + 1 wherever it stands, so 40 is given half of that sum.
    assert drafter.candidates(state, drafter.root(state)) == [Candidate(40, pytest.approx(0.5 / 1.5, abs=1e-5))]
    drafter.update(state, [5], torch.ones((1, HIDDEN)))
    # 40 is 2 of 5 now; 40 5 has become a phrase, but nothing goes on from 5.
    assert drafter.candidates(state, drafter.root(state)) == [Candidate(40, pytest.approx(0.4 / 1.4, abs=1e-5))]
    after = drafter.after(state, drafter.root(state), 40)
    assert drafter.candidates(state, after) == [Candidate(5, pytest.approx(2 / (2 + 1)), strength=1)]


def test_tokens_the_head_begins_an_entry_with_are_not_drafted_by_composed_rows():
    drafter = OnlineVocabulary(flat_head([(5,), (8, 9)], [1.0, 0.0]), LONG)
    state = begun(drafter, [5, 3, 8, 3, 5, 7, 8])
    assert {each.token for each in drafter.candidates(state, drafter.root(state))} == {3}


def test_hidden_states_that_are_not_finite_leave_the_counts():
    drafter = OnlineVocabulary(make_head(SINGLES), LONG)
    text = [50, 5, 50, 5, 50]
    sound = begun(drafter, text)
    assert {each.token for each in drafter.candidates(sound, drafter.root(sound))} == {50, 5}
    broken = begun(drafter, text, hidden=torch.full((1, HIDDEN), torch.nan))
    assert {each.token for each in drafter.candidates(broken, drafter.root(broken))} == {5}


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("entries", [[], [(5,)], [(5, 7)]])
def test_a_head_with_hardly_any_entries_is_no_obstacle(entries):
    drafter = OnlineVocabulary(make_head(entries), LONG)
    state = begun(drafter, [5, 6, 5, 6, 5])
    assert 6 in drafter.propose(state, WIDE).tokens
    assert 6 in drafter.phrases.single_tokens()


def test_rows_that_embeddings_explain_are_composed_as_they_are():
    head = make_head(SINGLES)
    generator = torch.Generator().manual_seed(3)
    explained = EMBED(torch.arange(3, 43)) @ torch.randn((HIDDEN, 32), generator=generator) + 2
    with torch.no_grad():
        head.scorer.output.weight.copy_(explained)
    left = [3, 11, 30, 42]
    found = ComposedRows(head, EMBED, left_out=left).compose(left)
    true = explained[[token - 3 for token in left]]
    assert ((found - true).norm() / true.norm()).item() < 0.03
    assert torch.equal(found, ComposedRows(head, EMBED, left_out=left).compose(left))


def test_with_true_rows_the_probabilities_are_the_heads_own():
    entries = [*SINGLES, (50, 51), (50, 51, 52), (5, 6)]
    head = make_head(entries, temperature=1.3)
    left = [3, 11, 30]
    composed = ComposedRows(head, EMBED, left_out=left)
    trunk = torch.randn((4, 32), generator=torch.Generator().manual_seed(1))
    ids = [entries.index((token,)) for token in left]
    found = composed.from_trunk(trunk, head.scorer.output.weight[ids], head.scorer.output.bias[ids])
    own = head.normaliser.reach(head.scorer.output(trunk) / head.config.temperature)
    torch.testing.assert_close(found, own[:, ids])


def test_a_bias_gives_a_token_its_share_at_the_heads_centre():
    head = make_head(SINGLES)
    with torch.no_grad():
        head.scorer.mix_norm.bias.normal_(generator=torch.Generator().manual_seed(5))
    composed = ComposedRows(head, EMBED)
    rows = composed.compose([50, 60])
    shares = torch.tensor([0.2, 0.05])
    found = composed.from_trunk(head.scorer.mix_norm.bias[None], rows, composed.biases(rows, shares))[0]
    torch.testing.assert_close(found, shares / (1 + shares.sum()))


def test_another_embedding_composes_new_rows():
    def drafted(*embeds):
        drafter = OnlineVocabulary(make_head(SINGLES), LONG)
        for text, embed in zip(([50, 5, 50], [4, 7]), embeds, strict=True):
            state = drafter.begin(text[:-1], text[-1], torch.ones((1, HIDDEN)), embed)
        return drafter.candidates(state, drafter.root(state))

    other = SyntheticTarget(seed=9).embed
    assert [each.token for each in drafted(EMBED, other)] == [50]
    assert drafted(EMBED, other) == drafted(other, other) != drafted(EMBED, EMBED)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_text_is_the_targets_own_and_drafts_are_accepted(family):
    target = target_of(family)
    answer = greedy_answer(family, 40)
    online = OnlineVocabulary()
    assert plain(target, stopping=Stopping(max_new_tokens=40)).tokens == answer
    accepted = []
    for _ in range(3):
        alone = Decoder(target, online, num_draft_tokens=8).generate(PROMPT, stopping=Stopping(max_new_tokens=40))
        assert alone.tokens == answer
        accepted.append(alone.stats.num_accepted_tokens)
        merged = merge_drafters([RandomTreeDrafter(answer, seed=1), online])
        generation = Decoder(target, merged, num_draft_tokens=8).generate(PROMPT, stopping=Stopping(max_new_tokens=40))
        assert generation.tokens == answer
        assert generation.stats.num_accepted_tokens > 0
    assert accepted[2] > accepted[0]
    assert accepted[2] >= 20


@pytest.mark.embedded
@pytest.mark.filterwarnings("ignore:no drafts accepted")
def test_beside_the_shipped_head_by_name():
    target = load_target("smollm2-135m")
    drafter = load_drafter("smollm2-135m+online-vocabulary+suffix-automaton")
    assert drafter.name == "phrase-head+online-vocabulary+suffix-automaton"
    assert drafter.features == drafter.drafters[0].features == drafter.drafters[1].features
    assert drafter.drafters[1].phrases.settings.min_match == MIN_MATCH_BESIDE
    prompt = target.encode_chat([{"role": "user", "content": "Name two rivers of Patagonia."}])
    stopping = Stopping(max_new_tokens=24)
    wanted = plain(target, stopping=stopping, prompt=prompt).tokens
    for _ in range(2):
        assert Decoder(target, drafter, num_draft_tokens=8).generate(prompt, stopping=stopping).tokens == wanted
    assert drafter.drafters[1].phrases.single_tokens()


def test_without_a_head_beside_it_it_only_counts():
    merged = load_drafter("online-vocabulary+suffix-automaton")
    assert isinstance(merged.drafters[1], SuffixAutomatonDrafter)
    assert merged.features == FeatureSpec(layers=())
    state = begun(merged, [50, 51, 50, 51, 50])
    assert merged.propose(state, WIDE).tokens[1] == 51
    assert merged.drafters[0].phrases.single_tokens() == {}


def taught():
    drafter = OnlineVocabulary(make_head(SINGLES))
    words = [(50, 51, 5), (6, 7, 8), (50, 60), (12, 13, 14, 15)]
    for index in range(12):
        text = list(itertools.chain.from_iterable(words[(index * place) % 4] for place in range(1, 6)))
        begun(drafter, text)
    return drafter


def test_a_saved_session_goes_on_with_the_same_candidates(tmp_path):
    drafter, again = taught(), OnlineVocabulary(make_head(SINGLES))
    drafter.save(tmp_path / "session.safetensors")
    again.load(tmp_path / "session.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["session.safetensors"]
    assert len(again.phrases) == len(drafter.phrases) > 20
    for text in ([9, 50], [3, 6, 7], [12]):
        states = [begun(each, text) for each in (drafter, again)]
        for token in (6, 50, 51, 13):
            found = [
                (each.candidates(state, each.root(state)), each.candidates(state, each.after(state, place, token)))
                for each, state in zip((drafter, again), states, strict=True)
                for place in [each.root(state)]
            ]
            assert found[0] == found[1]
            assert found[0][0]


def test_tokens_another_head_has_entries_for_are_left_out(tmp_path):
    taught().save(tmp_path / "session")
    other = OnlineVocabulary(make_head([*SINGLES, (50,)]))
    other.load(tmp_path / "session")
    assert 60 in other.phrases.single_tokens()
    assert 50 not in other.phrases.single_tokens()


def test_what_has_met_no_target_is_not_saved(tmp_path):
    with pytest.raises(OptionError, match="has met no target yet"):
        OnlineVocabulary().save(tmp_path / "session")


@pytest.mark.parametrize("damage", ["missing", "truncated", "altered", "other", "text"])
def test_a_damaged_file_is_refused_and_changes_nothing(tmp_path, damage):
    path = tmp_path / "session"
    drafter = taught()
    drafter.save(path)
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "other":
        save_file({"weights": drafter.phrases.table().weights}, path)
    else:
        flipped = data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]
        path.write_bytes({"truncated": data[:-9], "altered": flipped, "text": b"hello"}[damage])
    message = {
        "missing": "there is no online vocabulary",
        "truncated": "truncated or not a safetensors file",
        "altered": "was altered",
        "other": "has the format `None`, an online vocabulary has",
        "text": "truncated or not a safetensors file",
    }
    before = drafter.phrases.phrases()
    with pytest.raises(DataError, match=message[damage]):
        drafter.load(path)
    assert drafter.phrases.phrases() == before


def test_a_session_of_another_target_is_refused_before_and_after_the_target_is_known(tmp_path):
    path = tmp_path / "session"
    drafter = OnlineVocabulary()
    drafter.check(identity())
    drafter.save(path)
    for other, message in (
        (identity(vocab_size=99), "a vocabulary of 64 tokens, target `other` has a vocabulary of 99 tokens"),
        (identity(tokenizer="else"), "tokenizer `entries`, target `other` has tokenizer `else`"),
    ):
        late, early = OnlineVocabulary(), OnlineVocabulary()
        late.load(path)
        with pytest.raises(HeadMismatchError, match=message):
            late.check(other)
        early.check(other)
        with pytest.raises(HeadMismatchError, match=message):
            early.load(path)
    same = OnlineVocabulary()
    same.load(path)
    same.check(identity(tokenizer=None))  # what is not known is no contradiction
