"""Any causal model can be a target, as the user has it; what cannot be one is refused with the reason."""

import copy
import functools

import pytest
import torch
import transformers

import zoo
from kit import PROMPT, RandomTreeDrafter, StubDrafter, generated, greedy_answer, plain, target_of
from phrasedraft import Decoder, FeatureSpec, Stopping, Support, TransformersTarget
from phrasedraft.errors import OptionError, TargetError
from texts import END_OF_TEXT, END_OF_TURN, byte_level_tokenizer

STOPPING = Stopping(max_new_tokens=20)
peft_warns = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")


def test_a_model_in_training_mode_is_refused_with_the_cure():
    model = zoo.build_model("llama").train()
    with pytest.raises(TargetError, match="`LlamaForCausalLM` is in training mode") as error:
        TransformersTarget(model)
    assert error.value.hint == "call `model.eval()` first"


@pytest.mark.parametrize(
    "make",
    [
        lambda: transformers.LlamaModel(zoo.tiny_model("llama").config),
        lambda: transformers.T5ForConditionalGeneration(
            transformers.T5Config(vocab_size=32, d_model=16, d_ff=16, num_layers=1, num_heads=2, d_kv=8)
        ),
        lambda: torch.nn.Linear(3, 3),
    ],
    ids=["without a head", "encoder-decoder", "no language model"],
)
def test_a_model_that_is_no_decoder_with_a_head_is_refused(make):
    with pytest.raises(TargetError, match="is not a decoder-only language model"):
        TransformersTarget(make().eval())


def test_end_of_text_is_what_generation_config_config_and_tokenizer_say_together():
    model = zoo.build_model("llama", vocab_size=300, eos_token_id=7)
    tokenizer = byte_level_tokenizer()
    model.generation_config.eos_token_id = [7, tokenizer.convert_tokens_to_ids(END_OF_TEXT)]
    target = TransformersTarget(model, tokenizer)
    assert target.eos_token_ids == {7, 0, tokenizer.convert_tokens_to_ids(END_OF_TURN)}


def test_a_model_without_end_of_text_has_none():
    assert target_of().eos_token_ids == frozenset()


def test_the_context_limit_is_that_of_the_config_or_none():
    assert target_of().context_limit == 512
    assert target_of("gpt2").context_limit == 512
    assert target_of("bloom").context_limit is None


def test_the_identity_names_what_a_head_must_fit():
    identity = TransformersTarget(zoo.tiny_model("llama", vocab_size=300), byte_level_tokenizer(), name="tiny").identity
    assert (identity.name, identity.hidden_size, identity.vocab_size) == ("tiny", 32, 300)
    assert target_of().identity.tokenizer_fingerprint(96) is None


def test_the_tokenizers_fingerprint_ignores_tokens_added_behind_the_ones_that_count():
    model = zoo.tiny_model("llama", vocab_size=304)
    tokenizer = byte_level_tokenizer()
    more = copy.deepcopy(tokenizer)
    more.add_tokens(["<more>"])
    before, after = (TransformersTarget(model, kind).identity.tokenizer_fingerprint for kind in (tokenizer, more))
    assert before(300) == after(300)
    assert before(301) != after(301)
    assert before(300) != before(299)


def test_embeddings_are_the_models_own():
    tokens = torch.tensor([4, 8, 4])
    expected = zoo.tiny_model("llama").get_input_embeddings().weight[tokens]
    assert torch.equal(target_of().embed(tokens), expected)


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_hidden_rows_of_padded_sequences_are_those_of_each_alone(family):
    target = target_of(family)
    spec = FeatureSpec(layers=(1, -1))
    ids, mask = torch.zeros((2, 9), dtype=torch.long), torch.zeros((2, 9), dtype=torch.long)
    for row, length in enumerate((9, 5)):
        ids[row, :length] = torch.arange(3, 3 + length)
        mask[row, :length] = 1
    rows = target.hidden_rows(ids, mask, spec)
    assert rows.shape == (2, 9, 64)
    with torch.inference_mode():
        for row, length in enumerate((9, 5)):
            alone = target.start(spec).prefill(ids[row, :length].tolist()).hidden
            assert torch.allclose(rows[row, :length], alone, atol=1e-4)


