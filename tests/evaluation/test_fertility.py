import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import zoo
from kit import RightDrafter, WrongDrafter
from phrasedraft import TransformersTarget
from phrasedraft.errors import DataError
from phrasedraft.evaluation.fertility import LANGUAGES, bundled_texts, fertility, replay_text
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.target import FeatureSpec
from texts import prefix_space_tokenizer, text_target

TEXT = "the end of the story, the answer is 42."


def cat_tokenizer() -> PreTrainedTokenizerFast:
    """Every byte is a token, and `cat` and ` cat` are."""
    entries = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "ca", "cat", "Ġcat"]
    merges = [("c", "a"), ("ca", "t"), ("Ġ", "cat")]
    tokenizer = Tokenizer(models.BPE(vocab={entry: index for index, entry in enumerate(entries)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def counted(tokenizer: PreTrainedTokenizerFast, text: str):
    return fertility(tokenizer, TokenPieces.from_tokenizer(tokenizer, len(tokenizer)), text)


def test_words_tokens_and_one_token_words_are_those_counted_by_hand():
    found = counted(cat_tokenizer(), "cat cat sat 42 .")  # cat| cat| |s|a|t| |4|2| |.
    assert (found.num_characters, found.num_words, found.num_tokens) == (16, 4, 11)
    assert (found.num_spaced_words, found.num_one_token_words) == (4, 2)
    assert (found.tokens_per_word, found.tokens_per_character, found.one_token_share) == (11 / 4, 11 / 16, 0.5)
    assert found.spells_text


def test_a_word_inside_a_longer_one_or_beside_a_sign_is_no_token_of_its_own_unless_the_token_says_so():
    found = counted(cat_tokenizer(), "cats, cat-cat")  # cat|s|,| cat|-|cat
    assert (found.num_words, found.num_tokens, found.num_one_token_words) == (3, 6, 2)


def test_letters_with_marks_are_one_word_and_two_chinese_characters_are():
    hindi = counted(cat_tokenizer(), "सभी है")  # 6 characters of 3 bytes... and a space
    assert (hindi.num_words, hindi.num_tokens, hindi.one_token_share) == (2, len("सभी है".encode()), 0.0)
    chinese = counted(cat_tokenizer(), "人人生而自由。")
    assert (chinese.num_words, chinese.num_tokens) == (3, 21)
    assert chinese.spells_text
    assert chinese.one_token_share is None


def test_a_space_that_the_tokenizer_puts_before_a_text_changes_nothing():
    tokenizer = prefix_space_tokenizer()
    found = counted(tokenizer, "the the qq")
    assert found.spells_text
    spelled = tokenizer.convert_ids_to_tokens(tokenizer.encode("the the qq", add_special_tokens=False))
    assert spelled[:2] == ["▁the", "▁the"]
    assert found.num_one_token_words == 2
    assert found.num_tokens == len(spelled) > 3


def test_of_a_text_that_the_tokens_do_not_spell_only_the_counts_are_given():
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "the": 1, "end": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    found = counted(PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"), "the lost end")
    assert (found.num_words, found.num_tokens, found.spells_text, found.one_token_share) == (3, 3, False, None)
    assert found.as_dict()["tokens_per_word"] == 1.0


@pytest.mark.parametrize("text", ["", " \n", "!?"])
def test_a_text_without_words_is_refused(text):
    with pytest.raises(DataError, match="has no words to count") as caught:
        counted(cat_tokenizer(), text)
    assert caught.value.hint


def test_every_bundled_text_has_about_a_hundred_words_or_more_and_the_declarations_say_the_same():
    texts = bundled_texts()
    assert tuple(texts) == LANGUAGES
    for name, text in texts.items():
        assert 100 < counted(cat_tokenizer(), text).num_words < 300
        assert text.isascii() == (name in ("english", "code"))
        if name != "code":
            assert len(text.splitlines()) == 7  # articles
    compile(texts["code"], "code", "exec")


class Watching(WrongDrafter):
    """Keeps what it is given."""

    def begin(self, prompt, committed, hidden, embed):
        self.prompt, self.committed, self.rows = list(prompt), [committed], [hidden]
        return super().begin(prompt, committed, hidden, embed)

    def update(self, state, committed, hidden):
        self.committed += committed
        self.rows.append(hidden)
        super().update(state, committed, hidden)


def test_a_forced_text_gives_a_drafter_that_knows_it_everything_and_one_that_does_not_nothing():
    target = text_target()
    answer = target.encode(TEXT)[1:]
    right = replay_text(RightDrafter(answer), target, TEXT, num_draft_tokens=4)
    assert right.num_tokens == len(answer)
    assert right.num_passes == -(-(len(answer) - 1) // 5)  # four drafted tokens and the bonus token
    assert right.tokens_per_pass == pytest.approx((len(answer) - 1) / right.num_passes)
    wrong = replay_text(WrongDrafter(answer), target, TEXT, num_draft_tokens=4)
    assert (wrong.num_passes, wrong.tokens_per_pass, wrong.landing) == (len(answer) - 1, 1.0, 0.0)


@pytest.mark.parametrize("begins", [[], ["<s>"]])
def test_each_token_goes_with_the_state_that_the_target_would_have_chosen_it_from(begins):
    target = text_target()
    if begins:
        tokenizer = prefix_space_tokenizer()
        target = TransformersTarget(zoo.tiny_model("llama", vocab_size=len(tokenizer)), tokenizer, packed=False)
    whole = target.encode(TEXT)
    drafter = Watching(whole[1 + len(begins) :])
    replay_text(drafter, target, TEXT, num_draft_tokens=2)
    assert target.tokenizer.convert_ids_to_tokens(drafter.prompt[:-1]) == begins
    assert [*drafter.prompt, *drafter.committed] == whole[:-1]  # nothing is drafted after the last token
    rows = target.hidden_rows(torch.tensor([whole]), torch.ones(1, len(whole), dtype=torch.long), FeatureSpec())[0]
    seen = torch.cat(drafter.rows)
    assert torch.equal(seen, rows[len(drafter.prompt) - 1 :][: len(seen)])


def test_what_does_not_fit_into_the_context_is_left_out_and_a_single_token_is_nothing():
    target = text_target()
    text = "the end " * 1000
    found = replay_text(WrongDrafter(target.encode(text)[1:]), target, text, num_draft_tokens=1)
    assert found.num_tokens == target.context_limit - 1 < len(target.encode(text))
    assert replay_text(WrongDrafter(()), target, "a", num_draft_tokens=1) is None
