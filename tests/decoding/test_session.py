"""A session keeps a conversation's place in the cache: what is shared is not read again, and no text depends on it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import zoo
from kit import PROMPT, RandomTreeDrafter, RightDrafter, RightUntilDrafter, StubDrafter, greedy_answer, plain, target_of
from phrasedraft import Choice, Decoder, FeatureSpec, PhraseDraftError, Stopping, TransformersTarget
from phrasedraft.errors import OptionError

STOPPING = Stopping(max_new_tokens=16)
TURN = (8, 21, 60, 33)
KEEPS_ANY_PREFIX = ["llama", "gpt2", "gemma3_wide_window"]
STARTS_AFRESH = ["gemma3", "qwen3_next", "qwen3_5", "falcon_h1"]


def conversation(family, turns=3):
    """Prompts that each hold the answer before, and the answers, decoded afresh without drafts."""
    prompts, answers = [PROMPT], []
    for _ in range(turns):
        answers.append(plain(target_of(family), stopping=STOPPING, prompt=prompts[-1]).tokens)
        prompts.append((*prompts[-1], *answers[-1], *TURN))
    return prompts[:-1], answers


@pytest.mark.parametrize("family", [*KEEPS_ANY_PREFIX, *STARTS_AFRESH, "mistral_window", "olmo2"])
def test_turns_of_a_session_say_what_fresh_texts_say_and_read_only_what_is_new(family):
    prompts, answers = conversation(family)
    decoder = Decoder(target_of(family), StubDrafter(()), num_draft_tokens=4)
    session = decoder.session()
    cached = []
    for prompt, answer in zip(prompts, answers, strict=True):
        decoder.drafter = RandomTreeDrafter(answer)
        generation = decoder.generate(prompt, stopping=STOPPING, session=session)
        assert generation.tokens == answer
        assert generation.num_prompt_tokens == len(prompt)
        cached.append(generation.num_cached_prompt_tokens)
    # Each turn finds the last prompt and its answer but for the answer's last token in the cache.
    assert cached == [0, *(len(prompt) + 15 for prompt in prompts[:-1])]


@pytest.mark.parametrize("family", KEEPS_ANY_PREFIX + STARTS_AFRESH)
def test_a_conversation_that_took_another_way_keeps_what_is_shared_or_starts_afresh(family):
    prompts, answers = conversation(family, 1)
    decoder = Decoder(target_of(family), RightDrafter(answers[0]), num_draft_tokens=4)
    session = decoder.session()
    decoder.generate(prompts[0], stopping=STOPPING, session=session)
    other = (*prompts[0], *answers[0][:6], *TURN)
    decoder.drafter = StubDrafter(())
    decoder.num_draft_tokens = 0
    generation = decoder.generate(other, stopping=STOPPING, session=session)
    assert generation.tokens == plain(target_of(family), stopping=STOPPING, prompt=other).tokens
    shared = len(prompts[0]) + 6
    assert generation.num_cached_prompt_tokens == (shared if family in KEEPS_ANY_PREFIX else 0)


def test_the_same_prompt_again_reads_its_last_token_only():
    decoder = Decoder(target_of(), RightDrafter(greedy_answer("llama", 16)), num_draft_tokens=4)
    session = decoder.session()
    first = decoder.generate(PROMPT, stopping=STOPPING, session=session)
    again = decoder.generate(PROMPT, stopping=STOPPING, session=session)
    assert again.tokens == first.tokens
    assert again.num_cached_prompt_tokens == len(PROMPT) - 1


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_a_text_left_half_way_can_be_continued_by_the_next(family):
    answer = greedy_answer(family, 16)
    decoder = Decoder(target_of(family), RightDrafter(answer), num_draft_tokens=3)
    session = decoder.session()
    pieces = decoder.stream(PROMPT, stopping=STOPPING, session=session)
    taken = [next(pieces).token for _ in range(6)]
    assert tuple(taken) == answer[:6]
    prompt = (*PROMPT, *taken)
    decoder.drafter = RightDrafter(answer[6:])
    rest = decoder.generate(prompt, stopping=Stopping(max_new_tokens=10), session=session)
    assert rest.tokens == answer[6:]


class Failing(RightDrafter):
    """Fails in the middle of a pass, after `num_good` proposals."""

    def __init__(self, answer, num_good):
        super().__init__(answer)
        self.num_good = num_good

    def update(self, state, committed, hidden):
        if self.num_proposals > self.num_good:
            raise RuntimeError("the drafter fails")
        super().update(state, committed, hidden)


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
@pytest.mark.parametrize("num_good", [0, 2])
def test_a_pass_that_was_interrupted_makes_the_session_start_afresh(family, num_good):
    answer = greedy_answer(family, 16)
    decoder = Decoder(target_of(family), Failing(answer, num_good), num_draft_tokens=3)
    session = decoder.session()
    with pytest.raises(RuntimeError, match="the drafter fails"):
        decoder.generate(PROMPT, stopping=STOPPING, session=session)
    assert session.num_cached_tokens == 0
    decoder.drafter = RightDrafter(answer)
    generation = decoder.generate(PROMPT, stopping=STOPPING, session=session)
    assert generation.tokens == answer
    assert generation.num_cached_prompt_tokens == 0


def test_two_sessions_of_one_decoder_do_not_touch_each_other():
    answer = greedy_answer("llama", 16)
    decoder = Decoder(target_of(), RightDrafter(answer), num_draft_tokens=3)
    streams = [decoder.stream(PROMPT, stopping=STOPPING, session=decoder.session()) for _ in range(2)]
    texts = [[], []]
    for _ in range(16):
        for stream, text in zip(streams, texts, strict=True):
            text.append(next(stream).token)
    assert tuple(texts[0]) == tuple(texts[1]) == answer


def test_sampled_turns_do_not_depend_on_what_was_cached():
    choice = Choice(temperature=1.4, seed=6)
    decoder = Decoder(target_of(), RandomTreeDrafter(()), num_draft_tokens=4)
    session = decoder.session()
    first = decoder.generate(PROMPT, choice, STOPPING, session=session)
    prompt = (*PROMPT, *first.tokens, *TURN)
    second = decoder.generate(prompt, choice, STOPPING, session=session)
    assert second.num_cached_prompt_tokens > 0
    assert second.tokens == plain(target_of(), choice, STOPPING, prompt=prompt).tokens


@pytest.mark.filterwarnings("ignore:decoding .* without drafts")
@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt_oss", "qwen3_5", "falcon_h1", "mamba"])
def test_a_long_prompt_is_read_in_pieces_that_change_nothing(family):
    prompt = tuple((7 * number + number // 5) % zoo.VOCAB_SIZE for number in range(1100))
    longer = {} if family == "mamba" else {"max_position_embeddings": 2048}
    answer = greedy_answer(family, 12, prompt, **longer)
    target = target_of(family, **longer)
    generation = Decoder(target, RightUntilDrafter(answer), num_draft_tokens=4).generate(
        prompt, stopping=Stopping(max_new_tokens=12)
    )
    assert generation.tokens == answer


def test_an_answer_is_not_continued_in_a_session_that_went_on_to_another_prompt():
    decoder = Decoder(target_of(), RightDrafter(greedy_answer("llama", 16)), num_draft_tokens=3)
    session = decoder.session()
    left = decoder.stream(PROMPT, stopping=STOPPING, session=session)
    next(left)
    other = decoder.generate((8, 21), stopping=STOPPING, session=session)
    assert other.tokens == greedy_answer("llama", 16, (8, 21))
    with pytest.raises(PhraseDraftError, match="the session has gone on to another prompt"):
        list(left)
    again = decoder.generate((8, 21), stopping=STOPPING, session=session)
    assert again.tokens == other.tokens


def test_a_session_of_another_target_or_of_other_features_is_refused():
    class Wider(StubDrafter):
        features = FeatureSpec(layers=(0, -1))

    decoder = Decoder(target_of(), StubDrafter(()))
    for other in (Decoder(target_of("qwen3"), StubDrafter(())), Decoder(target_of(), Wider(()))):
        with pytest.raises(OptionError, match="the session was made for another target") as error:
            decoder.generate(PROMPT, session=other.session())
        assert error.value.hint


def test_texts_decoded_in_several_threads_are_those_of_one():
    answer = greedy_answer("llama", 16)
    decoder = Decoder(target_of(), RightDrafter(answer), num_draft_tokens=3)
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: decoder.generate(PROMPT, stopping=STOPPING).tokens, range(8)))
    assert set(texts) == {answer}


def test_a_session_starts_afresh_when_the_targets_weights_have_changed():
    model = zoo.build_model("llama")
    target = TransformersTarget(model)
    decoder = Decoder(target, RightDrafter(greedy_answer("llama", 16)), num_draft_tokens=4)
    session = decoder.session()
    first = decoder.generate(PROMPT, stopping=STOPPING, session=session)
    assert first.tokens == greedy_answer("llama", 16)
    with torch.no_grad():
        model.get_output_embeddings().weight.copy_(model.get_output_embeddings().weight.roll(3, dims=0))
        model.model.layers[0].mlp.down_proj.weight.mul_(-1)
    prompt = (*PROMPT, *first.tokens, *TURN)
    fresh = plain(TransformersTarget(model, packed=False), stopping=STOPPING, prompt=prompt)
    again = decoder.generate(prompt, stopping=STOPPING, session=session)
    assert again.tokens == fresh.tokens
    assert again.num_cached_prompt_tokens == 0
