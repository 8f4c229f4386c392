"""The kinds of heads that can be trained, by the name a recipe calls them."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from phrasedraft.drafters.chain_scorer import ChainScorer
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.phrases import PhraseVocabulary, VocabularySettings
from phrasedraft.training.chain_learner import ChainLearner, frequent_tokens, single_tokens
from phrasedraft.training.fit_settings import PHRASE_CHAIN, PHRASE_HEAD, TOKEN_CHAIN, FitSettings, HeadSettings
from phrasedraft.training.fit_target import FitTarget
from phrasedraft.training.learner import Learner
from phrasedraft.training.phrase_chain_learner import PhraseChainLearner
from phrasedraft.training.phrase_learner import PhraseLearner, mine_answers
from phrasedraft.training.traces import Trace


@dataclass(frozen=True, kw_only=True)
class HeadKind:
    """Where a kind of head takes its entries from, what holds its weights, and how it learns.

    `mine` finds the entries in the answers trained on, `choose` takes them from phrases that are given.
    """

    scorer_class: type[PhraseScorer]
    mine: Callable[[FitTarget, Sequence[Trace], VocabularySettings, Console], PhraseVocabulary]
    choose: Callable[[PhraseVocabulary, Console], PhraseVocabulary]
    learner: Callable[[PhraseVocabulary, FitSettings], Learner]


KINDS = {
    PHRASE_HEAD: HeadKind(
        scorer_class=PhraseScorer,
        mine=mine_answers,
        choose=lambda vocabulary, _: vocabulary,
        learner=lambda vocabulary, settings: PhraseLearner(
            vocabulary, settings.training.loss, settings.head.row_settings, settings.head.text_window
        ),
    ),
    TOKEN_CHAIN: HeadKind(
        scorer_class=ChainScorer,
        mine=frequent_tokens,
        choose=single_tokens,
        learner=lambda vocabulary, settings: ChainLearner(
            vocabulary,
            settings.training.loss,
            settings.head.num_steps,
            settings.head.num_draft_steps,
            settings.head.row_settings,
            settings.head.text_window,
        ),
    ),
    PHRASE_CHAIN: HeadKind(
        scorer_class=ChainScorer,
        mine=mine_answers,
        choose=lambda vocabulary, _: vocabulary,
        learner=lambda vocabulary, settings: PhraseChainLearner(
            vocabulary,
            settings.training.loss,
            settings.head.num_steps,
            settings.head.num_draft_steps,
            settings.head.row_settings,
            settings.head.text_window,
        ),
    ),
}

STEPS = ("num_steps", "num_draft_steps")
"""Settings that only chains have."""


def kind_of(settings: FitSettings) -> HeadKind:
    """The kind of head the settings ask for; warns of settings that have no effect on it."""
    default = HeadSettings()
    changed = [name for name in STEPS if getattr(settings.head, name) != getattr(default, name)]
    if settings.head.kind == PHRASE_HEAD and changed:
        names = ", ".join(f"`head.{name}`" for name in changed)
        warnings.warn(f"{names} has no effect on a phrase head, which has one step", stacklevel=2)
    if settings.head.kind == TOKEN_CHAIN:
        plain = replace(VocabularySettings(), num_phrases=settings.vocabulary.num_phrases)
        ignored = [name for name, value in vars(plain).items() if getattr(settings.vocabulary, name) != value]
        if ignored:
            names = ", ".join(f"`vocabulary.{name}`" for name in ignored)
            warnings.warn(f"{names} has no effect on a token chain, whose entries are single tokens", stacklevel=2)
    return KINDS[settings.head.kind]
