"""Replay against live decoding: for every prompt the same passes, counted the same."""

from collections.abc import Sequence

import torch

from phrasedraft import Decoder, Stopping, TransformersTarget
from phrasedraft.drafters import Head
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.evaluation.replay import RecordedAnswer, replay
from phrasedraft.target.features import FeatureSpec

COUNTED = ("num_passes", "num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_landings")


def check_replay_is_live(
    target: TransformersTarget,
    head: Head,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    *,
    num_draft_tokens: int,
    limit: int,
) -> int:
    """Every answer decodes to itself, and its replay counts what decoding counted; how many drafts landed."""
    landed = 0
    for prompt, answer in zip(prompts, answers, strict=True):
        decoder = Decoder(target, head, num_draft_tokens=num_draft_tokens)
        live = decoder.generate(prompt, stopping=Stopping(max_new_tokens=limit))
        assert list(live.tokens) == list(answer)
        text = torch.tensor([[*prompt, *answer]])
        features = FeatureSpec(layers=head.config.target_layers)
        rows = target.hidden_rows(text, torch.ones_like(text), features)[0, len(prompt) - 1 :]
        recorded = RecordedAnswer(prompt=prompt, tokens=answer, hidden=rows, max_new_tokens=limit)
        budget = DraftBudget(num_draft_tokens=num_draft_tokens, max_depth=limit)
        replayed = replay(head, [recorded], budget, target.embed)
        assert {n: getattr(replayed, n) for n in COUNTED} == {n: getattr(live.stats, n) for n in COUNTED}
        assert replayed.num_accepted_tokens_per_pos == live.stats.num_accepted_tokens_per_pos
        assert replayed.num_generated_tokens == live.stats.num_generated_tokens
        landed += replayed.num_landings
    return landed
