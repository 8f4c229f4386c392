"""The methods of a benchmark: baselines, the head, and whatever else drafts."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from phrasedraft.budget import AUTO, NumDraftTokens
from phrasedraft.cli.bench_options import THE_HEAD, BenchOptions, DrafterSpec, no_head_to_measure
from phrasedraft.cli.loading import Loaded
from phrasedraft.decoding import Decoder
from phrasedraft.drafters import head_of
from phrasedraft.drafters.protocol import Drafter
from phrasedraft.errors import OptionError
from phrasedraft.evaluation.bench.result import CHOSEN_NODES
from phrasedraft.evaluation.bench.run import Entrant
from phrasedraft.evaluation.methods import BatchedGenerate, Drafting, PlainLoop, TransformersLookup

AGAIN = "plain loop, again"


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A drafter under the name that tables use, with the node counts it is measured at."""

    label: str
    spec: DrafterSpec | None
    drafter: Drafter
    node_counts: tuple[NumDraftTokens, ...]
    head_folder: str | None = None

    def fresh(self) -> Drafter:
        """For each method one of its own where it learns as it goes, so that no method learns from another."""
        return self.spec.load(self.head_folder) if self.spec is not None and self.spec.learns else self.drafter

    def digest(self) -> str:
        """Tells this drafter from others of its name: a hash of its weights, empty where there are none."""
        head = head_of(self.drafter)
        return weights_digest(head.scorer) if head is not None else ""

    @property
    def is_main(self) -> bool:
        """Whether it is what the benchmark is about: the head at the node counts asked for, or grown from it."""
        return self.spec is None or self.spec.is_grown_from_the_head

    @property
    def num_parameters(self) -> int:
        """How many weights it has; 0 where it has none."""
        return int(getattr(self.drafter, "num_parameters", 0))

    @property
    def source(self) -> str:
        """Where it comes from."""
        return self.spec.source if self.spec is not None else THE_HEAD


def rivals_of(loaded: Loaded, options: BenchOptions, drafters: Mapping[str, Drafter]) -> list[Rival]:
    """The head first, then the drafters asked for, which `drafters` holds by label."""
    rivals = []
    if loaded.head is not None:
        rivals.append(Rival(label=loaded.head.name, spec=None, drafter=loaded.head, node_counts=options.node_counts))
    for spec in options.specs:
        drafter = loaded.head if spec.is_the_head else drafters[spec.label]
        if drafter is None:
            raise no_head_to_measure()
        label = drafter.name if spec.is_the_head else spec.label
        rivals.append(
            Rival(
                label=label,
                spec=spec,
                drafter=drafter,
                node_counts=spec.node_counts,
                head_folder=loaded.head_folder,
            )
        )
    return rivals


def entrants_of(loaded: Loaded, rivals: Sequence[Rival], options: BenchOptions) -> list[Entrant]:
    """Every method of one target.

    Those beside the baselines, the head and what is grown from it answer `drafter_limit` prompts a set.
    """
    target = loaded.target
    entrants = [
        Entrant(method=BatchedGenerate(target)),
        Entrant(method=TransformersLookup(target)),
        Entrant(method=PlainLoop(loaded.plain_decoder())),
    ]
    if options.twice:
        entrants.append(Entrant(method=PlainLoop(loaded.plain_decoder(), AGAIN), limit=options.drafter_limit))
    for rival in rivals:
        for nodes in rival.node_counts:
            decoder = Decoder(target, rival.fresh(), num_draft_tokens=nodes)
            name = f"{rival.label}{CHOSEN_NODES}" if nodes == AUTO else f"{rival.label}, {nodes} nodes"
            method = Drafting(decoder, name, drafter=rival.label)
            entrants.append(Entrant(method=method, limit=None if rival.is_main else options.drafter_limit))
    names = [entrant.method.name for entrant in entrants]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(
                f"two methods are called `{name}`", hint="ask for each drafter and node count once, or rename a folder"
            )
    return entrants


def weights_digest(scorer: torch.nn.Module) -> str:
    """Tells one head's weights from another's."""
    digest = hashlib.sha256()
    for tensor in scorer.state_dict().values():
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
