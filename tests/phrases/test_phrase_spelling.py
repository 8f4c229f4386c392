import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.errors import DataError, OptionError
from phrasedraft.phrases import PhraseVocabulary, Speller
from phrasedraft.phrases.spelling import Tokenizer, token_bytes


def names(tokenizer, tokens):
    return tokenizer.convert_ids_to_tokens(list(tokens))


def test_a_tokenizer_of_transformers_is_all_that_is_asked_for(byte_level):
    assert isinstance(byte_level, Tokenizer)


def test_byte_level_names_stand_for_their_bytes(byte_level):
    known = token_bytes(byte_level)
    vocab = byte_level.get_vocab()
    assert known[vocab["Ġthe"]] == b" the"
    assert known[vocab["ĊĊ"]] == b"\n\n"
    assert known[vocab["<think>"]] == b"<think>"
    assert vocab["<|end|>"] not in known
    assert {known[token] for token in known if len(known[token]) == 1} == {bytes([byte]) for byte in range(256)}


def test_sentencepiece_names_stand_for_spaces_and_bytes(sentencepiece_like):
    known = token_bytes(sentencepiece_like)
    vocab = sentencepiece_like.get_vocab()
    assert known[vocab["▁the"]] == b" the"
    assert known[vocab["<0xE4>"]] == b"\xe4"
    assert vocab["</s>"] not in known


@given(st.text(min_size=1, max_size=20))
def test_longest_match_spells_any_text_in_bytes_that_join_to_it(byte_level, text):
    known = token_bytes(byte_level)
    assert b"".join(known[token] for token in Speller(byte_level).longest_match(text)) == text.encode()


def test_longest_match_takes_the_longest_token_the_tokenizer_may_never_write(byte_level):
    speller = Speller(byte_level)
    assert names(byte_level, speller.longest_match("xyz the")) == ["xyz", "Ġthe"]
    assert names(byte_level, speller.tokenized("xyz the")) == ["xy", "z", "Ġthe"]


def test_phrases_that_are_spelled_unlike_the_tokenizer_are_reported(byte_level):
    spelled = PhraseVocabulary.from_texts([" the", " then", "xyz", " the"], byte_level)
    assert len(spelled.vocabulary) == 3
    (mismatch,) = spelled.mismatches
    assert mismatch.text == "xyz"
    assert spelled.vocabulary.expand(2) == mismatch.tokens
    assert mismatch.tokenized == tuple(byte_level.encode("xyz", add_special_tokens=False))


def test_the_space_some_tokenizers_put_before_a_text_is_no_mismatch(sentencepiece_like):
    assert names(sentencepiece_like, sentencepiece_like.encode("the", add_special_tokens=False)) == ["▁the"]
    spelled = PhraseVocabulary.from_texts(["the", " the", " a the"], sentencepiece_like)
    assert [names(sentencepiece_like, spelled.vocabulary.expand(phrase_id)) for phrase_id in range(3)] == [
        ["the"],
        ["▁the"],
        ["▁a", "▁the"],
    ]
    assert not spelled.mismatches


def test_special_tokens_are_never_spelled(byte_level):
    tokens = Speller(byte_level).longest_match("<|end|>")
    assert byte_level.eos_token_id not in tokens
    assert len(tokens) == len("<|end|>")


def test_a_text_without_tokens_is_refused_by_name():
    class Tiny:
        all_special_ids = ()
        added_tokens_decoder: dict[int, object] = {}  # noqa: RUF012 - a stand-in for a tokenizer's property

        def get_vocab(self):
            return {"a": 0, "Ġ": 1}

        def encode(self, text, *, add_special_tokens):
            return [0] * len(text)

    with pytest.raises(DataError, match="begins the rest `bc` of `abc`"):
        PhraseVocabulary.from_texts(["abc"], Tiny())
    with pytest.raises(OptionError, match="a phrase is empty"):
        PhraseVocabulary.from_texts([""], Tiny())
