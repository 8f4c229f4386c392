"""Suffix automaton: what followed the longest end of the text that was there before, by how often it did."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.protocol import DraftBudget, Embed
from phrasedraft.drafters.source import MOST_CANDIDATES, Candidate
from phrasedraft.drafters.training_free import TrainingFree
from phrasedraft.tree.best_first import grow_best_first
from phrasedraft.tree.draft_tree import DraftTree

MAX_COUNTED_SUFFIXES = 32
"""How many suffixes of the text, longest first, have a new occurrence counted: all in a text that is not one loop."""
STRONGEST = 5
"""Matches of 16 tokens and more are one class."""


class SuffixAutomaton:
    """Every sequence of tokens in a growing text, and how often each occurs; at most two states a token.

    The smallest automaton of all suffixes, built token by token (Blumer et al. 1985, "The smallest automaton
    recognizing the subwords of a text"): adding one takes constant time on average. A state stands for all sequences
    that end at the same places of the text; its link leads to the longest of their suffixes that also ends elsewhere.
    """

    def __init__(self) -> None:
        self._transitions: list[dict[int, int]] = [{}]
        self._links = [-1]
        self._lengths = [0]
        self._counts = [0]
        self._last = 0

    @property
    def num_states(self) -> int:
        """How many states there are, the empty sequence's included."""
        return len(self._links)

    def append(self, token: int) -> None:
        """Add a token of the text."""
        new = self._add({}, self._lengths[self._last] + 1, 0)
        state = self._last
        while state >= 0 and token not in self._transitions[state]:
            self._transitions[state][token] = new
            state = self._links[state]
        if state < 0:
            self._links[new] = 0
        else:
            self._links[new] = self._class_of(state, token)
        self._last = suffix = new
        for _ in range(MAX_COUNTED_SUFFIXES):
            self._counts[suffix] += 1
            suffix = self._links[suffix]
            if suffix <= 0:
                break

    def longest_match(self) -> tuple[int, int]:
        """The state of the longest end of the text that was there before, and its length; 0 where nothing was."""
        state = max(self._links[self._last], 0)
        return state, self._lengths[state]

    def followers(self, state: int) -> list[tuple[int, int, int]]:
        """Each token that followed a state's sequences, how often it did, and the state after it."""
        return [(token, self._counts[after], after) for token, after in self._transitions[state].items()]

    def resume(self, state: int, length: int) -> tuple[int, int]:
        """A state with followers for a sequence of `length` tokens: itself, or its longest suffix that has some."""
        while state > 0 and not self._transitions[state]:
            state = self._links[state]
        return state, min(length, self._lengths[state])

    def follow(self, state: int, length: int, token: int) -> tuple[int, int]:
        """The longest end of a match of `length` tokens that `token` has followed before, with it; 0 where none has."""
        while state > 0 and token not in self._transitions[state]:
            state = self._links[state]
            length = self._lengths[state]
        after = self._transitions[state].get(token)
        return (0, 0) if after is None else (after, length + 1)

    def _class_of(self, state: int, token: int) -> int:
        """The state of `state`'s longest sequence and `token`: split off where it stood for longer ones as well."""
        shared = self._transitions[state][token]
        if self._lengths[state] + 1 == self._lengths[shared]:
            return shared
        split = self._add(dict(self._transitions[shared]), self._lengths[state] + 1, self._counts[shared])
        self._links[split], self._links[shared] = self._links[shared], split
        while state >= 0 and self._transitions[state].get(token) == shared:
            self._transitions[state][token] = split
            state = self._links[state]
        return split

    def _add(self, transitions: dict[int, int], length: int, count: int) -> int:
        self._transitions.append(transitions)
        self._links.append(-1)
        self._lengths.append(length)
        self._counts.append(count)
        return len(self._links) - 1


@dataclass
class AutomatonState:
    """What one sequence needs: the automaton of its prompt and answer, and its last token."""

    automaton: SuffixAutomaton
    token: int


class SuffixAutomatonDrafter(TrainingFree):
    """Drafts what followed the longest end of the text that was there before, and what followed that, by frequency.

    A token that followed a match of m tokens c of n times has probability c / (n + 1 / m): one occurrence says little
    after one token, and much after ten. A path that reaches the end of the text goes on from where it matches.
    """

    name = "suffix-automaton"

    def begin(
        self,
        prompt: Sequence[int],
        committed: int,
        hidden: Float[Tensor, "row feature"],  # noqa: ARG002 - tokens are all it reads
        embed: Embed,  # noqa: ARG002
    ) -> AutomatonState:
        """The automaton of the text so far."""
        state = AutomatonState(automaton=SuffixAutomaton(), token=committed)
        for token in (*prompt, committed):
            state.automaton.append(token)
        return state

    def update(self, state: AutomatonState, committed: Sequence[int], hidden: Float[Tensor, "row feature"]) -> None:  # noqa: ARG002
        """Add what was committed."""
        for token in committed:
            state.automaton.append(token)
            state.token = token

    def propose(self, state: AutomatonState, budget: DraftBudget) -> DraftTree:
        """The most probable continuations of the longest match; nothing where the last token is new to the text."""
        place = self.root(state)
        if not place[1]:
            return DraftTree.root_only(state.token)

        def followers(place: tuple[int, int]) -> list[tuple[int, float, tuple[int, int]]]:
            return self._followers(state, place, budget.num_draft_tokens)

        return grow_best_first(
            state.token,
            place,
            followers,
            num_draft_tokens=budget.num_draft_tokens,
            max_depth=budget.max_depth,
            chain_only=budget.chain_only,
        )

    def root(self, state: AutomatonState) -> tuple[int, int]:
        """The state of the longest match, and its length; 0 where the last token is new to the text."""
        return state.automaton.longest_match()

    def after(self, state: AutomatonState, place: tuple[int, int], token: int) -> tuple[int, int]:
        """The longest match that ends with `token`."""
        return state.automaton.follow(*place, token)

    def candidates(self, state: AutomatonState, place: tuple[int, int]) -> list[Candidate]:
        """What followed the match; the longer it is, the stronger."""
        if not place[1]:
            return []
        strength = min(place[1].bit_length(), STRONGEST)
        followers = self._followers(state, place, MOST_CANDIDATES)
        return [Candidate(token, probability, strength) for token, probability, _ in followers]

    def _followers(
        self, state: AutomatonState, place: tuple[int, int], most: int
    ) -> list[tuple[int, float, tuple[int, int]]]:
        """Each token that followed the match, its probability, and the match it makes."""
        place_state, matched = state.automaton.resume(*place)
        options = state.automaton.followers(place_state)
        total = sum(map(itemgetter(1), options)) + 1 / max(matched, 1)
        best = heapq.nlargest(most, options, key=itemgetter(1))
        return [(token, count / total, (after, matched + 1)) for token, count, after in best]
