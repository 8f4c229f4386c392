"""Cases where a stop string was missed, cut in the wrong place, or shown to the user."""

import pytest

from kit import RightDrafter
from phrasedraft import Choice, Decoder, FinishReason, Stopping
from texts import VOCAB_SIZE, Forcing, byte_level_tokenizer, text_target


def stream_of(text, stop_strings, *, num_draft_tokens, tokens=None):
    tokenizer, target = byte_level_tokenizer(), text_target()
    tokens = tokens or tokenizer(text)["input_ids"]
    prompt = tokenizer("she sells")["input_ids"]
    decoder = Decoder(target, RightDrafter(tokens, VOCAB_SIZE), num_draft_tokens=num_draft_tokens)
    stopping = Stopping(max_new_tokens=len(tokens) + 8, stop_strings=stop_strings)
    choice = Choice(processors=(Forcing(len(prompt), tokens),))
    return decoder.stream(prompt, choice, stopping, logprobs=True)


@pytest.mark.parametrize("stop", ["swer", "answer i", " is"])
def test_stopstr_window_a_match_in_the_first_tokens_of_a_long_block_is_found(stop):
    """`stopstr-window`: sixteen tokens accepted at once, the stop string within the first few."""
    text = "the answer is 42 and the end is near. The shells she sells"
    stream = stream_of(text, (stop,), num_draft_tokens=16)
    pieces = list(stream)
    assert stream.result.text == "".join(piece.text for piece in pieces) == text[: text.index(stop)]
    assert stream.result.finish_reason is FinishReason.STOP_STRING
    assert stream.result.stats.num_passes == 1


def test_stopstr_ids_left_ids_logprobs_text_and_counts_end_at_the_same_token():
    """`stopstr-ids-left`: the token that completes the stop string stays in the ids, the text is cut before it."""
    tokenizer = byte_level_tokenizer()
    end, bang = tokenizer.convert_tokens_to_ids("ĠEND"), tokenizer.convert_tokens_to_ids("!")
    tokens = [*tokenizer("the answer is")["input_ids"], end, bang, *tokenizer(" of the story")["input_ids"]]
    for stop, num_kept in (("END", 4), ("EN", 4), ("END!", 5), ("!", 5)):
        stream = stream_of("", (stop,), num_draft_tokens=8, tokens=tokens)
        pieces, result = list(stream), stream.result
        assert result.tokens == tuple(tokens[:num_kept])
        assert len(result.logprobs) == len(pieces) == result.stats.num_generated_tokens == num_kept
        assert result.text == "the answer is END"[: 18 if stop == "!" else 14]
        assert result.text == "".join(piece.text for piece in pieces)
        assert result.stats.num_accepted_tokens + result.stats.num_passes + 1 == num_kept


@pytest.mark.parametrize("num_draft_tokens", [0, 1, 3, 6, 12])
def test_stopstr_exl2_a_stream_never_shows_text_past_the_stop_and_holds_back_its_beginning(num_draft_tokens):
    """`stopstr-exl2`: with stop `END`, `E` and `EN` wait until they are decided."""
    tokenizer = byte_level_tokenizer()
    letters = [tokenizer.convert_tokens_to_ids(letter) for letter in "aEExENxEND!x"]
    stream = stream_of("", ("END",), num_draft_tokens=num_draft_tokens, tokens=letters)
    shown = [piece.text for piece in stream]
    assert shown == ["a", "", "E", "Ex", "", "", "ENx", "", "", ""]
    assert stream.result.text == "aEExENx"
    assert stream.result.stop_string == "END"
