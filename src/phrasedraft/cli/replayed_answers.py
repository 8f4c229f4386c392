"""The answers that `phrasedraft replay` replays: from corpora, or given by the target now; and their traces."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from rich.console import Console
from rich.markup import escape
from torch import Tensor

from phrasedraft.corpus.answers import Answer, Corpus, is_held_out, read_corpora
from phrasedraft.corpus.distill import DistillSettings, distill
from phrasedraft.corpus.prompts import read_prompts
from phrasedraft.corpus.template import TemplateSettings
from phrasedraft.drafters import Drafter, head_of
from phrasedraft.drafters.head_config import TrainedTemplate
from phrasedraft.errors import DataError
from phrasedraft.evaluation.prompts import prompt_path
from phrasedraft.evaluation.replay import RecordedAnswer
from phrasedraft.target import TransformersTarget
from phrasedraft.training.traces import check_traces, collect_traces, read_traces
from phrasedraft.whole_file import make_folder


@dataclass(frozen=True, kw_only=True)
class AnswerSet:
    """Answers of one source; `sha256` is that of the file they come from, `max_new_tokens` the limit they obeyed."""

    name: str
    sha256: str
    max_new_tokens: int
    answers: tuple[Answer, ...]

    @property
    def num_tokens(self) -> int:
        """How many tokens the target wrote."""
        return sum(len(answer.response) for answer in self.answers)


def read_sets(
    paths: Sequence[Path], drafter: Drafter, *, limit: int | None, trained_on: bool, notes: Console
) -> list[AnswerSet]:
    """The first `limit` answers of each corpus; of one a head was trained on only those it did not see."""
    sets = []
    for corpus in read_corpora(paths):
        answers = corpus.answers if trained_on else _unseen(corpus, drafter, notes)
        sets.append(
            AnswerSet(
                name=corpus.name,
                sha256=corpus.sha256,
                max_new_tokens=corpus.max_new_tokens,
                answers=tuple(answers[:limit]),
            )
        )
    return sets


def _unseen(corpus: Corpus, drafter: Drafter, notes: Console) -> Sequence[Answer]:
    """The answers a head was not trained on, as far as its provenance tells; all for a drafter that was not trained."""
    head = head_of(drafter)
    if head is None:
        return corpus.answers
    provenance = head.config.provenance
    data = provenance.get("data", [])
    if corpus.sha256 not in {part.get("sha256") for part in data}:
        if corpus.name in {part.get("name") for part in data}:
            notes.print(
                f"the head was trained on another file called `{escape(corpus.name)}`; all {len(corpus.answers)} "
                "answers of this one are replayed: if it holds the same answers, expect too good figures",
                soft_wrap=True,
            )
        return corpus.answers
    settings = provenance.get("settings", {})
    share = settings.get("replay", settings).get("held_out_share")  # heads from before recipes had no section for it
    seed = settings.get("training", {}).get("seed")
    if share is None or seed is None:
        notes.print(
            f"the head was trained on `{escape(corpus.name)}` and does not say which answers were held out: expect too "
            "good figures",
            soft_wrap=True,
        )
        return corpus.answers
    unseen = [answer for answer in corpus.answers if is_held_out(answer, share, seed)]
    if not unseen:
        raise DataError(
            f"the head was trained on all {len(corpus.answers)} answers of `{corpus.name}`",
            hint="give other answers, or `--trained-on` to replay these nevertheless",
        )
    notes.print(
        f"the head was trained on `{escape(corpus.name)}`: its {len(unseen)} held-out answers of "
        f"{len(corpus.answers)} are replayed",
        soft_wrap=True,
    )
    return unseen


def generate_set(
    source: str,
    drafter: Drafter,
    target: TransformersTarget,
    *,
    limit: int | None,
    max_new_tokens: int,
    work: Path,
    notes: Console,
) -> AnswerSet:
    """The target's answers to the first `limit` prompts of a bundled set or a file, kept in `work`."""
    with prompt_path(source) as path:
        prompts = read_prompts(path)
    prompts = replace(prompts, prompts=prompts.prompts[:limit])
    head = head_of(drafter)
    trained = head.config.template if head is not None else TrainedTemplate()
    template = TemplateSettings(system_prompt=trained.system_prompt, thinking=trained.thinking)
    settings = DistillSettings(max_new_tokens=max_new_tokens, template=template)
    identity = [prompts.sha256, limit, max_new_tokens, template.system_prompt, template.thinking, _target_key(target)]
    folder = work / f"{prompts.name}-{_digest(identity)}"
    make_folder(folder, "work folder")
    corpus = distill(target, prompts, settings, folder / f"{prompts.name}.jsonl", console=notes)
    return AnswerSet(name=corpus.name, sha256=corpus.sha256, max_new_tokens=max_new_tokens, answers=corpus.answers)


def record(
    answers: AnswerSet, drafter: Drafter, target: TransformersTarget, work: Path, notes: Console
) -> list[RecordedAnswer]:
    """The answers with the target's hidden states, which are kept in `work` and checked before they are used.

    For a drafter that reads none the target is not run at all.
    """
    vocab_size = target.identity.vocab_size
    for answer in answers.answers:
        if max(max(answer.prompt), max(answer.response)) >= vocab_size:
            raise DataError(
                f"answer `{answer.id}` of `{answers.name}` holds token ids that target `{target.identity.name}` does "
                f"not have (it has {vocab_size})",
                hint="give answers of the target itself",
            )
    if not drafter.features.layers:
        return [
            _recorded(answer, torch.zeros((len(answer.response), 0)), answers, target) for answer in answers.answers
        ]
    identity = [answers.sha256, [answer.id for answer in answers.answers], drafter.features.layers, _target_key(target)]
    folder = work / f"{answers.name}-{_digest(identity)}"
    collect_traces(target, answers.answers, drafter.features, folder, console=notes)
    traces = read_traces(folder, answers.answers, drafter.features.layers)
    try:
        check_traces(target, traces, drafter.features)
    except DataError as error:
        raise DataError(str(error), hint=f"delete `{folder}`, or give another `--work`") from error
    return [_recorded(trace.answer, trace.hidden, answers, target) for trace in traces]


def _recorded(
    answer: Answer, hidden: Float[Tensor, "row feature"], answers: AnswerSet, target: TransformersTarget
) -> RecordedAnswer:
    return RecordedAnswer(
        prompt=answer.prompt,
        tokens=answer.response,
        hidden=hidden,
        max_new_tokens=_room(answer, answers.max_new_tokens, target.context_limit),
    )


def _room(answer: Answer, max_new_tokens: int, context_limit: int | None) -> int:
    """How many tokens the answer could have had: the loop drafts up to there, and the context may end before."""
    if context_limit is None:
        return max_new_tokens
    return min(max_new_tokens, max(context_limit - len(answer.prompt), len(answer.response)))


def _target_key(target: TransformersTarget) -> list[str | int | None]:
    identity = target.identity
    fingerprint = identity.tokenizer_fingerprint(identity.vocab_size)
    return [identity.name, identity.hidden_size, identity.vocab_size, fingerprint, str(target.model.dtype)]


def _digest(identity: object) -> str:
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
