import json

import pytest

from phrasedraft import Decoder, Stopping, load_target
from phrasedraft.cli.known_answer import KnownAnswerDrafter
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.phrases import PhraseVocabulary

SMALL = ["training.num_epochs=12", "training.batch_size=32", "training.trunk_width=32", "vocabulary.num_phrases=200"]
SETTINGS = [
    part for setting in [*SMALL, "replay.held_out_share=0.2", "vocabulary.min_answers=1"] for part in ("--set", setting)
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


def test_figures_and_stages_are_printed_and_a_second_run_uses_what_the_first_made(run, llama, corpus, tmp_path):
    quick = [*SETTINGS, "--set", "training.num_epochs=1"]
    first = run("fit", llama, "--corpus", str(corpus), "-o", "head", *quick)
    assert first.exit_code == 0, first.output
    figures = [line.split() for line in first.stdout.splitlines()]
    assert [line[:2] for line in figures if line[:1] == ["answers"]] == [["answers", str(n)] for n in (4, 8, 16, 46)]
    assert {"traces", "mining", "training", "calibration", "replay"} <= {line[0] for line in figures if line}
    assert (tmp_path / "head.work" / "traces" / "answers" / "shard-00000.safetensors").exists()
    before = {path.name: path.read_bytes() for path in (tmp_path / "head").iterdir() if path.name != "stages.json"}
    second = run("fit", llama, "--corpus", str(corpus), "-o", "head", *quick)
    assert "are used again" in second.stderr
    assert {name: (tmp_path / "head" / name).read_bytes() for name in before} == before


def test_prompts_alone_become_a_head_and_its_recipe_makes_the_same_head_again(run, llama, tmp_path):
    lines = [json.dumps({"prompt": f"question {number % 8}"}) for number in range(24)]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    settings = [*SETTINGS, "-o", "distill.max_new_tokens=24", "-o", "training.num_epochs=4"]
    first = run("fit", llama, "--prompts", "questions.jsonl", "-o", "head", *settings, "--system-prompt", "be brief")
    assert first.exit_code == 0, first.output
    head = PhraseHead.from_pretrained(tmp_path / "head")
    assert head.config.template.system_prompt == "be brief"
    assert head.config.template.fingerprint == load_target(llama).identity.template_fingerprint("be brief", "default")
    assert len((tmp_path / "head.work" / "corpus" / "questions.jsonl").read_text().splitlines()) == 24
    again = run("fit", "--recipe", "head/recipe.toml", "-o", "again")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again/model.safetensors").read_bytes() == (tmp_path / "head/model.safetensors").read_bytes()


def test_a_dry_run_says_what_it_would_take_and_leaves_nothing(run, llama, corpus, tmp_path):
    result = run("fit", llama, "--corpus", str(corpus), "-o", "head", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    assert plan["num_answers"] == 24
    num_tokens = sum(len(json.loads(line)["response"]) for line in corpus.read_text().splitlines())
    assert plan["num_tokens"] == num_tokens
    assert plan["trace_bytes"] == num_tokens * (2 * 32 + 4)
    assert plan["head_parameters"] > 8000 * 256
    assert not (tmp_path / "head").exists()
    assert not (tmp_path / "head.work").exists()


def test_a_head_can_be_trained_stage_by_stage(run, llama, corpus, tmp_path):
    traced = run("trace", llama, "--corpus", str(corpus), "-o", "head.work/traces", "--json")
    assert traced.exit_code == 0, traced.output
    assert json.loads(traced.stdout)["traces"][0]["first_choice_share"] == 1.0
    mined = run("mine", llama, "--corpus", str(corpus), "-o", "phrases.safetensors", "--set", "min_answers=1")
    assert mined.exit_code == 0, mined.output
    trained = run("train", llama, "--corpus", str(corpus), "--phrases", "phrases.safetensors", "-o", "head", *SETTINGS)
    assert trained.exit_code == 0, trained.output
    assert "are used again" in trained.stderr
    assert PhraseHead.from_pretrained(tmp_path / "head").vocabulary == PhraseVocabulary.load(
        tmp_path / "phrases.safetensors"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "training.epochs=1"], "there is no setting `training.epochs`"),
        (["--corpus", "missing.jsonl"], "`missing.jsonl` cannot be read"),
        (["-o", "other"], "`--output` is given 2 times"),
        (["-o", "training.epochs=1"], "there is no setting `training.epochs`"),
        (["--recipe", "missing.toml"], "recipe `missing.toml` cannot be read"),
    ],
)
def test_a_mistake_is_two_lines_and_exit_code_two(run, llama, corpus, arguments, message):
    result = run("fit", llama, "--corpus", str(corpus), "-o", "head", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_help_shows_an_example(run):
    assert "phrasedraft fit smollm2-135m --prompts" in " ".join(run("fit", "--help").stdout.split())
