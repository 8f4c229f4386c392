"""Tiny tokenizers: a byte-level BPE and a SentencePiece-like one, built here."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


@pytest.fixture(scope="session")
def byte_level() -> PreTrainedTokenizerFast:
    """GPT-2's scheme. Its tokenizer never writes `xyz`, which no merge leads to, though it is a token."""
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġthe", "n"), ("h", "e"), ("Ċ", "Ċ"), ("Ġ", "a"), ("x", "y")]
    pieces = ["<|end|>", *BYTES, *(left + right for left, right in merges), "xyz"]
    tokenizer = Tokenizer(models.BPE(vocab={piece: token for token, piece in enumerate(pieces)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")


@pytest.fixture(scope="session")
def sentencepiece_like() -> PreTrainedTokenizerFast:
    """Llama's scheme: `▁` for spaces, one put before every text, and bytes for what has no token."""
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "a")]
    singles = ["▁", *"thea\n"]
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *singles, "th", "the", "▁the", "▁a"]
    vocab = {piece: token for token, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.add_special_tokens([AddedToken("</s>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")
