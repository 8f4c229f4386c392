import json

import pytest

from phrasedraft import Decoder, Stopping, load_target
from phrasedraft.cli.known_answer import KnownAnswerDrafter
from phrasedraft.drafters.phrase_head import PhraseHead

SMALL = ["training.num_epochs=12", "training.batch_size=32", "training.trunk_width=32", "vocabulary.num_phrases=200"]
SETTINGS = [
    part for setting in [*SMALL, "held_out_share=0.2", "vocabulary.min_answers=1"] for part in ("--set", setting)
]


@pytest.fixture(scope="module")
def corpus(llama, tmp_path_factory):
    """Answers of the tiny llama itself."""
    target = load_target(llama)
    plain = Decoder(target, KnownAnswerDrafter(), num_draft_tokens=0)
    lines = []
    for number in range(24):
        prompt = target.encode_chat([{"role": "user", "content": f"question {number % 8}"}])
        answer = plain.generate(prompt, stopping=Stopping(max_new_tokens=24)).tokens
        lines.append(json.dumps({"id": f"q-{number}", "prompt": list(prompt), "response": list(answer)}))
    path = tmp_path_factory.mktemp("corpus") / "answers.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_a_head_fitted_to_a_target_has_its_drafts_accepted_when_it_decodes(run, llama, corpus, tmp_path):
    result = run("fit", llama, "--corpus", str(corpus), "-o", "head", *SETTINGS, "--json")
    assert result.exit_code == 0, result.output
    held_out = json.loads(result.stdout)["held_out"]["answers"]
    assert held_out["8"]["tokens_per_pass"] > 1.5
    assert "tokens a pass" in result.stderr
    head, target = PhraseHead.from_pretrained(tmp_path / "head"), load_target(llama)
    head.check(target.identity)
    prompt = target.encode_chat([{"role": "user", "content": "question 3"}])
    stopping = Stopping(max_new_tokens=24)
    drafted = Decoder(target, head).generate(prompt, stopping=stopping)
    plain = Decoder(target, KnownAnswerDrafter(), num_draft_tokens=0).generate(prompt, stopping=stopping)
    assert drafted.tokens == plain.tokens
    assert drafted.stats.mean_acceptance_length > 1.5


def test_figures_are_printed_one_a_line_and_traces_are_kept_beside_the_head(run, llama, corpus, tmp_path):
    quick = [*SETTINGS, "--set", "training.num_epochs=1"]
    first = run("fit", llama, "--corpus", str(corpus), "-o", "head", *quick)
    assert first.exit_code == 0, first.output
    assert [line.split("\t")[:2] for line in first.stdout.splitlines()] == [
        ["answers", f"{nodes} draft tokens"] for nodes in (4, 8, 16, 46)
    ]
    assert (tmp_path / "head.work" / "traces" / "answers" / "shard-00000.safetensors").exists()
    second = run("fit", llama, "--corpus", str(corpus), "-o", "head", *quick)
    assert "are used again" in second.stderr
    assert second.stdout == first.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "training.epochs=1"], "there is no setting `training.epochs`"),
        (["--corpus", "missing.jsonl"], "`missing.jsonl` cannot be read"),
    ],
)
def test_a_mistake_is_two_lines_and_exit_code_two(run, llama, corpus, arguments, message):
    result = run("fit", llama, "--corpus", str(corpus), "-o", "head", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_help_shows_an_example(run):
    assert "phrasedraft fit smollm2-135m --corpus" in " ".join(run("fit", "--help").stdout.split())
