import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import phrasedraft
from phrasedraft.cli.app import VERBS

SOURCES = Path(phrasedraft.__file__).parent

# The package itself may import what it likes (`import phrasedraft` is for Python users); the command line may not.
HELP_WITHOUT_PACKAGE = f"""
import sys, types
package = types.ModuleType("phrasedraft")
package.__path__ = [{str(SOURCES)!r}]
sys.modules["phrasedraft"] = package
from phrasedraft.cli import main
sys.argv = ["phrasedraft", *sys.argv[1:]]
try:
    main()
finally:
    assert "torch" not in sys.modules and "transformers" not in sys.modules, "a model library was imported"
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["generate", "--help"], ["bench", "--help"]])
def test_help_imports_no_model_library(arguments):
    done = subprocess.run(
        [sys.executable, "-c", HELP_WITHOUT_PACKAGE, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_help_lists_every_verb(run):
    result = run("--help")
    assert result.exit_code == 0
    for name, verb in VERBS.items():
        assert name in result.stdout
        assert verb.summary.split()[0] in result.stdout


def test_the_version_is_that_of_the_package(run):
    assert run("--version").stdout == f"phrasedraft {phrasedraft.__version__}\n"


def test_without_a_verb_help_is_shown(run):
    assert "COMMAND" in run().output


def example_of(run, verb: str) -> str:
    result = run(verb, "--help")
    assert result.exit_code == 0
    words = " ".join(result.stdout.replace("│", " ").split())
    example = re.search(rf"Example: (.*?phrasedraft {verb}.*?) ╭", words)
    assert example, words
    return example.group(1)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_in_its_help(run, verb):
    assert f"phrasedraft {verb}" in example_of(run, verb)


@pytest.mark.parametrize("verb", ["demo", "generate", "chat", "bench", "doctor", "inspect"])
def test_the_example_of_a_verb_runs(run, llama, head, verb):
    command = example_of(run, verb)
    stdin = None
    if "|" in command:
        shown, command = command.split(" | ")
        stdin = shlex.split(shown)[1] + "\n"
    arguments = [llama if word == "smollm2-135m" else word for word in shlex.split(command)[1:]]
    if verb == "inspect":
        arguments.append(head)
    elif verb != "doctor":
        arguments += ["--target", llama, "--head", head]
    assert run(*arguments, stdin=stdin).exit_code == 0


def test_no_colour_codes_go_into_a_pipe(run, llama, head):
    result = run("generate", "hello", "--target", llama, "--head", head, "--max-new-tokens", "8", "--show-drafts")
    assert "\x1b[" not in result.output.replace("\ufffd", "")
