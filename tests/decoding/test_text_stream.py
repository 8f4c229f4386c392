"""`TextStream`: pieces join to the whole text, characters stay whole, and nothing past a stop string is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.decoding import TextStream
from texts import byte_level_tokenizer, prefix_space_tokenizer

TOKENIZERS = {"byte-level": byte_level_tokenizer(), "prefix-space": prefix_space_tokenizer()}
REPLACEMENT = "\ufffd"
ALPHABET = "the answerisEND!42 \n日本語🎉🔥ďábelskéहिन्दी👩‍🚀"
texts = st.text(alphabet=ALPHABET, max_size=40)
every_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)


def decode(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def encode(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def stream(tokenizer, ids, stop_strings=(), may_stop_after=0):
    """The pieces of a stream that ends at the first stop string, and the stream."""
    text = TextStream(tokenizer, stop_strings)
    pieces = []
    for number, token in enumerate(ids, start=1):
        pieces.append(text.push(token, may_stop=number > may_stop_after))
        if text.stop_string is not None:
            break
    pieces.append(text.finish())
    return pieces, text


@every_tokenizer
@given(texts)
def test_pieces_join_to_what_all_tokens_decode_to(name, written):
    tokenizer = TOKENIZERS[name]
    ids = encode(tokenizer, written)
    pieces, text = stream(tokenizer, ids)
    assert "".join(pieces) == decode(tokenizer, ids) == text.text


@every_tokenizer
@given(texts)
def test_no_piece_splits_a_character(name, written):
    pieces, _ = stream(TOKENIZERS[name], encode(TOKENIZERS[name], written))
    assert not any(REPLACEMENT in piece for piece in pieces)


@every_tokenizer
@given(st.lists(st.one_of(st.sampled_from(["the", " answer", "日", " 🎉"]), st.sampled_from(["</s>", "<|im_end|>"]))))
def test_special_tokens_in_the_middle_change_nothing_around_them(name, parts):
    tokenizer = TOKENIZERS[name]
    ids = []
    for part in parts:
        special = part in tokenizer.all_special_tokens
        ids += [tokenizer.convert_tokens_to_ids(part)] if special else encode(tokenizer, part)
    pieces, text = stream(tokenizer, ids)
    assert "".join(pieces) == decode(tokenizer, ids) == text.text


@every_tokenizer
@given(st.data())
def test_any_tokens_at_all_are_shown_and_held_for_a_few_tokens_only(name, data):
    tokenizer = TOKENIZERS[name]
    ids = data.draw(st.lists(st.integers(3, len(tokenizer) - 1), max_size=30))
    text = TextStream(tokenizer)
    shown, waiting = "", 0
    for token in ids:
        piece = text.push(token)
        shown += piece
        waiting = 0 if piece else waiting + 1
        assert waiting <= 9
    shown += text.finish()
    assert shown == text.text


@every_tokenizer
@given(texts, st.text(alphabet=ALPHABET, min_size=1, max_size=5))
def test_text_ends_in_front_of_the_first_stop_string(name, written, stop):
    tokenizer = TOKENIZERS[name]
    ids = encode(tokenizer, written)
    whole = decode(tokenizer, ids)
    pieces, text = stream(tokenizer, ids, (stop,))
    assert "".join(pieces) == text.text == whole.split(stop)[0]
    assert text.stop_string == (stop if stop in whole else None)


@every_tokenizer
@pytest.mark.parametrize("offset", range(16))
@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_stop_string_is_found_at_every_place(name, offset, length):
    tokenizer = TOKENIZERS[name]
    written = "she sells sea 日 shells END!"
    stop = written[offset : offset + length]
    pieces, text = stream(tokenizer, encode(tokenizer, written), (stop,))
    assert "".join(pieces) == written[: written.index(stop)]
    assert text.stop_string == stop


def test_the_beginning_of_a_stop_string_is_held_back_until_it_is_decided():
    tokenizer = byte_level_tokenizer()
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "aEExENx!EN"]
    text = TextStream(tokenizer, ("END",))
    pieces = [text.push(token) for token in letters]
    assert pieces == ["a", "", "E", "Ex", "", "", "ENx", "!", "", ""]
    assert text.finish() == "EN"


def test_a_stop_string_that_is_completed_is_never_shown():
    tokenizer = byte_level_tokenizer()
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "aEND"]
    text = TextStream(tokenizer, ("END", "nothing"))
    assert [text.push(token) for token in letters] == ["a", "", "", ""]
    assert text.stop_string == "END"
    assert text.finish() == ""


def test_stop_strings_before_the_minimum_do_not_count_afterwards_either():
    tokenizer = byte_level_tokenizer()
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "axbcdefxg"]
    pieces, text = stream(tokenizer, letters, ("x", "nothing at all"), may_stop_after=3)
    assert "".join(pieces) == "axbcdef"
    assert text.stop_string == "x"


@pytest.mark.parametrize("written", ["日", "日本", "🎉", "ď"])
def test_an_answer_that_ends_inside_a_character_shows_what_it_has(written):
    tokenizer = byte_level_tokenizer()
    for end in range(1, len(encode(tokenizer, written)) + 1):
        ids = encode(tokenizer, written)[:end]
        assert "".join(stream(tokenizer, ids)[0]) == decode(tokenizer, ids)


def test_no_tokens_are_an_empty_text():
    text = TextStream(byte_level_tokenizer(), ("END",))
    assert text.finish() == text.text == ""
