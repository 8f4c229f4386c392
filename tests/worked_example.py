"""The example of docs/evaluation.md, small enough to count by hand: two answers and the trees drafted for them."""

from dataclasses import dataclass, field

import torch

from phrasedraft.evaluation.replay import RecordedAnswer
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.target.features import FeatureSpec
from phrasedraft.tree.draft_tree import DraftTree

THE, CAT, DOT, THREE, SAT, END = range(6)
PIECES = TokenPieces.from_bytes({THE: b" the", CAT: b" cat", DOT: b".", THREE: b"3", SAT: b" sat"}, 6)


@dataclass
class TreeDrafter:
    """Proposes the tree written down for each number of committed tokens."""

    trees: dict[int, DraftTree]
    name: str = "trees"
    features: FeatureSpec = field(default_factory=FeatureSpec)

    def begin(self, prompt, committed, hidden, embed):
        return [committed]

    def propose(self, state, budget):
        return self.trees[len(state)]

    def update(self, state, committed, hidden):
        state += committed

    def check(self, target):
        pass

    def place(self, device):
        pass


def embed(tokens):
    return torch.zeros((len(tokens), 1))


def recorded_answer(tokens, max_new_tokens):
    hidden = torch.zeros((len(tokens), 1))
    return RecordedAnswer(prompt=(THE,), tokens=tokens, hidden=hidden, max_new_tokens=max_new_tokens)


STORY = recorded_answer((SAT, DOT, THE, CAT, THREE, THREE, DOT, END), max_new_tokens=50)
STORY_DRAFTER = TreeDrafter(
    {
        # after ` sat`: `. the sat` and `3`; the answer goes on `. the cat`
        1: DraftTree((SAT, DOT, THE, SAT, THREE), (-1, 0, 1, 2, 0), (1.0, 0.8, 0.6, 0.2, 0.1)),
        # after ` cat`: `33` and ` the`; the answer goes on `33.`
        4: DraftTree((CAT, THREE, THREE, THE), (-1, 0, 1, 0), (1.0, 0.5, 0.4, 0.3)),
        # after `.`: the end, and ` the` after it, of which nothing can be said
        7: DraftTree((DOT, END, THE), (-1, 0, 1), (1.0, 0.9, 0.7)),
    }
)

CUT = recorded_answer((THE, CAT, SAT), max_new_tokens=3)
CUT_DRAFTER = TreeDrafter({1: DraftTree((THE, CAT, SAT), (-1, 0, 1), (1.0, 0.6, 0.5))})
