"""A number of nodes that is chosen, behind transformers' own `generate()`."""

import pytest

import zoo
from kit import PROMPT, RandomTreeDrafter, WrongDrafter, generated, greedy_answer
from phrasedraft import TransformersTarget
from phrasedraft.errors import OptionError
from phrasedraft.integrations.transformers import phrase_generate
from simulation import keep_flat_cost


def test_the_text_is_that_of_generate_and_passes_were_timed_once(monkeypatch, tmp_path):
    monkeypatch.setenv("PHRASEDRAFT_CACHE", str(tmp_path))
    keep_flat_cost(TransformersTarget(zoo.tiny_model("llama")))
    answer = greedy_answer("llama", 60)
    generate = phrase_generate(RandomTreeDrafter(answer), num_draft_tokens="auto")
    for _ in range(2):
        assert tuple(generated(zoo.tiny_model("llama"), PROMPT, 60, custom_generate=generate)) == answer
        assert generate.stats.num_accepted_tokens > 0
        assert sum(generate.stats.num_passes_per_size) == generate.stats.num_passes
    assert len(list((tmp_path / "costs").iterdir())) == 1


@pytest.mark.usefixtures("without_type_checks")
def test_another_word_is_refused():
    generate = phrase_generate(WrongDrafter(()), num_draft_tokens="most")
    with pytest.raises(OptionError, match="`most`"):
        generated(zoo.tiny_model("llama"), PROMPT, 4, custom_generate=generate)
