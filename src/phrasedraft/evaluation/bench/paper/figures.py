"""What the phrase paper reports, as its abstract and an article on it quote it: `figures.toml`, read once."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """One published figure: its value as `printed` in `wording`, which is quoted from `source`.

    Shares are of 1, times milliseconds, speed-ups ratios. `high` is the upper end where a range is printed, whose
    lower end `value` then is.
    """

    value: float
    high: float | None
    printed: str
    wording: str
    source: str

    def __str__(self) -> str:
        """As printed."""
        return self.printed


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper: what it is about, where it measured, and its figures by name."""

    title: str
    name: str
    target: str
    hardware: str
    batch_size: int
    num_positions: int
    setting: str
    figures: dict[str, PaperFigure]

    def __getitem__(self, name: str) -> PaperFigure:
        """The figure of that name."""
        return self.figures[name]

    def value(self, name: str) -> float:
        """The value of the figure of that name."""
        return self.figures[name].value


@cache
def phrase_paper() -> Paper:
    """The paper this library began with, "Phrase-Level Speculative Decoding on a Frozen Target"."""
    text = files("phrasedraft.evaluation.bench.paper").joinpath("figures.toml").read_text(encoding="utf-8")
    content = tomllib.loads(text)
    figures = {
        name: PaperFigure(
            value=float(line["value"]),
            high=line.get("high"),
            printed=line["printed"],
            wording=line["wording"],
            source=content["sources"][line["source"]],
        )
        for name, line in content["figures"].items()
    }
    return Paper(
        title=content["title"],
        name=content["paper"],
        target=content["target"],
        hardware=content["hardware"],
        batch_size=content["batch_size"],
        num_positions=content["num_positions"],
        setting=content["setting"],
        figures=figures,
    )
