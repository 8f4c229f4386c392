"""What `phrasedraft bench` is asked for, read before anything is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasedraft.budget import AUTO, NumDraftTokens
from phrasedraft.drafters import Drafter, load_drafter, shipped_heads
from phrasedraft.drafters.loading import TRAINING_FREE
from phrasedraft.errors import OptionError
from phrasedraft.evaluation.prompts import BUNDLED

ALL_SETS = "all"
THE_HEAD = "head"
"""As a drafter's name: the head of `--head`, at more node counts."""
NUM_PROMPTS, NUM_TOKENS = 40, 256
"""Prompts of each set and most tokens of an answer, unless given."""
QUICK_PROMPTS = 2
"""Prompts of each set in a quick run, for sets that have no chosen ones."""


@dataclass(frozen=True, kw_only=True)
class DrafterSpec:
    """A drafter to measure: the name of one without weights or the folder of a head, and its node counts.

    `label` is what tables call it: the name, or the folder's own.
    """

    source: str
    label: str
    node_counts: tuple[NumDraftTokens, ...]

    @property
    def needs_no_head(self) -> bool:
        """Whether it is one of the drafters without weights."""
        return self.source in TRAINING_FREE

    @property
    def learns(self) -> bool:
        """Whether it is another one after every text, so that each method needs one of its own."""
        return self.needs_no_head or "+" in self.source

    @property
    def is_the_head(self) -> bool:
        """Whether it is the head of `--head`."""
        return self.source == THE_HEAD

    @property
    def is_grown_from_the_head(self) -> bool:
        """Whether the head of `--head` is one of several that it is grown from; it is measured like the head then."""
        return "+" in self.source and THE_HEAD in self.source.split("+")

    def load(self, head: str | None) -> Drafter:
        """A new drafter, with the folder of the head of `--head`.

        `OptionError` where there is none of that name and no such folder, or no head.
        """
        parts = [self.source] if Path(self.source).is_dir() else self.source.split("+")
        for part in parts:
            if part not in (*TRAINING_FREE, THE_HEAD, *shipped_heads()) and not (part and Path(part).is_dir()):
                raise OptionError(
                    f"the drafter is `{part}`, it may be {', '.join(f'`{name}`' for name in TRAINING_FREE)}, "
                    f"`{THE_HEAD}` (the one of `--head`), one of the heads that are shipped "
                    f"({', '.join(f'`{name}`' for name in shipped_heads())}), or the folder of a head",
                    hint="node counts of its own go behind it: `suffix-automaton@4,8`; several are joined by `+`",
                )
        if THE_HEAD in parts and head is None:
            raise no_head_to_measure()
        return load_drafter("+".join(str(head) if part == THE_HEAD else part for part in parts))


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is measured, and where it goes; of bundled sets `typical` takes the few prompts that stand for them."""

    prompts: tuple[str, ...]
    limit: int
    typical: bool
    nodes: str
    drafters: tuple[str, ...]
    drafter_limit: int | None
    batch_sizes: str
    max_new_tokens: int
    seed: int
    twice: bool
    most_load: float | None
    paper: bool
    output: Path

    @property
    def node_counts(self) -> tuple[NumDraftTokens, ...]:
        """The node counts asked for."""
        return parse_node_counts("--nodes", self.nodes, "our loop without drafts is always measured too")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The batch sizes asked for."""
        return parse_numbers("--batch-sizes", self.batch_sizes, "1 is one prompt at a time, as a person asks")

    @property
    def sets(self) -> dict[str, int]:
        """The prompt sets, each once, and how many prompts of each."""
        given = [parse_set(text) for text in self.prompts]
        names = [each for name, _ in given for each in (BUNDLED if name == ALL_SETS else (name,))]
        return {name: self.limited.get(name, self.limit) for name in names}

    @property
    def limited(self) -> dict[str, int]:
        """The prompt sets that were given a number of their own."""
        given = [parse_set(text) for text in self.prompts]
        return {
            each: limit
            for name, limit in given
            if limit is not None
            for each in (BUNDLED if name == ALL_SETS else (name,))
        }

    @property
    def specs(self) -> tuple[DrafterSpec, ...]:
        """The drafters beside the head."""
        specs = tuple(parse_spec(text, self.node_counts) for text in self.drafters)
        labels = [spec.label for spec in specs]
        for label in labels:
            if labels.count(label) > 1:
                raise OptionError(
                    f"two drafters are called `{label}`", hint="give one `--drafter` with all its node counts"
                )
        return specs


def no_head_to_measure() -> OptionError:
    """What `head` as a drafter comes to where no head fits the target."""
    return OptionError("there is no head to measure", hint="give `--head FOLDER`")


def parse_set(text: str) -> tuple[str, int | None]:
    """A prompt set, and the number of prompts behind an @, where there is one.

    >>> parse_set("mt_bench@20"), parse_set("mine.jsonl")
    (('mt_bench', 20), ('mine.jsonl', None))
    """
    name, at, own = text.rpartition("@")
    if not at or Path(text).exists():
        return text, None
    if not own.isdecimal() or int(own) < 1:
        raise OptionError(
            f"`--prompts {name}@` is followed by `{own}`, it may be a whole number of 1 or more", hint="`mt_bench@20`"
        )
    return name, int(own)


def parse_spec(text: str, node_counts: Sequence[NumDraftTokens]) -> DrafterSpec:
    """The drafter in `NAME`, `NAME@4,8` or `NAME@auto`; several joined by `+` are one.

    >>> parse_spec("suffix-automaton@4,8", [16]).node_counts, parse_spec("heads/mine", [16]).label
    ((4, 8), 'mine')
    """
    source, at, own = text.rpartition("@")
    if not at:
        source = text
    if not source:
        raise OptionError(f"`--drafter` is `{text}`, a name has to stand before the @", hint="`prompt-lookup@4,8`")
    counts = tuple(node_counts)
    if at:
        counts = parse_node_counts(f"--drafter {source}@", own, "node counts stand behind the @")
    label = "+".join(part if part in TRAINING_FREE else Path(part).name for part in source.split("+"))
    return DrafterSpec(source=source, label=label, node_counts=counts)


def parse_node_counts(option: str, text: str, hint: str) -> tuple[NumDraftTokens, ...]:
    """Node counts as `parse_numbers` has them, with `auto` among them: as many as are worth their time.

    >>> parse_node_counts("--nodes", "4,auto", "")
    (4, 'auto')
    """
    parts = text.split(",")
    numbers = _different_numbers([part for part in parts if part != AUTO])
    if numbers is None or parts.count(AUTO) > 1:
        raise OptionError(
            f"`{option}` is `{text}`, it may be different whole numbers of 1 or more, and `{AUTO}`: `4,8,{AUTO}`",
            hint=hint,
        )
    known = iter(numbers)
    return tuple(AUTO if part == AUTO else next(known) for part in parts)


def parse_numbers(option: str, text: str, hint: str) -> tuple[int, ...]:
    """Different whole numbers of 1 or more, comma-separated.

    >>> parse_numbers("--batch-sizes", "4,8", "")
    (4, 8)
    """
    numbers = _different_numbers(text.split(","))
    if numbers is None:
        raise OptionError(
            f"`{option}` is `{text}`, it may be different whole numbers of 1 or more: `4,8,16`", hint=hint
        )
    return numbers


def _different_numbers(parts: Sequence[str]) -> tuple[int, ...] | None:
    try:
        numbers = tuple(int(part) for part in parts)
    except ValueError:
        return None
    return numbers if min(numbers, default=1) >= 1 and len(set(numbers)) == len(numbers) else None
