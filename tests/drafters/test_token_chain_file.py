import json

import pytest
import torch

from chains import draft, make_chain
from phrasedraft.drafters import PhraseHead, TokenChain, load_drafter, load_head
from phrasedraft.errors import HeadFileError
from synthetic import make_head


def test_either_kind_is_loaded_by_its_folder_and_drafts_what_it_drafted_before(tmp_path):
    chain, head = make_chain(temperature=1.25), make_head([(5,), (5, 6)])
    chain.save_pretrained(tmp_path / "chain", dtype=torch.float32)
    head.save_pretrained(tmp_path / "head")
    assert type(load_head(tmp_path / "head")) is PhraseHead
    for loaded in (load_head(tmp_path / "chain"), load_drafter(str(tmp_path / "chain"))):
        assert type(loaded) is TokenChain
        assert loaded.config == chain.config
        assert loaded.vocabulary == chain.vocabulary
        assert loaded.num_parameters == chain.num_parameters
        assert draft(loaded, 12) == draft(chain, 12)


def test_the_folder_is_shaped_as_documented(tmp_path):
    make_chain().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["speculators_model_type"] == "token_chain"
    assert config["architectures"] == ["TokenChain"]
    assert (config["draft_vocab_size"], config["max_phrase_tokens"], config["num_steps"]) == (5, 1, 3)


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: edit(folder, num_steps=0), "`num_steps` .* must be 1 or more"),
        (lambda folder: edit(folder, num_steps="4"), "`num_steps` .* must be int"),
        (lambda folder: edit(folder, speculators_model_type="eagle3"), "neither `phrase` nor `token_chain`"),
        (lambda folder: edit(folder, speculators_model_type=["phrase"]), "neither `phrase` nor `token_chain`"),
        (lambda folder: edit(folder, speculators_model_type="phrase"), "`cell.bias_hh` of shape"),
        (lambda folder: edit(folder, sha256={"model.safetensors": "0"}), "was altered"),
    ],
)
def test_a_spoilt_folder_is_refused_with_a_hint(tmp_path, spoil, message):
    make_chain().save_pretrained(tmp_path)
    spoil(tmp_path)
    with pytest.raises(HeadFileError, match=message) as raised:
        load_head(tmp_path)
    assert raised.value.hint


def test_one_kind_is_not_read_as_the_other(tmp_path):
    make_chain().save_pretrained(tmp_path / "chain")
    make_head([(5,)]).save_pretrained(tmp_path / "head")
    with pytest.raises(HeadFileError, match="holds a `TokenChain`, not a `PhraseHead`"):
        PhraseHead.from_pretrained(tmp_path / "chain")
    with pytest.raises(HeadFileError, match="holds a `PhraseHead`, not a `TokenChain`"):
        TokenChain.from_pretrained(tmp_path / "head")