def test_features_join_layers_in_the_order_asked_for():
    states = tuple(torch.full((1, 3, 2), float(layer)) for layer in range(4))
    assert FeatureSpec(layers=(-1, 0)).select(states).tolist() == [[3.0, 3.0, 0.0, 0.0]] * 3
    assert FeatureSpec(layers=()).select(states).shape == (3, 0)
    for layer in (4, -5):
        with pytest.raises(OptionError, match=r"reads layer `.*`, the target has hidden states 0 to 3"):
            FeatureSpec(layers=(layer,)).select(states)


@peft_warns
@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_an_adapter_is_part_of_the_target_and_can_be_switched_off(family):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    torch.manual_seed(0)
    adapted = peft.get_peft_model(zoo.build_model(family), config).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.mul_(6)
    target = TransformersTarget(adapted)
    answer = generated(adapted, PROMPT, 20)
    assert tuple(answer) != greedy_answer(family, 20)
    decoder = Decoder(target, RandomTreeDrafter(answer), num_draft_tokens=5)
    generation = decoder.generate(PROMPT, stopping=STOPPING)
    assert list(generation.tokens) == answer
    assert generation.stats.num_accepted_tokens > 0
    with adapted.disable_adapter():
        assert decoder.generate(PROMPT, stopping=STOPPING).tokens == greedy_answer(family, 20)


@peft_warns
def test_an_adapter_that_is_put_into_a_packed_target_and_merged_later_is_noticed():
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    model = zoo.build_model("llama")
    target = TransformersTarget(model)
    torch.manual_seed(0)
    adapted = peft.get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.mul_(6)
    answer = generated(adapted, PROMPT, 20)
    assert tuple(answer) != greedy_answer("llama", 20)
    assert list(plain(target, stopping=STOPPING).tokens) == answer
    adapted.merge_and_unload()
    assert list(plain(target, stopping=STOPPING).tokens) == answer


@peft_warns
def test_an_adapter_of_virtual_tokens_is_refused():
    peft = pytest.importorskip("peft")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    adapted = peft.get_peft_model(zoo.build_model("llama"), config).eval()
    with pytest.raises(TargetError, match="virtual tokens"):
        TransformersTarget(adapted)


def test_the_probe_finds_a_model_whose_positions_are_wrong():
    class Shifted(transformers.LlamaForCausalLM):
        """Counts the positions of a pass from zero, whatever is cached."""

        @functools.wraps(transformers.LlamaForCausalLM.forward)
        def forward(self, input_ids, position_ids=None, **arguments):
            return super().forward(input_ids, position_ids=torch.arange(input_ids.shape[1])[None], **arguments)

    model = Shifted(zoo.tiny_model("llama").config).eval()
    model.load_state_dict(zoo.tiny_model("llama").state_dict())
    target = TransformersTarget(model, packed=False)
    assert target.support is Support.NOTHING
    assert len([note for note in target.notes if "logits differ" in note]) == 2
    with pytest.warns(UserWarning, match="without drafts: no tree drafting"):
        decoder = Decoder(target, StubDrafter(()))
    assert decoder.generate(PROMPT, stopping=STOPPING).stats.num_draft_tokens == 0


def test_the_probe_reports_rounding_only_for_a_good_model():
    assert target_of().report.largest_difference < 1e-5
    assert target_of("gemma3").report.largest_difference < 1e-5
    assert target_of().report.reasons == ()


def test_hidden_rows_follow_weights_that_change():
    model, ids = zoo.build_model("llama"), torch.arange(3, 9)[None]
    target = TransformersTarget(model)
    before = target.hidden_rows(ids, torch.ones_like(ids), FeatureSpec())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    after = target.hidden_rows(ids, torch.ones_like(ids), FeatureSpec())
    with torch.inference_mode():
        expected = model(ids, output_hidden_states=True).hidden_states[-1]
    assert torch.allclose(after, expected, atol=1e-4)
    assert not torch.allclose(after, before, atol=1e-2)
