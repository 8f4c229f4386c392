"""Untrained token chains for the synthetic target."""

import torch

from phrasedraft.drafters import TokenChain
from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from synthetic import HIDDEN, VOCAB, SyntheticTarget

TOKENS = (5, 9, 30, 31, 60)
STEPS = 3


def make_chain(tokens=TOKENS, *, seed=0, num_steps=STEPS, temperature=1.0, spread=2.0):
    """An untrained chain for the synthetic target; `spread` makes some tokens more likely than others."""
    torch.manual_seed(seed)
    scorer = ChainScorer(feature_size=HIDDEN, hidden_size=HIDDEN, num_phrases=len(tokens), trunk_width=32)
    with torch.no_grad():
        scorer.output.weight.mul_(spread)
    config = HeadConfig(
        target_name="synthetic",
        target_hidden_size=HIDDEN,
        target_vocab_size=VOCAB,
        tokenizer_fingerprint=f"entries-{VOCAB}",
        trunk_width=32,
        temperature=temperature,
        kind="token_chain",
        num_steps=num_steps,
    )
    return TokenChain(
        scorer=scorer, vocabulary=PhraseVocabulary.from_phrases([(token,) for token in tokens]), config=config
    )


def state_of(chain, *, hidden=None, token=4):
    rows = torch.randn((3, HIDDEN), generator=torch.Generator().manual_seed(1)) if hidden is None else hidden
    return chain.begin([1, 3], token, rows, SyntheticTarget().embed)


def draft(chain, nodes, *, depth=8, chain_only=False, **state):
    budget = DraftBudget(num_draft_tokens=nodes, max_depth=depth, chain_only=chain_only)
    return chain.propose(state_of(chain, **state), budget)
