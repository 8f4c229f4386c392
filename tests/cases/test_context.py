"""Cases at the edge of a context: the target's, the drafter's, and a history that was cut."""

import pytest

from kit import PROMPT, RightDrafter, assert_drafts_landed, greedy_answer, plain, target_of
from phrasedraft import Decoder, FinishReason, Stopping
from phrasedraft.errors import PromptError
from phrasedraft.tree.draft_tree import DraftTree


class Forgetful(RightDrafter):
    """Looks at 32 tokens at most, and drafts nothing for a longer text."""

    num_refusals = 0

    def begin(self, prompt, committed, hidden, embed):
        self.prompt = tuple(prompt)
        return super().begin(prompt, committed, hidden, embed)

    def draft(self, state, budget):
        if len(self.prompt) + len(state.text) > 32:
            self.num_refusals += 1
            return DraftTree.root_only(state.text[-1])
        return super().draft(state, budget)


def test_ctx_shift_a_history_that_was_cut_starts_the_drafter_and_the_cache_afresh():
    """`ctx-shift`: a chat drops its first turn; state and cache belong to the prompt that is left."""
    stub = Forgetful(())
    decoder = Decoder(target_of(), stub, num_draft_tokens=4)
    session, stopping = decoder.session(), Stopping(max_new_tokens=8)
    first = (*PROMPT, 7, 8, 9, 10)
    answer = decoder.generate(first, stopping=stopping, session=session).tokens
    cut = (*first[4:], *answer, 21, 22)
    stub.answer = list(plain(target_of(), stopping=stopping, prompt=cut).tokens)
    generation = decoder.generate(cut, stopping=stopping, session=session)
    assert generation.tokens == tuple(stub.answer)
    assert stub.prompt == cut
    assert generation.num_cached_prompt_tokens == 0
    assert generation.stats.num_accepted_tokens > 0


def test_ctx_draft_limit_a_drafter_that_gives_up_leaves_the_target_to_go_on():
    """`ctx-draft-limit`: the drafter's limit is 32 tokens, the text has 65."""
    answer = greedy_answer("llama", 60)
    stub = Forgetful(answer)
    generation = Decoder(target_of(), stub, num_draft_tokens=4).generate(PROMPT, stopping=Stopping(max_new_tokens=60))
    assert generation.tokens == answer
    assert stub.num_refusals > 25
    assert_drafts_landed(stub, generation)
    assert generation.stats.num_passes - generation.stats.num_drafts >= stub.num_refusals


def test_ctx_draft_smaller_a_prompt_that_is_already_too_long_for_the_drafter_is_answered():
    """`ctx-draft-smaller`: a prompt of 40 tokens for a drafter of 32."""
    prompt = tuple(range(40))
    answer = greedy_answer("llama", 12, prompt)
    stub = Forgetful(answer)
    generation = Decoder(target_of(), stub, num_draft_tokens=4).generate(prompt, stopping=Stopping(max_new_tokens=12))
    assert generation.tokens == answer
    assert generation.stats.num_draft_tokens == 0
    assert stub.num_refusals == 10  # the last token is not worth a draft


@pytest.mark.parametrize("room", [1, 2, 3, 5])
@pytest.mark.parametrize("num_draft_tokens", [1, 4, 16])
def test_ctx_near_maxlen_a_prompt_that_almost_fills_the_context_gets_what_room_there_is(room, num_draft_tokens):
    """`ctx-near-maxlen`: limit 32, prompts of 32 minus 1, 2, 3 and 5 tokens; drafts never reach past the end."""
    prompt = tuple(range(32 - room))
    answer = greedy_answer("llama", room, prompt, max_position_embeddings=32)
    target = target_of("llama", max_position_embeddings=32)
    generation = Decoder(target, RightDrafter([*answer, *range(20)]), num_draft_tokens=num_draft_tokens).generate(
        prompt, stopping=Stopping(max_new_tokens=50)
    )
    assert generation.tokens == answer
    assert generation.finish_reason is FinishReason.CONTEXT
    for length in (32, 33):
        with pytest.raises(PromptError, match=f"the prompt has {length} tokens, .* context limit of 32"):
            plain(target, prompt=tuple(range(length)))
