"""Tiny targets in folders, as a user has them: a model, a byte-level tokenizer and (mostly) a chat template."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import zoo

EOS = "<end>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def byte_tokenizer(chat_template: str | None = CHAT_TEMPLATE) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={character: index for index, character in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([EOS])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, chat_template=chat_template)


def save_target(folder: Path, family: str, *, chat_template: str | None = CHAT_TEMPLATE, **changes: object) -> Path:
    tokenizer = byte_tokenizer(chat_template)
    model = zoo.build_model(family, vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, **changes)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
