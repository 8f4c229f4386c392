"""Checks before a head is trained: are the answers the target's own, and are the traces what a served head will read?

The field's most common failure is a good loss that serves nothing. Its causes are found here, in a second, by running
a few answers through the very passes that serving makes.
"""

import warnings
from collections.abc import Sequence

import torch

from phrasedraft.errors import DataError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import Target, TargetIdentity
from phrasedraft.training.traces import MAX_DIFFERENCE, Trace
from phrasedraft.tree.draft_tree import DraftTree

NUM_CHECKED = 3
MAX_CHECKED_TOKENS = 24
MIN_OWN_SHARE = 0.25
"""Fewer tokens than this share are what the target itself would say: the answers are somebody else's."""
GREEDY_SHARE = 0.9


def check_phrases(vocabulary: PhraseVocabulary, identity: TargetIdentity) -> None:
    """Refuse phrases of tokens the target does not have."""
    highest = int(vocabulary.phrase_tokens.max(initial=0))
    if highest >= identity.vocab_size:
        raise DataError(
            f"the phrases hold token `{highest}`, target `{identity.name}` has tokens 0 to {identity.vocab_size - 1}",
            hint="these are phrases of another target; mine them from this one's answers",
        )


@torch.inference_mode()
def check_served(target: Target, traces: Sequence[Trace], features: FeatureSpec) -> float:
    """The share of a few answers' tokens that are the target's own first choice, in the passes that serving makes.

    `DataError` where the answers are another's (or shifted), or where the traces hold other states than a served head
    reads (another layer, a missing final norm, another precision). Warns where answers are off the target's greedy
    path, as sampled ones are, and where they do not begin as the target begins after their prompts.
    """
    step = max(len(traces) // NUM_CHECKED, 1)
    own: list[list[bool]] = []
    for trace in traces[::step][:NUM_CHECKED]:
        tokens = trace.tokens[:MAX_CHECKED_TOKENS]
        sequence = target.start(features)
        first = sequence.prefill(trace.answer.prompt)
        rows, logits = [first.hidden[-1:]], [first.logits[-1:]]
        for token in tokens[:-1]:
            result = sequence.verify(DraftTree.root_only(token))
            sequence.keep([0])
            rows.append(result.hidden)
            logits.append(result.logits)
        _compare(trace, torch.cat(rows))
        own.append((torch.cat(logits).argmax(-1).cpu() == torch.tensor(tokens)).tolist())
    return _judge(own)


def _judge(own: Sequence[Sequence[bool]]) -> float:
    """The share of tokens that are the target's own, once that has been complained about where it has to be."""
    share = sum(map(sum, own)) / sum(map(len, own))
    if share < MIN_OWN_SHARE:
        raise DataError(
            f"{share:.0%} of the tokens are what the target itself would say: the answers are not its own",
            hint="generate them with `phrasedraft distill`; answers of another model, another template or ids that are "
            "shifted against the text teach a head to be wrong",
        )
    if share < GREEDY_SHARE:
        warnings.warn(
            f"{share:.0%} of the tokens are the target's first choice: sampled answers, or those of another precision "
            "or template; a head for greedy decoding learns most from greedy answers",
            stacklevel=3,
        )
    if len(own) > 1 and not any(answer[0] for answer in own):
        warnings.warn(
            f"none of {len(own)} answers begins with the target's first choice: a token may be lost or doubled between "
            "prompt and answer, or the prompts lack what the chat template writes before an answer",
            stacklevel=3,
        )
    return share


def _compare(trace: Trace, served: torch.Tensor) -> None:
    kept = trace.hidden[: len(served)].float()
    found = served.float().cpu()
    if kept.shape != found.shape:
        raise DataError(
            f"the trace of `{trace.answer.id}` has rows of {kept.shape[-1]}, a served head reads {found.shape[-1]}",
            hint="collect the traces of the layers the head reads",
        )
    difference = float((kept - found).norm() / found.norm().clamp(min=1e-6))
    if not difference <= MAX_DIFFERENCE:
        raise DataError(
            f"the trace of `{trace.answer.id}` is not what a served head reads: its rows differ by {difference:.0%}",
            hint="another layer, a missing final norm, or traces of another target; collect them again",
        )
