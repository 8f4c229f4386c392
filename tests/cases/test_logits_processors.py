"""Cases where a penalty or processor saw the wrong prefix, was called too often, or had no effect."""

from collections import Counter

import pytest
import torch
from transformers import LogitsProcessor

import zoo
from kit import (
    PROMPT,
    RandomTreeDrafter,
    RightDrafter,
    RightUntilDrafter,
    assert_drafts_landed,
    generated,
    greedy_answer,
    plain,
    target_of,
)
from phrasedraft import Choice, Decoder, Stopping
from phrasedraft.errors import OptionError
from phrasedraft.integrations.transformers import phrase_generate

STOPPING = Stopping(max_new_tokens=24)
DRAFTERS = pytest.mark.parametrize("drafter_type", [RightDrafter, RightUntilDrafter, RandomTreeDrafter])


class Remembering(LogitsProcessor):
    """Takes two off every token for each time it was said, and remembers what it was shown."""

    def __init__(self):
        self.seen = []

    def __call__(self, input_ids, scores):
        counts = Counter(input_ids[0].tolist())
        self.seen.append((input_ids.shape[1], counts))
        penalty = torch.zeros_like(scores)
        penalty[0, list(counts)] = torch.tensor([2.0 * count for count in counts.values()])
        return scores - penalty


def both(drafter_type, make_processor):
    """A text without and one with drafts, each with a processor of its own."""
    alone, beside = make_processor(), make_processor()
    answer = plain(target_of(), Choice(processors=(alone,)), STOPPING)
    stub = drafter_type(answer.tokens)
    drafted = Decoder(target_of(), stub, num_draft_tokens=5).generate(PROMPT, Choice(processors=(beside,)), STOPPING)
    assert drafted.tokens == answer.tokens
    assert_drafts_landed(stub, drafted)
    return alone, beside, answer.tokens


@DRAFTERS
def test_penalty_first_only_a_penalty_holds_for_every_token_and_not_only_the_first(drafter_type):
    """`penalty-first-only`: no token is repeated under a penalty that forbids it, anywhere in the text."""

    def forbid_repeats(input_ids, scores):
        return scores.index_fill(1, input_ids[0].unique(), -torch.inf)

    _, _, tokens = both(drafter_type, lambda: forbid_repeats)
    assert len(set(tokens + PROMPT)) == len(tokens) + len(set(PROMPT))
    assert tokens != greedy_answer("llama", 24)


@DRAFTERS
def test_proc_stateful_a_processor_with_a_state_ends_in_the_state_of_the_text(drafter_type):
    """`proc-stateful`: called once for each token of the text, in order, and never for a rejected draft."""
    alone, beside, tokens = both(drafter_type, Remembering)
    assert len(beside.seen) == len(tokens)
    assert beside.seen == alone.seen


