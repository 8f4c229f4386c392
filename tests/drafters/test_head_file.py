import hashlib
import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from phrasedraft.drafters import head_file
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.errors import HeadFileError
from synthetic import HIDDEN, SyntheticTarget, make_head

PHRASES = [(5,), (5, 6, 7), (8,), (9, 9)]


@pytest.fixture
def folder(tmp_path):
    make_head(PHRASES, temperature=1.25).save_pretrained(tmp_path / "head")
    return tmp_path / "head"


def edit(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))


def rewrite(folder, change):
    """Change the tensors and let the config vouch for the result, so that only the change itself can be found out."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    edit(folder, sha256={"model.safetensors": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()})


def test_a_saved_head_drafts_the_same_when_loaded(folder):
    head, loaded = make_head(PHRASES, temperature=1.25), PhraseHead.from_pretrained(folder)
    assert loaded.config == head.config
    assert loaded.vocabulary == head.vocabulary
    hidden, budget = torch.randn((1, HIDDEN)), DraftBudget(num_draft_tokens=9, max_depth=4)
    trees = [h.propose(h.begin([1], 4, hidden, SyntheticTarget().embed), budget) for h in (head, loaded)]
    assert trees[0].tokens == trees[1].tokens
    assert trees[0].values == pytest.approx(trees[1].values, abs=1e-2)
    assert loaded.scorer.output.weight.dtype == torch.float32


def test_the_folder_is_shaped_as_documented(folder):
    config = json.loads((folder / "config.json").read_text())
    assert config["speculators_model_type"] == "phrase"
    assert (config["draft_vocab_size"], config["max_phrase_tokens"], config["format_version"]) == (4, 3, 1)
    assert config["speculators_config"]["verifier"]["name_or_path"] == "synthetic"
    tensors = load_file(folder / "model.safetensors")
    assert tensors["phrase_tokens"].tolist() == [[5, -1, -1], [5, 6, 7], [8, -1, -1], [9, 9, -1]]
    assert tensors["phrase_tokens"].dtype == torch.int32
    assert tensors["output.weight"].dtype == torch.float16
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


FAULTS = {
    "no folder": (lambda f: f.rename(f.with_name("gone")), "does not exist"),
    "no config": (lambda f: (f / "config.json").unlink(), "holds no `config.json`"),
    "config is not JSON": (lambda f: (f / "config.json").write_text("{"), "is not JSON"),
    "config is of another kind": (lambda f: edit(f, speculators_model_type="eagle3"), "not describe a phrase head"),
    "config of a later version": (lambda f: edit(f, format_version=2), "format version `2`, .* reads `1`"),
    "config without a field": (lambda f: edit(f, trunk_width=...), "has no `trunk_width`"),
    "config without target": (lambda f: edit(f, speculators_config={}), "has no `verifier`"),
    "field of another type": (lambda f: edit(f, target_hidden_size="16"), "`target_hidden_size` .* must be int"),
    "a field that is true": (lambda f: edit(f, trunk_width=True), "`trunk_width` .* must be int"),
    "a temperature of nothing": (lambda f: edit(f, temperature=0), "temperature"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "holds no `model.safetensors`"),
    "weights are a pickle": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        "`pytorch_model.bin`, a pickle, which is never opened",
    ),
    "weights are a renamed pickle": (
        lambda f: (f / "model.safetensors").write_bytes(pickle.dumps({"a": 1})),
        "a pickle under another name",
    ),
    "weights are a renamed torch file": (
        lambda f: torch.save({"a": torch.ones(2)}, f / "model.safetensors"),
        "a pickle under another name",
    ),
    "weights cut short": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-9]),
        "truncated or not a safetensors file",
    ),
    "weights cut short that begin like a pickle": (
        lambda f: (f / "model.safetensors").write_bytes(b"\x80\x02\0\0\0\0\0\0{" + b" " * 90),
        "truncated or not a safetensors file",
    ),
    "weights empty": (lambda f: (f / "model.safetensors").write_bytes(b""), "truncated or not a safetensors file"),
    "no phrase table": (
        lambda f: rewrite(f, lambda t: t.pop("phrase_tokens")),
        "no `phrase_tokens`: without the phrase",
    ),
    "another number of phrases": (
        lambda f: rewrite(f, lambda t: t.update(phrase_tokens=t["phrase_tokens"][:3].clone())),
        "of shape \\(3, 3\\), `config.json` says int32 of \\(4, 3\\)",
    ),
    "a table of floats": (
        lambda f: rewrite(f, lambda t: t.update(phrase_tokens=t["phrase_tokens"].float())),
        "is torch.float32",
    ),
    "a token the target lacks": (
        lambda f: rewrite(f, lambda t: t["phrase_tokens"].__setitem__((0, 0), 64)),
        "holds token 64, the target's vocabulary has 64",
    ),
    "a phrase twice": (
        lambda f: rewrite(f, lambda t: t["phrase_tokens"].__setitem__((2, 0), 5)),
        "holds no phrase vocabulary",
    ),
    "rows that do not fit": (
        lambda f: rewrite(f, lambda t: t.update({"output.bias": t["output.bias"][:3].clone()})),
        "`output.bias` of shape \\(3,\\), `config.json` says \\(4,\\)",
    ),
    "a weight too few": (lambda f: rewrite(f, lambda t: t.pop("mix.bias")), "`mix.bias` of shape None"),
    "a weight too many": (lambda f: rewrite(f, lambda t: t.update(more=torch.ones(1))), "`more`"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_its_own_message_and_a_hint(folder, fault):
    spoil, message = FAULTS[fault]
    spoil(folder)
    with pytest.raises(HeadFileError, match=message) as raised:
        PhraseHead.from_pretrained(folder)
    assert raised.value.hint


@pytest.mark.parametrize("first_byte", [0x80, 0x50])
def test_a_whole_file_that_begins_like_a_pickle_by_chance_is_read(folder, first_byte):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for size in range(0, 4096, 8):  # the first byte is that of the header's length
        save_file(tensors, path, metadata={"filler": "x" * size})
        if path.read_bytes()[0] == first_byte:
            break
    assert path.read_bytes()[0] == first_byte
    edit(folder, sha256={"model.safetensors": hashlib.sha256(path.read_bytes()).hexdigest()})
    assert len(PhraseHead.from_pretrained(folder).vocabulary) == 4


def test_one_flipped_byte_is_found_out(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(HeadFileError, match="was altered"):
        PhraseHead.from_pretrained(folder)


def test_a_failed_save_leaves_the_old_head_or_a_refusal_but_no_mixture(folder, monkeypatch):
    def full_disk(path, data):
        raise OSError("no space left on device")

    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(head_file, "replace_file", full_disk)
    with pytest.raises(OSError, match="no space"):
        make_head([(7,)]).save_pretrained(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_save_killed_between_its_two_files_is_refused(folder, monkeypatch):
    replace = head_file.replace_file

    def killed(path, data):
        if path.name == "config.json":
            raise KeyboardInterrupt
        replace(path, data)

    monkeypatch.setattr(head_file, "replace_file", killed)
    with pytest.raises(KeyboardInterrupt):
        make_head([(7,), (9,)]).save_pretrained(folder)
    with pytest.raises(HeadFileError):
        PhraseHead.from_pretrained(folder)


def test_weights_that_do_not_fit_fp16_are_refused_before_anything_is_written(tmp_path):
    head = make_head(PHRASES)
    with torch.no_grad():
        head.scorer.mix.weight[0, 0] = 1e6
    with pytest.raises(HeadFileError, match=r"`mix\.weight` does not fit"):
        head.save_pretrained(tmp_path / "head")
    assert not (tmp_path / "head").exists()


def test_a_head_may_be_stored_in_full_precision(tmp_path):
    head = make_head(PHRASES)
    head.save_pretrained(tmp_path, dtype=torch.float32)
    assert torch.equal(PhraseHead.from_pretrained(tmp_path).scorer.enter.weight, head.scorer.enter.weight)
