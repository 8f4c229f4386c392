"""Where the prompts of a corpus come from: the chat template they were rendered with, as far as it can be told."""

import warnings
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from phrasedraft.corpus.answers import Answer, Corpus
from phrasedraft.corpus.block_file import read_recipe
from phrasedraft.drafters.head_config import TrainedTemplate
from phrasedraft.target.fingerprint import EncodesChat
from phrasedraft.target.protocol import TargetIdentity

MOST = 0.9
"""The share of prompts from which on a corpus counts as rendered by the target's own template."""


def trained_template(
    target: object, identity: TargetIdentity, corpora: Sequence[Corpus], paths: Sequence[Path]
) -> TrainedTemplate:
    """How the prompts of `corpora` were rendered: as their recipes say, else as the prompts themselves show.

    Warns where that is not how the target's chat template writes them, and where corpora were made with templates that
    differ; in the latter case nothing is recorded, and a served head cannot warn of a template that does not fit it.
    """
    found = {_one(target, identity, corpus, read_recipe(path)) for corpus, path in zip(corpora, paths, strict=True)}
    if len(found) > 1:
        warnings.warn(
            "the corpora were made with different templates, system prompts or switches: the head records none",
            stacklevel=2,
        )
        return TrainedTemplate()
    return found.pop()


def _one(target: object, identity: TargetIdentity, corpus: Corpus, recipe: dict[str, Any] | None) -> TrainedTemplate:
    if recipe is not None:
        settings = recipe["settings"]["template"]
        made = TrainedTemplate(
            fingerprint=recipe["template_fingerprint"],
            system_prompt=settings["system_prompt"],
            thinking=settings["thinking"],
        )
        now = identity.template_fingerprint(made.system_prompt, made.thinking)
        if None not in (now, made.fingerprint) and now != made.fingerprint:
            warnings.warn(
                f"`{corpus.name}` was made with another chat template than `{identity.name}` has now: a head learns "
                "most from prompts as they will be served",
                stacklevel=3,
            )
        return made
    fingerprint = identity.template_fingerprint("", "default")
    if fingerprint is None or not isinstance(target, EncodesChat):
        return TrainedTemplate()
    share = _share_rendered(target, corpus.answers)
    if share >= MOST:
        return TrainedTemplate(fingerprint=fingerprint)
    warnings.warn(
        f"{1 - share:.0%} of the prompts of `{corpus.name}` are not what the chat template of `{identity.name}` "
        "writes: a head learns most from prompts as they will be served",
        stacklevel=3,
    )
    return TrainedTemplate()


def _share_rendered(target: EncodesChat, answers: Sequence[Answer]) -> float:
    """The share of prompts that begin and end as the template renders a user's message."""
    one, other = (target.encode_chat([{"role": "user", "content": content}]) for content in ("alpha", "zero"))
    before = _shared(one, other)
    after = _shared(one[::-1], other[::-1])[::-1]
    fitting = sum(
        list(answer.prompt[: len(before)]) == before and list(answer.prompt[len(answer.prompt) - len(after) :]) == after
        for answer in answers
    )
    return fitting / len(answers)


def _shared(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """What both begin with."""
    return [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))]
