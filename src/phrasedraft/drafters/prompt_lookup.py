"""Prompt lookup: what followed when the last few tokens were there before (Saxena 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.drafters.source import Candidate
from phrasedraft.drafters.training_free import TrainingFree, at_least_one
from phrasedraft.tree.build import merge
from phrasedraft.tree.draft_tree import DraftTree


@dataclass(frozen=True, kw_only=True)
class PromptLookupSettings:
    """How much of the text is looked up, and how much of what followed is drafted.

    The first two are named as in transformers' `generate()`. With `num_paths=1` the draft is the one path that
    transformers would draft, but from the most recent match.
    """

    max_matching_ngram_size: int = 3
    prompt_lookup_num_tokens: int = 10
    num_paths: int = 4

    def __post_init__(self) -> None:
        at_least_one(
            max_matching_ngram_size=self.max_matching_ngram_size,
            prompt_lookup_num_tokens=self.prompt_lookup_num_tokens,
            num_paths=self.num_paths,
        )


@dataclass
class LookupState:
    """Prompt and answer, and for each n-gram of 1, 2, ... tokens the places where it ended, in order."""

    text: list[int]
    ends: tuple[dict[tuple[int, ...], list[int]], ...] = field(repr=False)

    def append(self, token: int) -> None:
        """Add a token of the text."""
        self.text.append(token)
        for size, ends in enumerate(self.ends, start=1):
            if size <= len(self.text):
                ends.setdefault(tuple(self.text[-size:]), []).append(len(self.text))

    def matches(self, limit: int) -> list[int]:
        """Where the longest n-gram at the end of the text ended before, most recent first, `limit` places at most."""
        for size in range(min(len(self.ends), len(self.text)), 0, -1):
            ends = self.ends[size - 1][tuple(self.text[-size:])]
            if len(ends) > 1:
                return ends[-2 : -2 - limit : -1]  # the last place is the end of the text itself
        return []

    def followers(self, ngram: tuple[int, ...], limit: int) -> list[int]:
        """What followed the last `limit` times an n-gram was there, most recent first; nothing at the text's end."""
        ends = self.ends[len(ngram) - 1].get(ngram, [])
        return [self.text[end] for end in ends[: -limit - 2 : -1] if end < len(self.text)][:limit]

    def continuation(self, end: int, length: int) -> tuple[int, ...]:
        """The tokens from a match's end on; where they reach the end of the text, it is taken to repeat itself."""
        period = len(self.text) - end
        return tuple(self.text[end + step % period] for step in range(length))


class PromptLookup(TrainingFree):
    """Drafts what followed the last times the end of the text was there before; the longest n-gram that was counts.

    The most recent match has probability 1/2, each one before it half of that; matches that go on alike add up.
    """

    name = "prompt-lookup"

    def __init__(self, settings: PromptLookupSettings | None = None) -> None:
        self.settings = settings or PromptLookupSettings()

    def begin(
        self,
        prompt: Sequence[int],
        committed: int,
        hidden: Float[Tensor, "row feature"],  # noqa: ARG002 - tokens are all it reads
        embed: Embed,  # noqa: ARG002
    ) -> LookupState:
        """The text so far."""
        state = LookupState(text=[], ends=tuple({} for _ in range(self.settings.max_matching_ngram_size)))
        for token in (*prompt, committed):
            state.append(token)
        return state

    def update(self, state: LookupState, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:  # noqa: ARG002
        """Add what was committed."""
        for token in committed:
            state.append(token)

    def propose(self, state: LookupState, budget: DraftBudget) -> DraftTree:
        """The continuations of the most recent matches as one tree; that of the last one where only a chain counts."""
        length = min(self.settings.prompt_lookup_num_tokens, budget.num_draft_tokens, budget.max_depth)
        matches = state.matches(1 if budget.chain_only else self.settings.num_paths)
        paths = ((state.continuation(end, length), 0.5 ** (rank + 1)) for rank, end in enumerate(matches))
        return merge(state.text[-1], paths, budget.num_draft_tokens, budget.max_depth)

    def root(self, state: LookupState) -> tuple[int, ...]:
        """The n-gram at the end of the text."""
        return tuple(state.text[-len(state.ends) :])

    def after(self, state: LookupState, place: tuple[int, ...], token: int) -> tuple[int, ...]:
        """The n-gram that ends with `token`."""
        return (*place, token)[-len(state.ends) :]

    def candidates(self, state: LookupState, place: tuple[int, ...]) -> list[Candidate]:
        """What followed the longest end of the n-gram that was there before; the longer it is, the stronger."""
        for size in range(len(place), 0, -1):
            followers = state.followers(place[-size:], self.settings.num_paths)
            if followers:
                shares: dict[int, float] = {}
                for rank, token in enumerate(followers):
                    shares[token] = shares.get(token, 0.0) + 0.5 ** (rank + 1)
                return [Candidate(token, share, size) for token, share in shares.items()]
        return []
