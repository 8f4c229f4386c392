"""Labels and hidden states belong together: what a head learns by heart it drafts, in replay and when decoding."""

from dataclasses import replace

import pytest

from kit import plain, target_of
from phrasedraft import Decoder, Stopping
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import make_examples
from phrasedraft.training.traces import collect_traces, read_traces
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import answer_of, head_config

PROMPT = (40,)
STOPPING = Stopping(max_new_tokens=48)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A tiny target, its one answer as examples, and the phrases of that answer."""
    target = target_of("qwen2")
    tokens = plain(target, stopping=STOPPING, prompt=PROMPT).tokens
    assert len(set(tokens)) > 20
    folder = tmp_path_factory.mktemp("traces")
    answers = [answer_of(tokens, prompt=PROMPT)]
    collect_traces(target, answers, FeatureSpec(), folder)
    phrases = {tuple(tokens[start : start + size]) for start in range(1, 48) for size in (1, 2, 3)}
    vocabulary = PhraseVocabulary.from_phrases(sorted(phrases))
    return target, make_examples(read_traces(folder, answers), vocabulary, target.eos_token_ids), vocabulary


def decoded(target, examples, vocabulary):
    """Tokens per pass of live decoding with a head that saw the answer over and over."""
    embedding = EmbeddingTable.of(examples.tokens, target.embed)
    settings = TrainingSettings(num_epochs=120, batch_size=47, trunk_width=32, learning_rate=1e-2, average=0.0)
    trainer = Trainer(examples, embedding, vocabulary, replace(settings, dropout=0.0, input_noise=0.0))
    for epoch in range(120):
        list(trainer.run_epoch(epoch))
    identity = target.identity
    config = replace(
        head_config(),
        target_hidden_size=identity.hidden_size,
        target_vocab_size=identity.vocab_size,
        tokenizer_fingerprint=None,
    )
    head = PhraseHead(scorer=trainer.trained(), vocabulary=vocabulary, config=config)
    generation = Decoder(target, head, num_draft_tokens=3).generate(PROMPT, stopping=STOPPING)
    assert list(generation.tokens) == list(plain(target, stopping=STOPPING, prompt=PROMPT).tokens)
    return generation.stats.mean_acceptance_length


def test_an_answer_learnt_by_heart_is_drafted_almost_whole(learnt):
    target, examples, vocabulary = learnt
    assert decoded(target, examples, vocabulary) > 3.6  # 4 is the most: three drafted tokens and the bonus token


@pytest.mark.parametrize("by", [-1, 1])
def test_labels_shifted_by_one_are_not_drafted_into_anything(learnt, by):
    target, examples, vocabulary = learnt
    shifted = replace(examples, longest=examples.longest.roll(by))
    assert decoded(target, shifted, vocabulary) < 1.5
