"""Fertility: how many tokens a target spends on a word, and what a head saves there, language by language.

The words are counted on the text itself, by the rule of `phrases.pieces`, so that tokenizers are compared on the same
words: a run of letters or of digits is one, and in Chinese and Japanese two characters are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from phrasedraft.drafters.protocol import DraftBudget, Drafter
from phrasedraft.errors import DataError
from phrasedraft.evaluation.replay import RecordedAnswer, replay
from phrasedraft.phrases.pieces import Edge, TokenPieces
from phrasedraft.phrases.spelling import Tokenizer
from phrasedraft.target import TransformersTarget
from phrasedraft.target.protocol import Support

LANGUAGES = ("english", "german", "hindi", "telugu", "chinese", "code")
"""The bundled texts, by name."""


@dataclass(frozen=True, kw_only=True)
class Fertility:
    """What a tokenizer makes of one text.

    `num_one_token_words` of the `num_spaced_words` words that the text itself sets apart are a single token (with the
    space before them or not). It is None where that cannot be said: most words are written without spaces, or the
    tokens do not spell the text (`spells_text`).
    """

    num_characters: int
    num_words: int
    num_spaced_words: int
    num_tokens: int
    spells_text: bool
    num_one_token_words: int | None

    @property
    def tokens_per_word(self) -> float:
        """The fertility itself."""
        return self.num_tokens / self.num_words

    @property
    def tokens_per_character(self) -> float:
        """Tokens over characters, spaces and line breaks included."""
        return self.num_tokens / self.num_characters

    @property
    def one_token_share(self) -> float | None:
        """The share of words that are one token."""
        return None if self.num_one_token_words is None else self.num_one_token_words / self.num_spaced_words

    def as_dict(self) -> dict[str, Any]:
        """Every figure, ready for JSON."""
        return {
            **vars(self),
            "tokens_per_word": self.tokens_per_word,
            "tokens_per_character": self.tokens_per_character,
            "one_token_share": self.one_token_share,
        }


@dataclass(frozen=True, kw_only=True)
class ForcedReplay:
    """What a drafter would have had accepted on `num_tokens` tokens of a text that is not the target's own."""

    num_tokens: int
    num_passes: int
    tokens_per_pass: float
    landing: float


def bundled_texts() -> dict[str, str]:
    """The texts that come with the package, by language."""
    folder = files("phrasedraft.evaluation").joinpath("data", "fertility")
    return {name: folder.joinpath(f"{name}.txt").read_text(encoding="utf-8") for name in LANGUAGES}


def fertility(tokenizer: Tokenizer, pieces: TokenPieces, text: str) -> Fertility:
    """What `tokenizer`, whose tokens are `pieces`, makes of `text`; `DataError` where there is no word in it."""
    num_words, spans = _words(text)
    if not num_words:
        raise DataError(
            f"the text `{text[:40]}` has no words to count", hint="give a text with a word or a number in it"
        )
    tokens = list(tokenizer.encode(text, add_special_tokens=False))
    edges = _edges(pieces, tokens, text)
    num_one_token = None
    if edges is not None and 2 * len(spans) > num_words:
        starts = np.searchsorted(edges, [start for start, _ in spans], side="right")
        ends = np.searchsorted(edges, [end for _, end in spans], side="left")
        num_one_token = int((starts == ends).sum())
    return Fertility(
        num_characters=len(text),
        num_words=num_words,
        num_spaced_words=len(spans),
        num_tokens=len(tokens),
        spells_text=edges is not None,
        num_one_token_words=num_one_token,
    )


def replay_text(
    drafter: Drafter, target: TransformersTarget, text: str, *, num_draft_tokens: int
) -> ForcedReplay | None:
    """What `drafter` would have had accepted if the target had written `text`, which it has not.

    One pass of the target reads the text as it is, without a chat template; the first token is the prompt. What does
    not fit into the context is left out. None for a text of one token.
    """
    prompt, answer = _split(target, text)
    if target.context_limit is not None:
        answer = answer[: target.context_limit - len(prompt)]
    if len(answer) < 2:  # the first one costs no pass
        return None
    tokens = torch.tensor([[*prompt, *answer]], device=target.input_device)
    hidden = target.hidden_rows(tokens, torch.ones_like(tokens), drafter.features)[0, len(prompt) - 1 :]
    recorded = RecordedAnswer(prompt=prompt, tokens=answer, hidden=hidden.cpu().float(), max_new_tokens=len(answer))
    budget = DraftBudget(
        num_draft_tokens=num_draft_tokens,
        max_depth=len(answer),
        chain_only=target.support is not Support.TREE,
    )
    stats = replay(drafter, [recorded], budget, target.embed)
    return ForcedReplay(
        num_tokens=len(answer),
        num_passes=stats.num_passes,
        tokens_per_pass=stats.mean_acceptance_length,
        landing=stats.landing,
    )


def _words(text: str) -> tuple[int, list[tuple[int, int]]]:
    """How many words there are, and where each one that is set apart begins and ends, in bytes."""
    characters = sorted(set(text))
    table = TokenPieces.from_bytes({i: character.encode() for i, character in enumerate(characters)}, len(characters))
    index = {character: i for i, character in enumerate(characters)}
    ids = np.array([index[character] for character in text], dtype=np.int64)
    offsets = np.cumsum([0, *(len(table.pieces[i]) for i in ids)])
    is_inside = table.leads[ids] != Edge.NONE
    goes_on = np.zeros(len(ids) + 1, dtype=bool)
    goes_on[1:-1] = table.continues(ids[:-1], ids[1:])
    starts = offsets[:-1][is_inside & ~goes_on[:-1]]
    ends = offsets[1:][is_inside & ~goes_on[1:]]
    return table.num_words(ids.tolist()), list(zip(starts.tolist(), ends.tolist(), strict=True))


def _edges(pieces: TokenPieces, tokens: Sequence[int], text: str) -> Int64[np.ndarray, " edge"] | None:
    """Where in the bytes of `text` each token begins, and the last one ends; None where they do not spell it."""
    spelled, data = pieces.join(tokens), text.encode()
    num_before = len(spelled) - len(data)
    if spelled != b" " * num_before + data or num_before > 1:  # some tokenizers put one space before a text
        return None
    return np.cumsum([0, *(len(pieces.pieces[token]) for token in tokens)], dtype=np.int64) - num_before


def _split(target: TransformersTarget, text: str) -> tuple[list[int], list[int]]:
    """The first token of `text` behind what the tokenizer begins a text with, and the other tokens."""
    whole = target.encode(text)
    assert target.tokenizer is not None
    tokens = list(target.tokenizer.encode(text, add_special_tokens=False))
    first = next((i for i in range(len(whole)) if whole[i : i + len(tokens)] == tokens), 0)
    return [*whole[:first], *tokens[:1]], tokens[1:]
