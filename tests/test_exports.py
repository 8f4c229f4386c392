"""The outside of the package: what it exports, that this is documented, and that importing it is free of surprises."""

import ast
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import phrasedraft
from phrasedraft import errors

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(phrasedraft.__path__, "phrasedraft.")
    if not module.name.endswith("__main__")
)


def test_everything_exported_exists_and_is_documented():
    assert list(phrasedraft.__all__) == sorted(phrasedraft.__all__, key=lambda name: (not name.isupper(), name))
    for name in phrasedraft.__all__:
        value = getattr(phrasedraft, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name):
    origin = importlib.util.find_spec(name).origin  # not imported: some need an extra to be installed
    assert ast.get_docstring(ast.parse(Path(origin).read_text()))


@pytest.mark.parametrize("package", ["phrasedraft.decoding", "phrasedraft.target", "phrasedraft.phrases"])
def test_packages_export_what_they_list(package):
    module = importlib.import_module(package)
    assert all(hasattr(module, name) for name in module.__all__)


def test_every_error_is_a_phrase_draft_error_with_a_hint():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    assert len(kinds) >= 8
    for kind in kinds:
        error = kind("what it was", hint="what to do")
        assert isinstance(error, phrasedraft.PhraseDraftError)
        assert error.hint == "what to do"
        assert error.__notes__ == ["hint: what to do"]
        assert not hasattr(kind("what it was"), "__notes__")


def test_importing_needs_no_network_and_warns_of_nothing():
    code = (
        "import socket, sys, warnings\n"
        "def refuse(*arguments): raise OSError('no network')\n"
        "socket.socket.connect = refuse\n"
        "warnings.filterwarnings('error', module='phrasedraft')\n"
        "import phrasedraft\n"
        "print(phrasedraft.__version__)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == phrasedraft.__version__
