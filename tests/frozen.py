"""Hidden states of three short answers of the embedded target, frozen in a file beside the cases.

Run as a program it makes the file again (after the shipped head has changed) and prints what the test is to hold:

    .venv/bin/python tests/frozen.py
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor

from phrasedraft import TransformersTarget, load_target
from phrasedraft.corpus.answers import Answer, is_held_out, read_corpora
from phrasedraft.drafters import PhraseHead
from phrasedraft.drafters.head_file import default_head_path
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.evaluation.replay import RecordedAnswer, replay_answer

FILE = Path(__file__).parent / "cases" / "frozen.safetensors"
CORPUS = Path(__file__).parents[1] / "data" / "corpus" / "gsm8k_train.max200.jsonl.gz"
NUM_ANSWERS = 3
NUM_TOKENS = 9
"""Of each answer; a row of five layers takes 5,760 bytes in fp16."""

NODES = (4, 8, 16, 46)
NOISE = 2e-3
"""Relative size of a disturbance that may change no count: four times the rounding of fp16, far above kernels'."""


@dataclass(frozen=True)
class KnownEmbedding:
    """The target's input embedding of the tokens in the file; asking for another one is an error."""

    tokens: tuple[int, ...]
    table: Float[Tensor, "known hidden"]

    def __call__(self, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token hidden"]:
        return self.table[[self.tokens.index(token) for token in tokens.tolist()]]


def read() -> tuple[list[RecordedAnswer], KnownEmbedding]:
    """The answers, and the embedding of their tokens."""
    parts = load_file(FILE)
    known = KnownEmbedding(tuple(parts["known"].tolist()), parts["embedding"].float())
    pairs = zip(parts["tokens"].tolist(), parts["hidden"].float(), strict=True)
    return [recorded(tokens, hidden) for tokens, hidden in pairs], known


def recorded(tokens: Sequence[int], hidden: Float[Tensor, "row feature"]) -> RecordedAnswer:
    """The beginning of an answer; the head does not read prompts."""
    return RecordedAnswer(prompt=(1,), tokens=tokens, hidden=hidden, max_new_tokens=200)


def accepted(
    head: PhraseHead, answers: Sequence[RecordedAnswer], embed: KnownEmbedding, nodes: int
) -> list[tuple[int, ...]]:
    """The accepted tokens of every pass of each answer."""
    budget = DraftBudget(num_draft_tokens=nodes, max_depth=200)
    replays = [replay_answer(head, answer, budget, embed) for answer in answers]
    return [tuple(each.num_accepted_tokens for each in replayed.passes) for replayed in replays]


def disturbed(answer: RecordedAnswer, seed: int) -> RecordedAnswer:
    """The answer with every number of its rows changed by about one part in five hundred."""
    noise = torch.randn(answer.hidden.shape, generator=torch.Generator().manual_seed(seed))
    return replace(answer, hidden=answer.hidden * (1 + NOISE * noise))


def is_stable(head: PhraseHead, answer: RecordedAnswer, embed: KnownEmbedding) -> bool:
    """Whether no disturbance changes what is accepted at any node count."""
    return all(
        accepted(head, [disturbed(answer, seed)], embed, nodes) == accepted(head, [answer], embed, nodes)
        for nodes in NODES
        for seed in range(10)
    )


def candidates(head: PhraseHead, target: TransformersTarget) -> Iterator[tuple[Answer, RecordedAnswer, KnownEmbedding]]:
    """The first tokens of answers the head was not trained on, with rows and embeddings as the file keeps them."""
    settings = head.config.provenance["settings"]
    share, seed = settings["replay"]["held_out_share"], settings["training"]["seed"]
    for answer in read_corpora([CORPUS])[0].answers:
        if not is_held_out(answer, share, seed):
            continue
        tokens, first = answer.response[:NUM_TOKENS], len(answer.prompt) - 1
        text = torch.tensor([[*answer.prompt, *tokens]])
        rows = target.hidden_rows(text, torch.ones_like(text), head.features)[0, first : first + NUM_TOKENS]
        with torch.inference_mode():
            table = target.embed(torch.tensor(tokens)).half().float()
        yield answer, recorded(tokens, rows.half().float()), KnownEmbedding(tokens, table)


def main() -> None:
    """Freeze the first answers whose counts are stable, land somewhere and miss somewhere; print the counts."""
    head, chosen, embedding = PhraseHead.from_pretrained(default_head_path()), [], {}
    for answer, found, embed in candidates(head, load_target("smollm2-135m")):
        (lengths,) = accepted(head, [found], embed, 8)
        if len(lengths) > 2 and 0 in lengths and sum(lengths) > 3 and is_stable(head, found, embed):
            sys.stdout.write(f"{answer.id} {lengths}\n")
            chosen.append(found)
            embedding.update(zip(embed.tokens, embed.table, strict=True))
        if len(chosen) == NUM_ANSWERS:
            break
    parts = {
        "tokens": torch.tensor([each.tokens for each in chosen], dtype=torch.int32),
        "hidden": torch.stack([each.hidden for each in chosen]).half(),
        "known": torch.tensor(list(embedding), dtype=torch.int32),
        "embedding": torch.stack(list(embedding.values())).half(),
    }
    save_file(parts, FILE, metadata={"head": head.config.provenance["command"], "command": "python tests/frozen.py"})
    counts = {nodes: accepted(head, *read(), nodes) for nodes in NODES}
    sys.stdout.write(f"{FILE.stat().st_size:,} bytes\n{counts}\n")


if __name__ == "__main__":
    main()
