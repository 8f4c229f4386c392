"""Tokenizers built in memory, and a processor that makes a target write a given text."""

import json
from collections.abc import Sequence
from functools import cache

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerFast

import zoo
from phrasedraft import TransformersTarget

CORPUS = (
    "the answer is 42 and the end is near. END! of the story, the answer is the answer.",
    "she sells sea shells on the sea shore; the shells she sells are sea shells. END!",
    "1 + 1 = 2, 2 + 2 = 4, so the answer is 4.\n\nThe end. STOP STOP END!",
)
END_OF_TEXT, END_OF_TURN, START_OF_TURN = "<|endoftext|>", "<|im_end|>", "<|im_start|>"
SPECIAL_TOKENS = (END_OF_TEXT, END_OF_TURN, START_OF_TURN)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCAB_SIZE = 300


@cache
def byte_level_tokenizer(*, chat: bool = True) -> PreTrainedTokenizerFast:
    """A byte-level BPE of 300 tokens: every byte, the common pairs of a small corpus, three special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 4, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        extra_special_tokens=list(SPECIAL_TOKENS),
        chat_template=CHAT_TEMPLATE if chat else None,
    )


@cache
def prefix_space_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer like SentencePiece's: words begin with `▁`, a text gets one in front, and it adds `<s>`."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    words.train_from_iterator(CORPUS * 4, trainers.BpeTrainer(vocab_size=120, show_progress=False))
    trained = json.loads(words.to_str())["model"]
    entries = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *trained["vocab"]]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    merges = [tuple(merge) for merge in trained["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


@cache
def text_target(family: str = "llama", *, chat: bool = True) -> TransformersTarget:
    """A target that speaks the byte-level tokenizer."""
    return TransformersTarget(
        zoo.tiny_model(family, vocab_size=VOCAB_SIZE), byte_level_tokenizer(chat=chat), packed=False
    )


class Forcing(LogitsProcessor):
    """Makes a target write given tokens after a prompt of `num_prompt_tokens`; after them it is free again."""

    def __init__(self, num_prompt_tokens: int, tokens: Sequence[int]) -> None:
        self.num_prompt_tokens = num_prompt_tokens
        self.tokens = list(tokens)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        position = input_ids.shape[1] - self.num_prompt_tokens
        if position >= len(self.tokens):
            return scores
        forced = torch.full_like(scores, -torch.inf)
        forced[:, self.tokens[position]] = 0.0
        return forced
