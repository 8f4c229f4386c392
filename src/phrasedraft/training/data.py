"""What a head is trained and judged on: the traces of each corpus, split into train and held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from phrasedraft.corpus.answers import Corpus, check_tokens, is_held_out, read_corpora
from phrasedraft.errors import DataError
from phrasedraft.evaluation.replay import RecordedAnswer
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.traces import FeatureSource, Trace, check_traces, collect_traces, read_traces


@dataclass(frozen=True)
class TracedCorpus:
    """The traces of one corpus on the two sides of the split."""

    corpus: Corpus
    train: list[Trace]
    held_out: list[Trace]

    def recorded(self) -> list[RecordedAnswer]:
        """The held-out answers, ready to be replayed."""
        return [
            RecordedAnswer(
                prompt=trace.answer.prompt,
                tokens=trace.tokens,
                hidden=trace.hidden,
                max_new_tokens=self.corpus.max_new_tokens,
            )
            for trace in self.held_out
        ]


def trace_corpora(
    target: FeatureSource,
    paths: Sequence[Path],
    features: FeatureSpec,
    traces: Path,
    *,
    held_out_share: float,
    seed: int,
    console: Console,
) -> list[TracedCorpus]:
    """The traced answers of each file; those already in `traces/<file name>` are checked and used again."""
    data = []
    for corpus in read_corpora(paths):
        check_tokens(corpus, target.identity.vocab_size, target.identity.name)
        folder = traces / corpus.name
        collect_traces(target, corpus.answers, features, folder, console=console)
        found = read_traces(folder, corpus.answers, features.layers)
        check_traces(target, found, features)
        sides = [is_held_out(trace.answer, held_out_share, seed) for trace in found]
        train = [trace for trace, held_out in zip(found, sides, strict=True) if not held_out]
        data.append(TracedCorpus(corpus, train, [trace for trace, out in zip(found, sides, strict=True) if out]))
    _name_leaks(data, console)
    num_train, num_held_out = sum(len(part.train) for part in data), sum(len(part.held_out) for part in data)
    if not num_train or not num_held_out:
        raise DataError(
            f"{num_train + num_held_out} answers leave {num_train} to train on and {num_held_out} held out",
            hint="give a larger corpus or another `held_out_share`",
        )
    return data


def _name_leaks(data: Sequence[TracedCorpus], console: Console) -> None:
    """Say how many held-out answers are to prompts that are trained on as well: what is judged was then seen."""
    trained = {trace.answer.prompt for part in data for trace in part.train}
    held_out = [trace.answer.prompt for part in data for trace in part.held_out]
    number = sum(prompt in trained for prompt in held_out)
    if number:
        console.print(
            f"{number:,} of {len(held_out):,} held-out answers are to prompts that are trained on too: expect too good "
            "figures, or give each prompt once",
            soft_wrap=True,
        )
