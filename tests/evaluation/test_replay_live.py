"""Replay and live decoding agree to the token: the same passes, the same trees, the same accepted tokens."""

import pytest
import torch

from kit import plain, target_of
from live_replay import check_replay_is_live
from phrasedraft import Stopping
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.phrases.vocabulary import PhraseVocabulary

PROMPTS = ([5, 9, 17], [3, 3, 8, 21, 4], [40])
LIMIT = 48


def head_for(target, answers, layers):
    """An untrained head whose phrases come from the answers, so that some drafts land and others do not."""
    phrases = {tuple(a[i : i + n]) for a in answers for i in range(0, len(a), 2) for n in (1, 2, 4)}
    vocabulary = PhraseVocabulary.from_phrases(sorted(phrases))
    hidden = target.identity.hidden_size
    torch.manual_seed(0)
    scorer = PhraseScorer(
        feature_size=hidden * len(layers), hidden_size=hidden, num_phrases=len(vocabulary), trunk_width=32
    )
    config = HeadConfig(
        target_name="tiny",
        target_hidden_size=hidden,
        target_vocab_size=target.identity.vocab_size,
        target_layers=layers,
        trunk_width=32,
    )
    return PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config)


@pytest.mark.parametrize("layers", [(-1,), (1, -1)])
@pytest.mark.parametrize("num_draft_tokens", [1, 6, 40])
def test_replay_counts_what_the_decoding_loop_counts(num_draft_tokens, layers):
    target = target_of("llama")
    stopping = Stopping(max_new_tokens=LIMIT)
    answers = [plain(target, stopping=stopping, prompt=prompt).tokens for prompt in PROMPTS]
    head = head_for(target, answers, layers)
    landed = check_replay_is_live(target, head, PROMPTS, answers, num_draft_tokens=num_draft_tokens, limit=LIMIT)
    assert landed > 0
