"""Cases of targets, heads and caches in fewer bits."""

import copy
import warnings

import pytest
import torch
from transformers import QuantizedCache
from transformers.cache_utils import Cache, DynamicLayer

import zoo
from kit import PROMPT, RightDrafter, WrongDrafter, generated, greedy_answer, target_of
from phrasedraft import Decoder, Stopping, TransformersTarget
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.errors import OptionError
from phrasedraft.integrations.transformers import phrase_generate
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.cache import cache_keyword

STOPPING = Stopping(max_new_tokens=20)


def head_for(target, answer, *, state_fingerprint=()):
    """An untrained head of a target's own that knows the phrases of an answer."""
    phrases = [answer[start : start + length] for length in (1, 2, 3) for start in range(len(answer) - length + 1)]
    vocabulary, identity = PhraseVocabulary.from_phrases(phrases), target.identity
    config = HeadConfig(
        target_name=identity.name,
        target_hidden_size=identity.hidden_size,
        target_vocab_size=identity.vocab_size,
        state_fingerprint=state_fingerprint,
        trunk_width=32,
    )
    torch.manual_seed(0)
    size = identity.hidden_size
    scorer = PhraseScorer(feature_size=size, hidden_size=size, num_phrases=len(vocabulary), trunk_width=32)
    return PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config)


class StandIn(QuantizedCache):
    """A quantised cache for every version of transformers; those it ships need further packages."""

    def __init__(self, config):
        Cache.__init__(self, layers=[DynamicLayer() for _ in range(config.num_hidden_layers)])


def test_quant_kv_a_quantised_cache_is_refused_with_what_to_do():
    """`quant-kv`: passed by hand, or asked for by its name where this transformers can make one without packages."""
    model, generate = zoo.tiny_model("llama"), phrase_generate(RightDrafter(greedy_answer()))
    with pytest.raises(OptionError, match="`QuantizedCache` was passed or asked for") as error:
        generated(model, PROMPT, 8, custom_generate=generate, **{cache_keyword(model): StandIn(model.config)})
    assert "leave out `cache_implementation='quantized'`" in error.value.hint
    try:
        QuantizedCache("fp8", model.config)
    except ValueError:
        pytest.skip("this transformers has no quantised cache of its own")
    asked = {"cache_implementation": "quantized", "cache_config": {"backend": "fp8"}}
    with pytest.raises(OptionError, match="`QuantizedCache` was passed or asked for"):
        generated(model, PROMPT, 8, custom_generate=generate, **asked)


def test_quant_headtrained_on_quant_a_head_knows_the_hidden_states_it_was_trained_on():
    """`quant-headtrained-on-quant`: another revision warns at load, the same weights in bfloat16 do not."""
    target = target_of()
    head = head_for(target, greedy_answer(), state_fingerprint=target.identity.state_fingerprint())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        head.check(target.identity)
        head.check(TransformersTarget(copy.deepcopy(target.model).bfloat16(), check=False).identity)
    revision = zoo.build_model("llama")
    with torch.no_grad():
        for parameter in revision.parameters():
            parameter.add_(0.2 * parameter.std() * torch.randn(parameter.shape, generator=torch.manual_seed(0)))
    with pytest.warns(UserWarning, match="gives other hidden states than the one the head was trained on"):
        head.check(TransformersTarget(revision, check=False).identity)


def test_quant_fp16_nan_a_head_that_overflows_drafts_nothing_and_says_so_once():
    """`quant-fp16-nan`: weights that fit float32 and not float16; the text is right, the cause is named."""
    target, answer = target_of(), greedy_answer("llama", 20)
    head = head_for(target, answer)
    with torch.no_grad():
        head.scorer.output.weight.mul_(1e6)
    fine = Decoder(target, head).generate(PROMPT, stopping=STOPPING)
    assert fine.tokens == answer
    assert fine.stats.num_draft_tokens > 0
    head.scorer.half()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decoder = Decoder(target, head)
        generations = [decoder.generate(PROMPT, stopping=STOPPING) for _ in range(2)]
    assert [str(warning.message).split(":")[0] for warning in caught] == [
        "`phrase-head` drafts nothing where its scores in float16 are NaN or infinite"
    ]
    assert all(one.tokens == answer and one.stats.num_draft_tokens == 0 for one in generations)


def test_quant_draft_under_target_a_head_that_is_never_right_is_reported_once_with_likely_causes():
    """`quant-draft-under-target`: one phrase whatever the state; at the 200th draft, over texts, and never again."""
    target, answer = target_of(), greedy_answer("llama", 60)
    unsaid = next(token for token in range(zoo.VOCAB_SIZE) if token not in answer)
    decoder = Decoder(target, head_for(target, (unsaid,)), num_draft_tokens=1)
    messages = []
    for _ in range(8):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            generation = decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=60))
        assert generation.tokens == answer
        assert generation.stats.num_drafts == 58
        messages.append([str(warning.message) for warning in caught])
    assert [len(found) for found in messages] == [0, 0, 0, 1, 0, 0, 0, 0]
    for cause in ("no drafts accepted", "drafted 200 times", "another target or revision", "another layer", "damaged"):
        assert cause in messages[3][0]


def test_quant_draft_under_target_a_drafter_that_was_right_once_is_never_reported():
    """`quant-draft-under-target`: one accepted token is enough, whatever comes later."""
    decoder = Decoder(target_of(), RightDrafter(greedy_answer()), num_draft_tokens=2)
    decoder.generate(PROMPT, stopping=STOPPING)
    decoder.drafter = WrongDrafter(greedy_answer("llama", 300))
    generation = decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=300))
    assert generation.stats.num_drafts > 200
    assert generation.stats.num_accepted_tokens == 0


PRECISIONS = [(torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16), (torch.float32, torch.float16)]


@pytest.mark.parametrize(("head_dtype", "target_dtype"), PRECISIONS)
def test_quant_dtype_head_and_target_may_have_any_precisions(head_dtype, target_dtype):
    """`quant-dtype`: the head casts what it is given; drafts land and the text is the target's own."""
    target = TransformersTarget(zoo.build_model("llama").to(target_dtype))
    answer = tuple(generated(target.model, PROMPT, 20))
    head = head_for(target, answer)
    head.scorer.to(head_dtype)
    generation = Decoder(target, head, num_draft_tokens=24).generate(PROMPT, stopping=STOPPING)
    assert generation.tokens == answer
    assert generation.stats.num_accepted_tokens > 0
    assert {parameter.dtype for parameter in head.scorer.parameters()} == {head_dtype}
