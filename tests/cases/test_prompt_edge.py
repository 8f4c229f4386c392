"""Cases of very short prompts, and of drafters that have nothing to say."""

import pytest

from kit import RandomTreeDrafter, StubDrafter, assert_drafts_landed, greedy_answer, target_of
from phrasedraft import Decoder, Stopping
from phrasedraft.tree.draft_tree import DraftTree

STOPPING = Stopping(max_new_tokens=24)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "qwen3_5"])
@pytest.mark.parametrize("prompt", [(1,), (1, 5)])
def test_prompt_one_prompts_of_one_and_two_tokens_are_answered(prompt, family):
    """`prompt-one`: identical from the first token on."""
    answer = greedy_answer(family, 24, prompt)
    stub = RandomTreeDrafter(answer)
    generation = Decoder(target_of(family), stub, num_draft_tokens=5).generate(prompt, stopping=STOPPING)
    assert generation.tokens == answer
    assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_prompt_ngram_die_a_drafter_without_a_proposal_is_a_normal_case(family):
    """`prompt-ngram-die`: nothing beside the root, every time."""

    class Silent(StubDrafter):
        def draft(self, state, budget):
            return DraftTree.root_only(state.text[-1])

    answer, stub = greedy_answer(family, 24), Silent(())
    generation = Decoder(target_of(family), stub, num_draft_tokens=5).generate((5, 17, 3, 44, 9), stopping=STOPPING)
    assert generation.tokens == answer
    assert generation.stats.num_drafts == generation.stats.num_draft_tokens == 0
    assert stub.num_proposals == 22