ARGUMENTS = {
    "repetition_penalty": {"repetition_penalty": 1.4},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "bad_words_ids": {"bad_words_ids": [[greedy_answer("llama", 24)[1]]]},
    "sequence_bias": {"sequence_bias": [[[greedy_answer("llama", 24)[2]], -8.0]]},
    "suppress_tokens": {"suppress_tokens": list(greedy_answer("llama", 24)[:2])},
    "min_new_tokens": {"min_new_tokens": 9, "eos_token_id": greedy_answer("llama", 24)[3]},
    "exponential_decay_length_penalty": {"exponential_decay_length_penalty": (3, 1.7), "eos_token_id": 50},
    "forced_eos_token_id": {"forced_eos_token_id": 3, "eos_token_id": 3},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_penalty_perpos_each_row_is_processed_with_its_own_prefix(name):
    """`penalty-perpos`: row i sees the prompt, the text and the drafts before it, as plain decoding would."""
    model = zoo.tiny_model("llama")
    answer = generated(model, PROMPT, 24, **ARGUMENTS[name])
    assert tuple(answer) != greedy_answer("llama", 24)
    generate = phrase_generate(RightUntilDrafter(answer, depth=3), num_draft_tokens=5)
    assert generated(model, PROMPT, 24, custom_generate=generate, **ARGUMENTS[name]) == answer
    assert generate.stats.num_accepted_tokens > 0


def test_penalty_ignored_what_is_not_supported_is_refused_and_what_is_supported_has_an_effect():
    """`penalty-ignored`: no argument is taken and then forgotten."""
    model, generate = zoo.tiny_model("llama"), phrase_generate(RightDrafter(greedy_answer("llama", 24)))
    with pytest.raises(OptionError, match="`num_beams` is `2`"):
        generated(model, PROMPT, 24, custom_generate=generate, num_beams=2)
    with pytest.raises(TypeError, match="presence_penalty"):
        Choice(presence_penalty=0.5)
    for settings in ({"repetition_penalty": 1.4}, {"temperature": 1.5, "seed": 1}):
        assert plain(target_of(), Choice(**settings), STOPPING).tokens != greedy_answer("llama", 24)


@DRAFTERS
def test_penalty_double_every_position_counts_what_plain_decoding_counts(drafter_type):
    """`penalty-double`: the same multiset of tokens at every position, none of them twice."""
    _, beside, tokens = both(drafter_type, Remembering)
    for position, counts in beside.seen:
        assert counts == Counter((*PROMPT, *tokens)[:position])


@pytest.mark.parametrize("name", ["min_length", "min_new_tokens"])
@pytest.mark.parametrize("minimum", [4, 9, 13])
def test_proc_minlength_a_minimum_length_works_beside_drafts(name, minimum):
    """`proc-minlength`: `min_length` and `min_new_tokens` are not refused, and keep the end away."""
    model, eos = zoo.tiny_model("llama"), greedy_answer("llama", 24)[2]
    arguments = {name: minimum + (len(PROMPT) if name == "min_length" else 0), "eos_token_id": eos}
    answer = generated(model, PROMPT, 24, **arguments)
    assert len(answer) > minimum
    generate = phrase_generate(RandomTreeDrafter(answer), num_draft_tokens=5)
    assert generated(model, PROMPT, 24, custom_generate=generate, **arguments) == answer
    target = target_of("llama", eos_token_id=eos)
    ours = Decoder(target, RightUntilDrafter(answer), num_draft_tokens=5).generate(
        PROMPT, stopping=Stopping(max_new_tokens=24, min_new_tokens=minimum)
    )
    assert list(ours.tokens) == answer


def test_eos_grammar_after_stop_no_processor_is_called_after_the_text_has_ended():
    """`eos-grammar-after-stop`: a grammar that would fail when asked for a token behind the end."""
    answer = greedy_answer("llama", 24)
    eos = answer[6]

    def grammar(input_ids, scores):
        assert eos not in input_ids[0, len(PROMPT) :].tolist(), "asked for a token after the end"
        return scores

    generation = Decoder(target_of("llama", eos_token_id=eos), RightDrafter(answer), num_draft_tokens=16).generate(
        PROMPT, Choice(processors=(grammar,)), STOPPING
    )
    assert generation.tokens[-1] == eos
    assert generation.stats.num_accepted_tokens > 0


def test_grammar_fsm_a_grammar_sees_accepted_tokens_only():
    """`grammar-fsm`: digits and letters in turn, by a machine that fails on a token it did not allow."""

    class Machine(LogitsProcessor):
        def __init__(self):
            self.text, self.state = len(PROMPT), 0

        def __call__(self, input_ids, scores):
            if input_ids.shape[1] > self.text:
                assert input_ids.shape[1] == self.text + 1
                assert int(input_ids[0, -1]) % 3 == self.state
                self.state, self.text = (self.state + 1) % 3, self.text + 1
            allowed = torch.arange(scores.shape[1]) % 3 == self.state
            return scores.masked_fill(~allowed, -torch.inf)

    alone, beside, tokens = both(RightUntilDrafter, Machine)
    assert [token % 3 for token in tokens] == [number % 3 for number in range(24)]
    assert (alone.state, alone.text) == (beside.state, beside.text)
