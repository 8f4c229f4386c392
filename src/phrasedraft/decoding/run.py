"""One text while it is being decoded: its tokens, the target's choices, and where it ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import MinNewTokensLengthLogitsProcessor

from phrasedraft.choice import Choice, greedy_tokens, unusable_logits
from phrasedraft.decoding.generation import Piece
from phrasedraft.decoding.stopping import FinishReason, Stopping
from phrasedraft.decoding.text_stream import TextStream


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a text is decoded with, every default resolved."""

    choice: Choice
    stopping: Stopping
    eos_token_ids: frozenset[int]
    context_limit: int | None
    want_logprobs: bool


class Run:
    """The tokens of one text, and the two functions `walk` asks: the target's choice, and whether the text goes on."""

    def __init__(
        self, prompt: Sequence[int], settings: RunSettings, text: TextStream | None, device: torch.device
    ) -> None:
        self._stopping = settings.stopping
        self._eos = frozenset() if settings.stopping.ignore_eos else settings.eos_token_ids
        self._choice = _with_minimum(settings, self._eos, len(prompt), device)
        self._want_logprobs = settings.want_logprobs
        self._text = text
        room = settings.stopping.max_new_tokens
        self._limit_reason = FinishReason.LENGTH
        if settings.context_limit is not None and settings.context_limit - len(prompt) < room:
            room, self._limit_reason = settings.context_limit - len(prompt), FinishReason.CONTEXT
        self._num_prompt_tokens = len(prompt)
        self._room = room
        self._buffer = torch.zeros((1, len(prompt) + min(room, 512)), dtype=torch.long, device=device)
        self._buffer[0, : len(prompt)] = torch.tensor(list(prompt), device=device)
        self._logprob: float | None = None
        self._unclaimed: list[Piece] = []
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.finish_reason: FinishReason | None = None

    @property
    def num_tokens_left(self) -> int:
        """How many more tokens the text may get."""
        return self._room - len(self.tokens)

    @property
    def last_token(self) -> int:
        """The last committed token, the root of the next tree."""
        return self.tokens[-1]

    @property
    def choice(self) -> Choice:
        """How tokens are chosen, with the seed in use."""
        return self._choice

    def chooser(self, logits: Float[Tensor, "node vocab"]) -> Callable[[int], int]:
        """The target's choice at a node of the tree these logits belong to, given the text committed so far."""
        is_plain = self._choice.is_greedy and not self._choice.processor_list
        # On the CPU only the rows that are walked are looked at; elsewhere each look would wait for the device.
        every_row = greedy_tokens(logits) if is_plain and logits.device.type != "cpu" else None

        def choose(node: int) -> int:
            if not is_plain:
                token = self._choice.token(self._so_far(), logits[node])
            elif (token := every_row[node] if every_row else greedy_tokens(logits[node : node + 1])[0]) < 0:
                raise unusable_logits(float(logits[node].max()), self._num_prompt_tokens + len(self.tokens))
            if self._want_logprobs:
                self._logprob = float(torch.log_softmax(logits[node].float(), dim=-1)[token])
            return token

        return choose

    def commit(self, token: int, was_drafted: bool) -> bool:
        """Make a token part of the text; whether the text goes on after it."""
        position = self._num_prompt_tokens + len(self.tokens)
        if position == self._buffer.shape[1]:
            self._buffer = torch.cat([self._buffer, torch.zeros_like(self._buffer)], dim=1)
        self._buffer[0, position] = token
        self.tokens.append(token)
        if self._logprob is not None:
            self.logprobs.append(self._logprob)
        shown = self._text.push(token, may_stop=self._may_stop(token)) if self._text is not None else ""
        self.finish_reason = self._reason(token)
        if self._text is not None and self.finish_reason is not None:
            shown += self._text.finish()
        self._unclaimed.append(Piece(token=token, text=shown, was_drafted=was_drafted, logprob=self._logprob))
        return self.finish_reason is None

    def claim(self) -> list[Piece]:
        """The pieces committed since the last call."""
        pieces, self._unclaimed = self._unclaimed, []
        return pieces

    def _may_stop(self, token: int) -> bool:
        return token not in self._eos and len(self.tokens) > self._stopping.min_new_tokens

    def _so_far(self) -> Int[Tensor, "1 seq"]:
        return self._buffer[:, : self._num_prompt_tokens + len(self.tokens)]

    def _reason(self, token: int) -> FinishReason | None:
        if token in self._eos:
            return FinishReason.EOS
        if self._text is not None and self._text.stop_string is not None:
            return FinishReason.STOP_STRING
        if self._stopping.criteria and self._stopping.meets_criterion(self._so_far()):
            return FinishReason.CRITERION
        return self._limit_reason if self.num_tokens_left <= 0 else None


def _with_minimum(settings: RunSettings, eos: frozenset[int], num_prompt_tokens: int, device: torch.device) -> Choice:
    minimum = settings.stopping.min_new_tokens
    if not (minimum and eos):
        return settings.choice
    processor = MinNewTokensLengthLogitsProcessor(num_prompt_tokens, minimum, sorted(eos), device=str(device))
    return settings.choice.with_processors([processor])
