"""Cases of memory that grew, or was not there when it was needed."""

import gc
import json
import random

import pytest
import torch
from transformers import StoppingCriteria

import zoo
from kit import PROMPT, RightDrafter, StubDrafter, generated, greedy_answer, target_of
from phrasedraft import Choice, Decoder, Stopping, TransformersTarget
from phrasedraft.integrations.transformers import phrase_generate
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.estimate import estimate
from phrasedraft.training.examples import make_examples
from phrasedraft.training.phrase_learner import PhraseLearner
from phrasedraft.training.recipe import Recipe, override
from phrasedraft.training.trainer import Trainer
from phrasedraft.tree.draft_tree import DraftTree
from synthetic import HIDDEN, VOCAB, SyntheticTarget, answer_of, write_corpus

MEGABYTE = 2**20


def peak_bytes(action, folder):
    """The most memory torch held at once while `action` ran, beyond what it held before."""
    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        action()
    profile.export_chrome_trace(str(folder / "memory.json"))
    events = json.loads((folder / "memory.json").read_text())["traceEvents"]
    found = [(event["ts"], event["args"]) for event in events if event.get("name") == "[memory]"]
    found.sort(key=lambda pair: pair[0])
    before = found[0][1]["Total Allocated"] - found[0][1]["Bytes"]
    return max(arguments["Total Allocated"] for _, arguments in found) - before


def test_mem_release_boundary_what_happens_every_n_tokens_happens_with_any_number_of_them_a_pass():
    """`mem-release-boundary`: a user's own hook, every seventh token, with passes of up to five tokens."""

    class EverySeventh(StoppingCriteria):
        def __init__(self):
            self.lengths = []

        def __call__(self, input_ids, scores, **arguments):
            if input_ids.shape[1] % 7 == 0:
                self.lengths.append(input_ids.shape[1])
            return torch.zeros(len(input_ids), dtype=torch.bool)

    alone, drafted = EverySeventh(), EverySeventh()
    model, answer = zoo.tiny_model("llama"), greedy_answer("llama", 60)
    generate = phrase_generate(RightDrafter(answer), num_draft_tokens=4)
    plain = generated(model, PROMPT, 60, stopping_criteria=[alone])
    assert generated(model, PROMPT, 60, stopping_criteria=[drafted], custom_generate=generate) == plain
    assert generate.stats.mean_acceptance_length > 4
    assert drafted.lengths == alone.lengths == list(range(7, 66, 7))


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_mem_release_boundary_memory_does_not_climb_over_texts_that_cross_every_boundary_by_leaps(family, tmp_path):
    """`mem-release-boundary`: 300 tokens beyond a window of 8 and our own buffers, by leaps of five; then once more."""
    answer = greedy_answer(family, 300)
    decoder = Decoder(target_of(family), RightDrafter(answer), num_draft_tokens=4)

    def decode():
        assert decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=300)).tokens == answer

    decode()
    first, second = peak_bytes(decode, tmp_path), peak_bytes(decode, tmp_path)
    assert second <= first * 1.1
    assert first < 2 * MEGABYTE  # keys and values of 300 tokens take 77 KB


def target_like_the_synthetic_one():
    """A real target whose sizes decide an estimate."""
    model = zoo.build_model("llama", vocab_size=VOCAB, hidden_size=HIDDEN)
    return TransformersTarget(model, packed=False, check=False)


@pytest.mark.parametrize("batch_size", [64, 256])
@pytest.mark.parametrize(("num_sampled", "text_window"), [(0, 0), (256, 0), (0, 512)])
def test_mem_eagle_padding_the_memory_of_a_training_is_told_before_and_holds(
    batch_size, num_sampled, text_window, tmp_path
):
    """`mem-eagle-padding`: what `fit --dry-run` says, against what steps with 4,000 phrases take, sampled or not."""
    draw = random.Random(0)
    answer = answer_of([draw.randrange(4, 60) for _ in range(600)])
    vocabulary = PhraseVocabulary.from_phrases([(token,) for token in range(4_000)])  # all of them compete in each row
    target = SyntheticTarget()
    examples = make_examples([target.trace(answer)], vocabulary, frozenset(), text_window)
    recipe = override(
        Recipe(target="t", corpora=(str(write_corpus(tmp_path / "c.jsonl", [answer])),), output="o"),
        [
            f"training.batch_size={batch_size}",
            "training.trunk_width=32",
            f"vocabulary.num_phrases={len(vocabulary)}",
            f"training.loss.num_sampled={num_sampled}",
            f"head.text_window={text_window}",
        ],
    )
    told = estimate(target_like_the_synthetic_one(), recipe)
    assert f"about {told.training_bytes / 1e6:,.0f} MB of memory beside the target" in "\n".join(told.lines())

    def train():
        table = EmbeddingTable.of(torch.arange(VOCAB), target.embed)
        learner = PhraseLearner(vocabulary, recipe.settings.training.loss, None, text_window)
        trainer = Trainer(examples, table, vocabulary, recipe.settings.training, learner)
        for _ in range(2):
            next(trainer.run_epoch(0))

    taken = peak_bytes(train, tmp_path)
    assert 0.6 * told.training_bytes < taken < told.training_bytes


class Wide(StubDrafter):
    """Sixty-four guesses for the next token."""

    def draft(self, state, budget):
        guesses = tuple(range(100, 100 + budget.num_draft_tokens))
        return DraftTree((state.text[-1], *guesses), (-1, *[0] * len(guesses)), (1.0, *[0.01] * len(guesses)))


@pytest.mark.parametrize("choice", [Choice(), Choice(temperature=1.0, top_p=0.9, seed=1)], ids=["greedy", "sampled"])
def test_mem_tree_oom_a_wide_tree_takes_the_memory_of_its_logits_once(choice, tmp_path):
    """`mem-tree-oom`: vocabulary 32,000 and 64 nodes; logits of the nodes only, none of them copied or kept over."""
    vocab_size, nodes = 32_000, 64
    decoder = Decoder(target_of("llama", vocab_size=vocab_size), Wide((), vocab_size), num_draft_tokens=nodes)
    prompt = [5, 9, 3] * 100  # whose own logits would take 38 MB
    stopping = Stopping(max_new_tokens=6)
    decoder.generate(prompt, choice, stopping)
    taken = peak_bytes(lambda: decoder.generate(prompt, choice, stopping), tmp_path)
    logits = (1 + nodes) * vocab_size * 4
    assert logits < taken < 1.25 * logits
