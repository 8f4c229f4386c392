"""Untrained chains for the synthetic target."""

from dataclasses import replace

import torch

from phrasedraft.drafters import PhraseChain, TokenChain
from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from synthetic import HIDDEN, SyntheticTarget, head_config

TOKENS = (5, 9, 30, 31, 60)
STEPS = 3


def make_chain(tokens=TOKENS, *, seed=0, num_steps=STEPS, temperature=1.0, spread=2.0):
    """An untrained token chain for the synthetic target; `spread` makes some tokens more likely than others."""
    return untrained(TokenChain, [(token,) for token in tokens], seed, num_steps, temperature, spread)


def make_phrase_chain(phrases, *, seed=0, num_steps=STEPS, temperature=1.0, spread=2.0):
    """The same for a phrase chain."""
    return untrained(PhraseChain, phrases, seed, num_steps, temperature, spread)


def untrained(kind, phrases, seed, num_steps, temperature, spread):
    torch.manual_seed(seed)
    scorer = ChainScorer(feature_size=HIDDEN, hidden_size=HIDDEN, num_phrases=len(phrases), trunk_width=32)
    with torch.no_grad():
        scorer.output.weight.mul_(spread)
    config = replace(head_config(temperature=temperature), kind=kind.kind, num_steps=num_steps)
    return kind(scorer=scorer, vocabulary=PhraseVocabulary.from_phrases(phrases), config=config)


def state_of(chain, *, hidden=None, token=4):
    rows = torch.randn((3, HIDDEN), generator=torch.Generator().manual_seed(1)) if hidden is None else hidden
    return chain.begin([1, 3], token, rows, SyntheticTarget().embed)


def draft(chain, nodes, *, depth=8, chain_only=False, **state):
    budget = DraftBudget(num_draft_tokens=nodes, max_depth=depth, chain_only=chain_only)
    return chain.propose(state_of(chain, **state), budget)
