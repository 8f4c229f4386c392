"""Cases where a stream lost, repeated or broke what the text holds."""

import pytest

from kit import RightDrafter, RightUntilDrafter
from phrasedraft import Choice, Decoder, Stopping
from texts import VOCAB_SIZE, Forcing, byte_level_tokenizer, text_target

TEXT = "日本語 🎉🔥 ďábelské the answer"


def stream_of(tokens, *, num_draft_tokens, max_new_tokens=None, drafter_type=RightDrafter):
    prompt = byte_level_tokenizer()("she sells")["input_ids"]
    decoder = Decoder(text_target(), drafter_type(tokens, VOCAB_SIZE), num_draft_tokens=num_draft_tokens)
    stopping = Stopping(max_new_tokens=max_new_tokens or len(tokens))
    return decoder.stream(prompt, Choice(processors=(Forcing(len(prompt), tokens),)), stopping)


@pytest.mark.parametrize("drafter_type", [RightDrafter, RightUntilDrafter])
def test_stream_gptoss_blocks_of_six_tokens_reach_the_stream_whole(drafter_type):
    """`stream-gptoss`: not the newest token of a block, but all of it, in order."""
    tokens = byte_level_tokenizer()(TEXT)["input_ids"]
    stream = stream_of(tokens, num_draft_tokens=6, drafter_type=drafter_type)
    pieces = list(stream)
    assert [piece.token for piece in pieces] == tokens
    assert "".join(piece.text for piece in pieces) == TEXT
    assert stream.result.stats.mean_acceptance_length > 2


@pytest.mark.parametrize("num_draft_tokens", [1, 3, 6, 16])
def test_stream_harmony_last_every_accepted_token_reaches_the_stream_once(num_draft_tokens):
    """`stream-harmony-last`: the ids that were streamed are the ids of the result."""
    tokens = byte_level_tokenizer()(TEXT)["input_ids"]
    stream = stream_of(tokens, num_draft_tokens=num_draft_tokens, max_new_tokens=len(tokens) + 5)
    streamed = tuple(piece.token for piece in stream)
    assert streamed == stream.result.tokens
    assert streamed[: len(tokens)] == tuple(tokens)


@pytest.mark.parametrize("length", range(1, 6))
@pytest.mark.parametrize("text", ["🎉🎉", "answer the", "日本"])
def test_stream_tail_short_answers_and_broken_ends_are_shown_to_the_last(text, length):
    """`stream-tail`: answers of one to five tokens, some ending inside a character or a word."""
    tokenizer = byte_level_tokenizer()
    tokens = tokenizer(text)["input_ids"][:length]
    stream = stream_of(tokens, num_draft_tokens=4)
    shown = "".join(piece.text for piece in stream)
    assert shown == stream.result.text == tokenizer.decode(tokens)
    assert shown


@pytest.mark.parametrize("num_draft_tokens", [1, 3, 5])
def test_stream_utf8_no_character_is_shown_in_pieces(num_draft_tokens):
    """`stream-utf8`: no replacement character in any piece, and the pieces join to the text."""
    tokens = byte_level_tokenizer()(TEXT)["input_ids"]
    pieces = [piece.text for piece in stream_of(tokens, num_draft_tokens=num_draft_tokens)]
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) == TEXT
    assert pieces.count("") > 10  # bytes that wait for their character
