"""Answering many prompts at once: plain decoding of a batch, for corpora. Drafting is for one sequence at a time."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import DynamicCache

from phrasedraft.choice import Choice, greedy_tokens, unusable_logits
from phrasedraft.target.cache import batch_cache, cache_keyword
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.model import TransformersTarget

LEAVE_SHARE = 0.125
"""Rows that are done leave the batch once they are this share of it: each time, the cache is copied."""

PREFILL_TOKENS = 8192
"""Prompts are read in groups of about this many tokens, so that their activations stay small."""

OnTokens = Callable[[int], None]
"""Told how many tokens a step has just produced."""


@torch.inference_mode()
def answer_batch(
    target: TransformersTarget,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    choices: Sequence[Choice],
    on_tokens: OnTokens | None = None,
) -> list[list[int]]:
    """The target's own answer to each prompt, with its end-of-text token where it stopped by itself.

    Each prompt is answered under its own choice; sampling ones are seeded, so an answer depends on its prompt and
    seed. The same batch gives the same bits; another batch differs in rounding, which can turn a near-tie. Targets
    with a recurrent state are answered one prompt after another, as padding would enter the state.
    """
    assert len(prompts) == len(choices)
    told = on_tokens or (lambda _: None)
    cache = batch_cache(target.network)
    if cache is None or len(prompts) == 1:
        return [
            _answer_one(target, prompt, max_new_tokens, choice, told)
            for prompt, choice in zip(prompts, choices, strict=True)
        ]
    return _Batch(target, prompts, choices, cache).run(max_new_tokens, told)


class _Batch:
    """Rows that are still being answered, padded on the left so that all of them end in the same column."""

    def __init__(
        self,
        target: TransformersTarget,
        prompts: Sequence[Sequence[int]],
        choices: Sequence[Choice],
        cache: DynamicCache,
    ) -> None:
        self._target = target
        self._prompts = prompts
        self._choices = choices
        self._cache = cache
        self._keyword = cache_keyword(target.network)
        self._answers: list[list[int]] = [[] for _ in prompts]
        self._rows = list(range(len(prompts)))
        self._mask, self._positions = _padding(prompts, target.input_device)

    def run(self, max_new_tokens: int, on_tokens: OnTokens) -> list[list[int]]:
        """Every row to its end."""
        tokens = self._choose(self._prefill())
        for step in range(max_new_tokens):
            on_tokens(sum(row >= 0 for row in self._rows))
            live = self._commit(tokens)
            if not live or step + 1 == max_new_tokens:
                break
            if len(live) <= len(self._rows) * (1 - LEAVE_SHARE):
                tokens = tokens[torch.tensor(live)]
                self._leave(live)
            tokens = self._choose(self._forward(tokens[:, None].to(self._mask.device)))
        return self._answers

    def _commit(self, tokens: Int[Tensor, " row"]) -> list[int]:
        """Add each row's token to its answer; the rows that go on. A row that is done stays as -1 until it leaves."""
        for index, token in enumerate(tokens.tolist()):
            row = self._rows[index]
            if row < 0:
                continue
            self._answers[row].append(token)
            if token in self._target.eos_token_ids:
                self._rows[index] = -1
        return [index for index, row in enumerate(self._rows) if row >= 0]

    def _leave(self, live: Sequence[int]) -> None:
        kept = torch.tensor(live, device=self._mask.device)
        self._rows = [self._rows[index] for index in live]
        self._mask, self._positions = self._mask[kept], self._positions[kept]
        self._cache.batch_select_indices(kept)

    def _prefill(self) -> Tensor:
        """Read all prompts; the logits after each."""
        width = self._mask.shape[1]
        tokens = torch.zeros_like(self._mask)
        for row, prompt in enumerate(self._prompts):
            tokens[row, width - len(prompt) :] = torch.tensor(prompt, device=tokens.device)
        chunk = max(PREFILL_TOKENS // len(self._prompts), 1)
        positions = (self._mask.cumsum(1) - 1).clamp(min=0)
        for start in range(0, width, chunk):
            part = slice(start, min(start + chunk, width))
            output = self._target.network(
                input_ids=tokens[:, part],
                attention_mask=self._mask[:, : part.stop],
                position_ids=positions[:, part],
                use_cache=True,
                logits_to_keep=1,
                **{self._keyword: self._cache},
            )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _forward(self, tokens: Int[Tensor, "row 1"]) -> Tensor:
        """One step of every row; the logits after it."""
        self._mask = torch.cat([self._mask, self._mask.new_ones((len(self._mask), 1))], dim=1)
        output = self._target.network(
            input_ids=tokens,
            attention_mask=self._mask,
            position_ids=self._positions[:, None],
            use_cache=True,
            logits_to_keep=1,
            **{self._keyword: self._cache},
        )
        self._positions = self._positions + 1
        logits: Tensor = output.logits[:, -1]
        return logits

    def _choose(self, logits: Tensor) -> Int[Tensor, " row"]:
        """The next token of every row."""
        greedy = greedy_tokens(logits.float())
        for index, row in enumerate(self._rows):
            if row < 0:
                continue
            choice, text = self._choices[row], [*self._prompts[row], *self._answers[row]]
            if not choice.is_greedy or choice.processor_list:
                greedy[index] = choice.token(torch.tensor([text], device=logits.device), logits[index])
            elif greedy[index] < 0:
                raise unusable_logits(float(logits[index].max()), len(text))
        return torch.tensor(greedy)


def _padding(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """The mask of left-padded prompts, and the position of the first token after each."""
    width = max(map(len, prompts))
    mask = torch.zeros((len(prompts), width), dtype=torch.long, device=device)
    for row, prompt in enumerate(prompts):
        mask[row, width - len(prompt) :] = 1
    return mask, mask.sum(1)


def _answer_one(
    target: TransformersTarget, prompt: Sequence[int], max_new_tokens: int, choice: Choice, on_tokens: OnTokens
) -> list[int]:
    """One answer, token by token."""
    sequence = target.start(FeatureSpec(layers=()))
    answer: list[int] = []
    waiting = list(prompt)
    while len(answer) < max_new_tokens:
        result = sequence.prefill(waiting)
        prefix = torch.tensor([[*prompt, *answer]], device=result.logits.device)
        waiting = [choice.token(prefix, result.logits[-1])]
        answer += waiting
        on_tokens(1)
        if waiting[0] in target.eos_token_ids:
            break
    return answer
