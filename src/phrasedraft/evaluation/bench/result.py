"""What a benchmark writes down: a result for every answer, and where the results come from."""

from dataclasses import asdict, dataclass, field
from typing import Any

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.evaluation.statistics import Timing

GENERATE = "generate()"
LOOKUP = "generate() with prompt lookup"
PLAIN = "plain loop"
BASELINES = (GENERATE, LOOKUP, PLAIN)
"""Methods that are always measured; speed-ups are over the first and the last."""


CHOSEN_NODES = "@auto"
"""How a method's name ends whose nodes are chosen pass by pass; its `num_draft_tokens` is the most there may be."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one method made of one turn of one prompt; one row of `results.parquet`.

    `answer_id` is the prompt's own id at its first turn, then `id#2`, `id#3`, ... Rows of one `group` were answered in
    one call: a batch, or at batch size 1 the turns of one prompt. `seconds` is the row's equal share of the wall clock
    of its call, prompt included, `first_token_seconds` how long the first token was waited for, None where the method
    cannot say. `pass_lengths` holds for each pass of the target the drafted tokens it accepted plus its own one, the
    reading of the prompt left out (it gives the first token); it is empty, and `stats` None, for methods that are not
    our own loop.

    `drafter` is what drafts ("" where nothing does) with at most `num_draft_tokens` nodes a pass. `categories` counts
    accepted tokens by the kind of phrase they came in. `rank` is the method's place in the order drawn for this turn,
    `started_at` in seconds since 1970. `other_load` is the number of cores other programs kept busy meanwhile,
    `peak_bytes` the most memory the process held, `energy_joules` what the machine's counters rose by; None where the
    system does not say.
    """

    prompt_set: str
    answer_id: str
    turn: int
    group: str
    method: str
    drafter: str
    num_draft_tokens: int
    dtype: str
    batch_size: int
    num_prompt_tokens: int
    tokens: list[int]
    sha256: str
    finish_reason: str
    seconds: float
    first_token_seconds: float | None
    pass_lengths: list[int]
    categories: dict[str, int]
    stats: dict[str, Any] | None
    rank: int
    started_at: float
    load_average: float
    other_load: float | None
    peak_bytes: int | None
    energy_joules: float | None

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What makes it one of its kind: set, answer, method, dtype and batch size."""
        return self.prompt_set, self.answer_id, self.method, self.dtype, self.batch_size

    @property
    def timing(self) -> Timing:
        """What speed-ups are made of."""
        return Timing(seconds=self.seconds, num_tokens=len(self.tokens))

    @property
    def counts(self) -> DecodingStats | None:
        """The counts and seconds of our own loop."""
        return None if self.stats is None else DecodingStats.from_dict(self.stats)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A text that is not the one of `generate()` under the same dtype and batch size.

    `position` counts from the first token of the answer; None where only the reason to stop differs. `top_two_gap` is
    the difference of the target's two largest logits there, teacher-forced; None where the answers follow different
    earlier turns, so that there is no one text to force.
    """

    prompt_set: str
    answer_id: str
    method: str
    dtype: str
    batch_size: int
    position: int | None
    top_two_gap: float | None


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where results come from; all of it is JSON, and lies in the metadata of `results.parquet`.

    `settings` are the run's options, `machine` hardware, system and versions. `drafters` has for each drafter its
    `parameters` (0 for those without weights), its `target_share` (parameters over the target's) and its `source`.
    `costs` has for each dtype the times of passes by number of draft tokens, as `PassCost.as_dict` gives them.
    `fertility` has a line for each text: `text`, `words`, `tokens`, `tokens_per_word`, and where a head was replayed
    there `tokens_per_pass`.
    """

    command: str
    started: str
    finished: str
    target: str
    target_parameters: int
    settings: dict[str, Any]
    machine: dict[str, Any]
    drafters: dict[str, dict[str, Any]]
    warm_up_seconds: float
    costs: dict[str, dict[str, Any]] = field(default_factory=dict)
    fertility: list[dict[str, Any]] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> "Provenance":
        """What `as_dict` gave."""
        return cls(**{**line, "differences": [Difference(**each) for each in line["differences"]]})
