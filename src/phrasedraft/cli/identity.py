"""Whether drafted text is plain text on the user's own model, with drafts that are known to be accepted."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from phrasedraft.choice import GREEDY
from phrasedraft.cli.known_answer import KnownAnswerDrafter
from phrasedraft.cli.loading import encode_turn
from phrasedraft.decoding import Decoder, Generation, Stopping, first_divergence
from phrasedraft.drafters.head import Head
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.target import Support, TransformersTarget

PROMPTS = (
    "A baker sells 12 loaves in the morning and twice as many in the afternoon. How many loaves is that?",
    "Write a Python function that returns the sum of a list.",
    "Name three things to see in a harbour, and say why.",
)
STOPPING = Stopping(max_new_tokens=48, ignore_eos=True)  # whatever the answer, so that every depth is reached


@dataclass(frozen=True, kw_only=True)
class IdentityCheck:
    """One prompt decoded plainly and with drafts; the gap is that of the top two logits where the texts part."""

    drafter: str
    num_tokens: int
    num_draft_tokens: int
    num_accepted_tokens: int
    deepest_accepted: int
    first_difference: int | None
    top_two_gap: float | None

    @property
    def is_identical(self) -> bool:
        """Whether no token differs."""
        return self.first_difference is None

    def as_dict(self) -> dict[str, Any]:
        """Every figure, ready for JSON."""
        return {**asdict(self), "identical": self.is_identical}

    def __str__(self) -> str:
        """The check on one line."""
        drafts = (
            f"{self.num_tokens} tokens with drafts of `{self.drafter}`, {self.num_accepted_tokens} of "
            f"{self.num_draft_tokens} accepted, up to {self.deepest_accepted} at once"
            if self.num_draft_tokens
            else f"{self.num_tokens} tokens, nothing was drafted"
        )
        if self.is_identical:
            return f"identical: {drafts}"
        return f"DIFFERENT from token {self.first_difference} (top-2 gap {self.top_two_gap:.2e}): {drafts}"


def check_identity(target: TransformersTarget, head: Head | None, nodes: int) -> list[IdentityCheck]:
    """Each built-in prompt with the drafts of a drafter that knows the answer, and with the head's if there is one."""
    checks = []
    plain = Decoder(target, KnownAnswerDrafter(), num_draft_tokens=0)
    num_draft_tokens = nodes if target.support is not Support.NOTHING else 0
    for prompt in PROMPTS:
        tokens = encode_turn(target, prompt)
        expected = plain.generate(tokens, GREEDY, STOPPING)
        drafters: list[Drafter] = [KnownAnswerDrafter(expected.tokens, target.identity.vocab_size)]
        drafters += [head] if head is not None else []
        for drafter in drafters:
            decoder = Decoder(target, drafter, num_draft_tokens=num_draft_tokens)
            result = decoder.generate(tokens, GREEDY, STOPPING)
            checks.append(_compare(target, tokens, expected, result, drafter.name))
    return checks


def _compare(
    target: TransformersTarget, prompt: Sequence[int], expected: Generation, result: Generation, drafter: str
) -> IdentityCheck:
    parting = first_divergence(target, prompt, expected.tokens, result.tokens)
    return IdentityCheck(
        drafter=drafter,
        num_tokens=len(result.tokens),
        num_draft_tokens=result.stats.num_draft_tokens,
        num_accepted_tokens=result.stats.num_accepted_tokens,
        deepest_accepted=len(result.stats.num_accepted_tokens_per_pos),
        first_difference=parting.position if parting is not None else None,
        top_two_gap=parting.top_two_gap if parting is not None else None,
    )
