"""Cases of habits: what a call leaves behind, what a page promises, what is tried without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fitted
import zoo
from kit import PROMPT, RandomTreeDrafter, RightUntilDrafter, generated, greedy_answer
from phrasedraft import Choice, Decoder, Stopping, TransformersTarget
from phrasedraft.integrations.transformers import phrase_generate
from phrasedraft.training.settings import with_overrides
from saved import save_target

README = (Path(__file__).parents[2] / "README.md").read_text()
MAIN = "from phrasedraft.cli import main; main()"
BLOCKER = """
import os, socket

def refuse(*arguments, **named):
    with open(os.environ["TRIED"], "a") as log:
        log.write(f"{arguments}\\n")
    raise OSError("the network was tried")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""


def state_of(model):
    """What a model is beside its weights: configs, attributes of every module, hooks, and the weights' versions."""
    modules = {
        name: {
            key: value if isinstance(value, bool | int | float | str | None) else (type(value), len(value))
            for key, value in vars(module).items()
            if isinstance(value, bool | int | float | str | dict | list | set | None)
        }
        for name, module in model.named_modules()
    }
    return {
        "generation_config": model.generation_config.to_dict(),
        "config": model.config.to_dict(),
        "names": set(dir(model)),
        "modules": modules,
        "weights": {name: (id(weight), weight._version) for name, weight in model.named_parameters()},
    }


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_conv_stateful_defaults_generate_leaves_the_model_and_its_generation_config_alone(family):
    """`conv-stateful-defaults`: three calls with other arguments; the last is what it would have been as the first."""
    model, answer = zoo.build_model(family), greedy_answer(family, 24)
    model.generation_config.max_new_tokens = 24
    before = state_of(model)
    generate = phrase_generate(RightUntilDrafter(answer, depth=2), num_draft_tokens=5)
    first = generated(model, PROMPT, 24, custom_generate=generate)
    counted = generate.stats.num_accepted_tokens_per_pos
    torch.manual_seed(0)
    generated(model, PROMPT, 9, custom_generate=generate, do_sample=True, top_k=5, repetition_penalty=1.2)
    assert generated(model, PROMPT, 24, custom_generate=generate) == first == list(answer)
    assert generate.stats.num_accepted_tokens_per_pos == counted
    assert state_of(model) == before


@pytest.mark.parametrize("packed", [False, True])
def test_conv_stateful_defaults_a_decoder_leaves_the_model_and_itself_alone(packed):
    """`conv-stateful-defaults`: what adapts belongs to a text, so a second one is decoded like the first."""
    model, answer = zoo.build_model("llama"), greedy_answer("llama", 24)
    if not packed:  # transformers leaves hooks of its own in a model that is asked for hidden states the first time
        model(torch.tensor([PROMPT]), output_hidden_states=True)
    before = state_of(model)
    decoder = Decoder(TransformersTarget(model, packed=packed), RightUntilDrafter(answer, depth=2), num_draft_tokens=5)
    stopping = Stopping(max_new_tokens=24)
    first = decoder.generate(PROMPT, stopping=stopping)
    decoder.generate(PROMPT, Choice(temperature=0.7, seed=4), Stopping(max_new_tokens=9))
    Decoder(decoder.target, RandomTreeDrafter(answer), num_draft_tokens=3).generate(PROMPT, stopping=stopping)
    again = decoder.generate(PROMPT, stopping=stopping)
    assert again.tokens == first.tokens == answer
    assert again.stats.num_accepted_tokens_per_pos == first.stats.num_accepted_tokens_per_pos
    assert decoder.num_draft_tokens == 5
    assert state_of(model) == before


def test_conv_readme_the_python_of_the_readme_runs_with_a_tiny_model(tmp_path, capsys):
    """`conv-readme`: as a reader would type it; `test_docs.py` runs every page with the embedded target."""
    quick = with_overrides(fitted.SETTINGS, ["training.num_epochs=1"])
    fitted.fitted(fitted.corpus(tmp_path, fitted.questions(count=8)), tmp_path, quick)
    for part in (fitted.target().model, fitted.target().tokenizer):
        part.save_pretrained(tmp_path / "target")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL))
    for call, folder in (('load_target("smollm2-135m', "target"), ('load_drafter("smollm2-135m', "head")):
        assert call in code
        code = code.replace(call, call.replace("smollm2-135m", str(tmp_path / folder)))
    capsys.readouterr()
    names = {"__name__": "page"}
    exec(compile(code, "README.md", "exec"), names)
    assert capsys.readouterr().out
    assert names["output"].shape[1] > names["input_ids"].shape[1]


@pytest.fixture
def offline(tmp_path):
    """Runs Python with arguments where every attempt to reach a network is refused, and written down."""
    (tmp_path / "block").mkdir()
    (tmp_path / "block" / "sitecustomize.py").write_text(BLOCKER)
    tried = tmp_path / "tried"
    tried.touch()
    (tmp_path / "empty").mkdir()
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "empty"),
        "PYTHONPATH": str(tmp_path / "block"),
        "TRIED": str(tried),
    }

    def call(*arguments):
        command = [sys.executable, "-c", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
        return done, tried.read_text()

    return call


def test_conv_offline_a_local_folder_is_answered_without_a_look_at_the_network(offline, tmp_path):
    """`conv-offline`: HF_HUB_OFFLINE=1, a local folder, and sockets that refuse."""
    folder = save_target(tmp_path / "target", "llama", max_position_embeddings=1024)
    options = ("--target", folder, "--head", "none", "--max-new-tokens", "8")
    done, tried = offline(MAIN, "generate", "hello", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert tried == ""


def test_conv_offline_a_missing_model_is_one_clear_error(offline):
    """`conv-offline`: the name, why, and what to give instead; still no look at the network."""
    done, tried = offline(MAIN, "generate", "hello", "--target", "nobody/no-such-model", "--head", "none")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("error: ") == done.stderr.count("hint: ") == 1
    assert "target `nobody/no-such-model` cannot be loaded" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert tried == ""


def test_conv_offline_the_blocker_would_have_noticed(offline):
    """`conv-offline`: a look at the network is refused and seen."""
    done, tried = offline("import urllib.request; urllib.request.urlopen('http://localhost:9')")
    assert done.returncode == 1
    assert "the network was tried" in done.stderr
    assert "localhost" in tried
