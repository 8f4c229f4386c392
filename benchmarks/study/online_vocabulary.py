"""What an online vocabulary gives over a stream of mixed topics, and how good composed rows are.

    taskset -c 0 env OMP_NUM_THREADS=1 python benchmarks/study/online_vocabulary.py drift
    taskset -c 0 env OMP_NUM_THREADS=1 python benchmarks/study/online_vocabulary.py rows

Both read the traces of the embedded target in `runs/smollm2-135m/traces`, which `phrasedraft fit` leaves there.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from phrasedraft import load_target
from phrasedraft.corpus.answers import is_held_out, read_corpora
from phrasedraft.drafters import DraftBudget, Drafter, PhraseHead, load_head
from phrasedraft.drafters.composed_rows import ComposedRows
from phrasedraft.drafters.loading import MIN_MATCH_BESIDE
from phrasedraft.drafters.merged import merge_drafters
from phrasedraft.drafters.online_phrases import OnlineSettings
from phrasedraft.drafters.online_vocabulary import OnlineVocabulary
from phrasedraft.drafters.suffix_automaton import SuffixAutomatonDrafter
from phrasedraft.evaluation.remembering import for_replay
from phrasedraft.evaluation.replay import RecordedAnswer, replay
from phrasedraft.training.traces import read_traces

ROOT = Path(__file__).parents[2]
CORPORA = ("gsm8k_train.max200", "chat_train.max256")
NUM_TOKENS, BLOCK, NODES = 50_000, 5_000, 8


def answers_of(name: str, head: PhraseHead, number: int) -> Iterator[RecordedAnswer]:
    """The answers of a corpus, held-out ones first, `number` at most."""
    corpus = read_corpora([ROOT / f"data/corpus/{name}.jsonl.gz"])[0]
    answers = sorted(corpus.answers, key=lambda answer: not is_held_out(answer, 0.05, 0))[:number]
    traces = read_traces(ROOT / "runs/smollm2-135m/traces" / corpus.name, answers, head.config.target_layers)
    for trace in traces:
        yield RecordedAnswer(
            prompt=trace.answer.prompt,
            tokens=trace.tokens,
            hidden=trace.hidden.float(),
            max_new_tokens=corpus.max_new_tokens,
        )


def drift(head: PhraseHead) -> None:
    """Tokens a pass in every block of a stream whose topic alternates. Scores of the head are made before any clock."""
    target = load_target("smollm2-135m", packed=False)
    remembering, _ = for_replay(head)
    assert isinstance(remembering, PhraseHead)

    def online(evict: bool) -> OnlineVocabulary:
        return OnlineVocabulary(head, OnlineSettings(evict=evict, min_match=MIN_MATCH_BESIDE))

    arms: dict[str, Drafter] = {
        "head": remembering,
        "head + suffix automaton": merge_drafters([remembering, SuffixAutomatonDrafter()]),
        "head + suffix automaton + online": merge_drafters([remembering, SuffixAutomatonDrafter(), online(True)]),
        "the same without eviction": merge_drafters([remembering, SuffixAutomatonDrafter(), online(False)]),
    }
    budget = DraftBudget(num_draft_tokens=NODES, max_depth=64)
    sources = [answers_of(name, head, 400) for name in CORPORA]
    everything = {name: [0, 0, 0.0] for name in arms}
    for block in range(NUM_TOKENS // BLOCK):
        counts = {name: [0, 0, 0.0] for name in arms}
        while counts["head"][0] < BLOCK:
            answer = next(sources[block % 2])
            with torch.inference_mode():
                for row, token in zip(answer.hidden, answer.tokens, strict=True):
                    remembering.probabilities(row[None], target.embed(torch.tensor([token])))
            for name, drafter in arms.items():
                start = time.process_time()
                stats = replay(drafter, [answer], budget, target.embed)
                for line in (counts[name], everything[name]):
                    line[0] += stats.num_generated_tokens
                    line[1] += stats.num_passes
                    line[2] += time.process_time() - start
        print(block, *(f"{name}: {line[0] / line[1]:.3f}" for name, line in counts.items()), sep="  ", flush=True)
        print("  phrases held", [len(each.phrases) for drafter in arms.values() for each in online_of(drafter)])
    for name, (num_tokens, num_passes, seconds) in everything.items():
        held = [(len(each.phrases), len(each.phrases.single_tokens())) for each in online_of(arms[name])]
        print(
            f"{name}: {num_tokens / num_passes:.3f} tokens a pass, {seconds / num_passes * 1e3:.2f} ms a pass, {held}"
        )


def online_of(drafter: Drafter) -> list[OnlineVocabulary]:
    """The online vocabulary in a drafter, if there is one."""
    return [each for each in getattr(drafter, "drafters", ()) if isinstance(each, OnlineVocabulary)]


def rows(head: PhraseHead) -> None:
    """Leave a tenth of the head's single tokens out, compose their rows, compare them with the true ones."""
    target = load_target("smollm2-135m", packed=False)
    phrases = head.vocabulary.phrase_tokens
    entries = torch.tensor([int(entry) for entry in (head.vocabulary.lengths == 1).nonzero()[0]])
    order = torch.randperm(len(entries), generator=torch.Generator().manual_seed(0))
    left = entries[order[: len(entries) // 10]]
    tokens = [int(phrases[entry, 0]) for entry in left]
    composed = ComposedRows(head, target.embed, left_out=tokens)
    place = {token: index for index, token in enumerate(tokens)}
    for name in CORPORA:
        answers = list(answers_of(name, head, 60))
        with torch.inference_mode():
            trunk, following = trunk_states(head, answers, target)
        half = len(trunk) // 2
        counts = torch.bincount(torch.tensor([place[t] for t in following[:half] if t in place]), minlength=len(tokens))
        shares = (counts + 0.5) / half
        rights = [(row, place[token]) for row, token in enumerate(following[half:]) if token in place]
        at, which = (torch.tensor(each) for each in zip(*rights, strict=True))
        with torch.inference_mode():
            true = composed.from_trunk(trunk[half:], head.scorer.output.weight[left], head.scorer.output.bias[left])
            made = composed.compose(tokens)
            guessed = composed.from_trunk(trunk[half:], made, composed.biases(made, shares))
        for what, found in (("true rows", true), ("composed rows", guessed), ("shares alone", shares.expand_as(true))):
            right = found[at, which]
            log, mean, mass = right.log().mean(), right.mean(), found.sum(dim=1).mean()
            print(
                f"{name} {what}: log-likelihood {log:.3f}, probability {mean:.3f}, mass on them {mass:.4f}", flush=True
            )
        print(f"  they come at {len(rights)} of {len(trunk) - half} places ({len(rights) / (len(trunk) - half):.4f})")


def trunk_states(head: PhraseHead, answers: Sequence[RecordedAnswer], target: object) -> tuple[torch.Tensor, list[int]]:
    """What the head's output rows are compared with before each token but the first, and those tokens."""
    hidden = torch.cat([answer.hidden[1 : len(answer.tokens)] for answer in answers])
    before = torch.tensor([token for answer in answers for token in answer.tokens[:-1]])
    following = [token for answer in answers for token in answer.tokens[1:]]
    return head.scorer.trunk(hidden, target.embed(before)), following  # type: ignore[attr-defined]


if __name__ == "__main__":
    torch.set_num_threads(1)
    shipped = load_head("smollm2-135m")
    assert isinstance(shipped, PhraseHead)
    {"drift": drift, "rows": rows}[sys.argv[1]](shipped)
