"""A target small enough to read: its hidden state is a fixed code of the last two tokens."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from phrasedraft.corpus.answers import Answer
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.evaluation.replay import RecordedAnswer
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.training.rows import StoredRows
from phrasedraft.training.traces import Trace

HIDDEN = 16
VOCAB = 64
EOS = 2


class SyntheticTarget:
    """Gives hidden states and embeddings without a model; `num_passes` counts what it was asked."""

    def __init__(self, *, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn((VOCAB, HIDDEN), generator=generator)
        self.turn = torch.randn((HIDDEN, HIDDEN), generator=generator) / HIDDEN**0.5
        self.device = torch.device("cpu")
        self.eos_token_ids = frozenset({EOS})
        self.num_passes = 0
        self.identity = TargetIdentity(
            name="synthetic", hidden_size=HIDDEN, vocab_size=VOCAB, tokenizer_fingerprint=lambda size: f"entries-{size}"
        )

    def embed(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]

    def hidden_rows(self, input_ids: Tensor, attention_mask: Tensor, features: FeatureSpec) -> Tensor:
        self.num_passes += 1
        codes = self.table[input_ids] * attention_mask[..., None]
        before = torch.cat([torch.zeros_like(codes[:, :1]), codes[:, :-1]], dim=1)
        return codes + before @ self.turn

    def trace(self, answer: Answer) -> Trace:
        """What `collect_traces` and `read_traces` come to for one answer."""
        text = torch.tensor([[*answer.prompt, *answer.response]])
        rows = self.hidden_rows(text, torch.ones_like(text), FeatureSpec())[0]
        first = len(answer.prompt) - 1
        return Trace(answer=answer, source=StoredRows((rows[first : first + len(answer.response)].half(),)))


def answer_of(response: Sequence[int], *, name: str = "a", prompt: Sequence[int] = (1, 3)) -> Answer:
    return Answer(id=name, prompt=tuple(prompt), response=tuple(response))


def recorded(trace: Trace, *, max_new_tokens: int | None = None) -> RecordedAnswer:
    return RecordedAnswer(
        prompt=trace.answer.prompt,
        tokens=trace.tokens,
        hidden=trace.hidden.float(),
        max_new_tokens=max_new_tokens or len(trace.tokens),
    )


def make_head(phrases: Sequence[Sequence[int]], *, seed: int = 0, temperature: float = 1.0) -> PhraseHead:
    """An untrained head for the synthetic target."""
    torch.manual_seed(seed)
    vocabulary = PhraseVocabulary.from_phrases(phrases)
    scorer = PhraseScorer(feature_size=HIDDEN, hidden_size=HIDDEN, num_phrases=len(vocabulary), trunk_width=32)
    return PhraseHead(scorer=scorer, vocabulary=vocabulary, config=head_config(temperature=temperature))


def head_config(*, temperature: float = 1.0) -> HeadConfig:
    return HeadConfig(
        target_name="synthetic",
        target_hidden_size=HIDDEN,
        target_vocab_size=VOCAB,
        tokenizer_fingerprint=f"entries-{VOCAB}",
        trunk_width=32,
        temperature=temperature,
    )


def write_corpus(path: Path, answers: Sequence[Answer]) -> Path:
    """One JSON object a line, as `phrasedraft corpus` writes it."""
    import json

    lines = [json.dumps({"id": a.id, "prompt": list(a.prompt), "response": list(a.response)}) for a in answers]
    path.write_text("\n".join(lines) + "\n")
    return path
