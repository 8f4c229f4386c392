"""What a run would take, before it is made: answers, disk, memory and a guess of the time."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from phrasedraft.corpus.answers import read_corpora
from phrasedraft.corpus.prompts import read_prompts
from phrasedraft.drafters.composed_output import COMPOSED, MOST_PLACES, make_output
from phrasedraft.drafters.text_reader import make_reader
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.model import TransformersTarget
from phrasedraft.training.fit_settings import PHRASE_HEAD, TOKEN_CHAIN, FitSettings
from phrasedraft.training.kinds import kind_of
from phrasedraft.training.recipe import Recipe

PROBE_TOKENS = 512
"""Length of the text whose pass is timed."""
STEP_COPIES = 8
"""Weights, gradients (twice: the loss has its own), two moments, what a step makes of them, running mean, best."""
BATCH_COPIES = 4
"""Scores, probabilities and what becomes of them on the way back."""
NUMBERS_A_PLACE = 64
"""What a row that sees a place of its text keeps for the way back: its distance, and scores and shares of each head."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a recipe comes to; `num_tokens` is an upper bound where answers are still to be generated."""

    num_answers: int
    num_tokens: int
    trace_bytes: int
    trace_seconds: float
    head_parameters: int
    training_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Every figure, ready for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people."""
        return [
            f"answers   {self.num_answers:,} with up to {self.num_tokens:,} tokens",
            f"traces    {self.trace_bytes / 1e6:,.0f} MB on disk, about {self.trace_seconds / 60:,.0f} minutes",
            f"head      {self.head_parameters:,} parameters",
            f"training  about {self.training_bytes / 1e6:,.0f} MB of memory beside the target",
        ]


def estimate(target: TransformersTarget, recipe: Recipe) -> Estimate:
    """What `recipe` comes to on this machine; a pass of the target is timed."""
    settings = recipe.settings
    answers = [answer for corpus in read_corpora([Path(path) for path in recipe.corpora]) for answer in corpus.answers]
    num_questions = sum(read_prompts(Path(path)).num_answers for path in recipe.prompts) + recipe.num_self_prompts
    num_tokens = sum(len(answer.response) for answer in answers) + num_questions * settings.distill.max_new_tokens
    num_read = sum(answer.num_tokens for answer in answers) + num_questions * 2 * settings.distill.max_new_tokens
    features = FeatureSpec(layers=settings.traces.layers)
    tokens = torch.arange(PROBE_TOKENS)[None] % target.identity.vocab_size
    start = time.perf_counter()
    width = target.hidden_rows(tokens, torch.ones_like(tokens), features).shape[-1]
    seconds = time.perf_counter() - start
    with torch.device("meta"):
        scorer = kind_of(settings).scorer_class(
            feature_size=width,
            hidden_size=target.identity.hidden_size,
            num_phrases=settings.vocabulary.num_phrases,
            trunk_width=settings.training.trunk_width,
            output=make_output(
                settings.head.row_settings,
                _as_many_entries(settings),
                hidden_size=target.identity.hidden_size,
                trunk_width=settings.training.trunk_width,
            ),
            reader=make_reader(settings.head.text_window, target.identity.hidden_size, settings.training.trunk_width),
        )
    parameters = sum(parameter.numel() for parameter in scorer.parameters())
    num_rows, num_sampled = settings.training.batch_size, settings.training.loss.num_sampled
    num_scores = settings.vocabulary.num_phrases
    if num_sampled:
        num_scores = min(
            num_scores, num_sampled + num_rows
        )  # beside the sample, what some row of the batch goes on with
    batch = num_rows * (width + num_scores) * 4
    rows = settings.vocabulary.num_phrases * settings.training.trunk_width
    extra = rows * (settings.head.num_steps if settings.head.kind != PHRASE_HEAD else 0)  # a gradient a step
    if settings.head.rows == COMPOSED:  # the rows themselves, their gradient, and the embeddings they are made of
        extra += 2 * rows + settings.vocabulary.num_phrases * target.identity.hidden_size
    if settings.head.text_window:
        seen = min(settings.head.text_window, max((answer.num_tokens for answer in answers), default=PROBE_TOKENS))
        steps = settings.head.num_steps if settings.head.kind != PHRASE_HEAD else 1
        extra += num_rows * seen * steps * NUMBERS_A_PLACE
    return Estimate(
        num_answers=len(answers) + num_questions,
        num_tokens=num_tokens,
        trace_bytes=num_tokens * (2 * width + 4),
        trace_seconds=seconds / PROBE_TOKENS * num_read,
        head_parameters=parameters,
        training_bytes=STEP_COPIES * 4 * parameters + BATCH_COPIES * batch + 4 * extra,
    )


def _as_many_entries(settings: FitSettings) -> PhraseVocabulary:
    """Stands in for a vocabulary that is still to be mined: as many entries, of all lengths that the head may have."""
    number = settings.vocabulary.num_phrases
    longer = [] if settings.head.kind == TOKEN_CHAIN else [tuple(range(length)) for length in range(2, MOST_PLACES + 1)]
    return PhraseVocabulary.from_phrases([*longer[:number], *((token,) for token in range(number - len(longer)))])
