"""What a head is made of, stage by stage: the sections of a recipe."""

from dataclasses import dataclass, field
from typing import Final

from phrasedraft.corpus.distill import DistillSettings
from phrasedraft.drafters.composed_output import OWN, RowSettings
from phrasedraft.errors import OptionError
from phrasedraft.phrases import VocabularySettings
from phrasedraft.training.trainer import TrainingSettings

PHRASE_HEAD: Final = "phrase-head"
TOKEN_CHAIN: Final = "token-chain"
PHRASE_CHAIN: Final = "phrase-chain"
HEAD_KINDS: Final = (PHRASE_HEAD, TOKEN_CHAIN, PHRASE_CHAIN)


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """Which kind of head: `phrase-head`, `token-chain`, which drafts single tokens one after another, `phrase-chain`.

    Chains learn `num_steps` steps of one token and take `num_draft_steps` where they pay, which may be more: their cell
    goes on from any state. A step of a phrase chain drafts whole phrases. `rows` = `composed` makes output rows of the
    target's embeddings, the first `num_own_rows` single tokens have a learnt one beside. `text_window` is how many
    tokens back a head sees the text of prompt and answer, 0 for not at all.
    """

    kind: str = PHRASE_HEAD
    num_steps: int = 4
    num_draft_steps: int = 4
    rows: str = OWN
    num_own_rows: int = 0
    text_window: int = 512

    def __post_init__(self) -> None:
        if self.kind not in HEAD_KINDS:
            raise OptionError(
                f"the kind of head is `{self.kind}`, it may be {', '.join(f'`{kind}`' for kind in HEAD_KINDS)}",
                hint=f"`{PHRASE_HEAD}` is what this library is about, `{TOKEN_CHAIN}` the control for it; "
                f"`{PHRASE_CHAIN}` does both",
            )
        for name in ("num_steps", "num_draft_steps"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` is {getattr(self, name)}, it must be 1 or more", hint="4 is the default")
        if self.text_window < 0:
            raise OptionError(
                f"`text_window` is {self.text_window}, it must be 0 (off) or a number of tokens",
                hint="512 is the default",
            )
        _ = self.row_settings  # refuses what rows may not be

    @property
    def row_settings(self) -> RowSettings:
        """Where output rows come from."""
        return RowSettings(rows=self.rows, num_own_rows=self.num_own_rows)


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    """Which hidden states are kept: layers as in `FeatureSpec`, -1 being what the language-model head reads."""

    layers: tuple[int, ...] = (-1,)


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """How a head is judged.

    `held_out_share` of the answers are neither mined nor trained on; every epoch replays `max_answers` of them at
    `num_draft_tokens[0]` nodes, and the finished head replays all of them at each of these node counts.
    """

    held_out_share: float = 0.05
    max_answers: int = 60
    num_draft_tokens: tuple[int, ...] = (8, 4, 16, 46)

    def __post_init__(self) -> None:
        if not 0 < self.held_out_share < 1:
            raise OptionError(f"`held_out_share` is {self.held_out_share}, it must lie between 0 and 1")
        if not self.num_draft_tokens or min(self.num_draft_tokens) < 1 or self.max_answers < 1:
            raise OptionError(
                f"`num_draft_tokens` is {list(self.num_draft_tokens)} and `max_answers` {self.max_answers}: the first "
                "must be numbers of 1 or more, the second 1 or more"
            )


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What a head is made of, stage by stage."""

    head: HeadSettings = field(default_factory=HeadSettings)
    distill: DistillSettings = field(default_factory=DistillSettings)
    vocabulary: VocabularySettings = field(default_factory=VocabularySettings)
    traces: TraceSettings = field(default_factory=TraceSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    replay: ReplaySettings = field(default_factory=ReplaySettings)
