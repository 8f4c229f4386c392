"""Cases where a head trained well and served nothing, or a run was lost."""

import hashlib
import json
import warnings
from dataclasses import asdict

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import fitted
import zoo
from answering import with_template, write_jsonl
from kit import plain, target_of
from phrasedraft import Decoder, Stopping, TransformersTarget
from phrasedraft.cli.app import app
from phrasedraft.corpus.answers import is_held_out, read_corpora
from phrasedraft.corpus.block_file import read_recipe
from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.errors import DataError, HeadFileError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import make_examples
from phrasedraft.training.settings import with_overrides
from phrasedraft.training.traces import read_traces
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import EOS, SyntheticTarget, answer_of

SHORT = with_overrides(fitted.SETTINGS, ["training.num_epochs=2"])
LAST = FeatureSpec()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return fitted.corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """A head for the tiny target, and the folder it lies in."""
    folder = tmp_path_factory.mktemp("trained")
    return fitted.fitted(corpus, folder), folder / "head"


@pytest.fixture(scope="module")
def target_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    for part in (fitted.target().model, fitted.target().tokenizer):
        part.save_pretrained(folder)
    return str(folder)


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_tr_lossmask_silent_only_the_answers_rows_are_trained_on_whatever_the_template_lacks(corpus, trained):
    """`tr-lossmask-silent`: a template without generation tags; prompt and answer are apart from the start."""
    (result, folder), target = trained, fitted.target()
    assert "generation %}" not in target.tokenizer.chat_template
    answers = read_corpora([corpus])[0].answers
    assert answers[0].prompt == tuple(target.encode_chat([{"role": "user", "content": "question a"}]))
    traces = read_traces(folder.parent / "work" / "traces" / "train", answers)
    examples = make_examples(traces, result.head.vocabulary, target.eos_token_ids)
    assert examples.tokens.tolist() == [token for answer in answers for token in answer.response[:-1]]
    for answer in answers[:3]:
        expected = plain(target, stopping=Stopping(max_new_tokens=24), prompt=answer.prompt)
        assert expected.tokens == answer.response


def test_tr_lossmask_eagle_the_rows_of_ten_tokens_are_those_that_draft_the_answer():
    """`tr-lossmask-eagle`: the row at the boundary chose the answer's first token and drafts from it; none before."""
    target = SyntheticTarget()
    prompt, response = (1, 3, 4, 5), (10, 11, 12, 13, 14, EOS)
    text = torch.tensor([[*prompt, *response]])
    states = target.hidden_rows(text, torch.ones_like(text), LAST)[0]
    phrases = PhraseVocabulary.from_phrases([(token,) for token in range(3, 20)])
    examples = make_examples([target.trace(answer_of(response, prompt=prompt))], phrases, frozenset({EOS}))
    assert examples.tokens.tolist() == [10, 11, 12, 13, 14]
    torch.testing.assert_close(examples.hidden[:], states[3:8].half())
    assert [phrases.expand(one) if one >= 0 else None for one in examples.longest.tolist()] == [
        (11,),
        (12,),
        (13,),
        (14,),
        None,  # the end of the text is no phrase here
    ]


def test_tr_lossmask_zero_answers_with_nothing_to_learn_from_end_the_run(target_folder, tmp_path):
    """`tr-lossmask-zero`: exit code 2 and a hint, not a training on nothing."""
    target = fitted.target()
    prompts = [target.encode_chat([{"role": "user", "content": text}]) for text in fitted.questions()]
    first = [plain(target, stopping=Stopping(max_new_tokens=1), prompt=prompt).tokens for prompt in prompts]
    records = [{"id": f"a{row}", "prompt": prompts[row], "response": first[row]} for row in range(len(prompts))]
    path = write_jsonl(tmp_path / "short.jsonl", records)
    result = run("fit", target_folder, "--corpus", path, "-o", tmp_path / "head", "--set", "replay.held_out_share=0.25")
    assert result.exit_code == 2
    assert "no two tokens in a row to learn from" in " ".join(result.stderr.split())
    assert "hint" in result.stderr
    assert not (tmp_path / "head").exists()


def test_tr_disk_what_the_traces_will_take_is_printed_before_and_is_what_they_take(target_folder, corpus, tmp_path):
    """`tr-disk`: `fit --dry-run` says it and writes nothing."""
    planned = run("fit", target_folder, "--corpus", corpus, "-o", tmp_path / "head", "--dry-run", "--json")
    assert planned.exit_code == 0, planned.output
    assert list(tmp_path.iterdir()) == []
    fitted.fitted(corpus, tmp_path, SHORT)
    size = sum(file.stat().st_size for file in (tmp_path / "work" / "traces").rglob("*.safetensors"))
    assert json.loads(planned.stdout)["trace_bytes"] == pytest.approx(size, rel=0.15)
    people = run("fit", target_folder, "--corpus", corpus, "-o", tmp_path / "other", "--dry-run")
    assert "MB on disk" in people.output


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2"])
def test_tr_layer_index_a_layers_number_is_that_of_the_block_that_wrote_it(family):
    """`tr-layer-index`: 0 is the embedding, n what block n gives, the last one after the final norm."""
    target = TransformersTarget(zoo.build_model(family), packed=False)
    base = target.model.base_model
    blocks, norm = (base.h, base.ln_f) if family == "gpt2" else (base.layers, base.norm)
    seen = {}
    modules = {0: blocks[0], 1: blocks[1], 2: norm}  # 0 and 1: what goes into a block; 2: what comes out of the norm
    for number, module in modules.items():
        if number < 2:
            module.register_forward_pre_hook(lambda _, given, number=number: seen.update({number: given[0].clone()}))
        else:
            module.register_forward_hook(lambda _, given, out, number=number: seen.update({number: out.clone()}))
    tokens = torch.tensor([[5, 9, 3, 40]])
    for layer in (0, 1, 2, -1, -2, -3):
        rows = target.hidden_rows(tokens, torch.ones_like(tokens), FeatureSpec(layers=(layer,)))[0]
        torch.testing.assert_close(rows, seen[layer % 3][0])


def test_tr_layer_index_a_head_reads_the_layers_it_was_trained_on(corpus, tmp_path):
    """`tr-layer-index`: they lie in its config, and what it is served is what it was trained on."""
    result = fitted.fitted(corpus, tmp_path, with_overrides(SHORT, ["traces.layers=[1, -1]"]))
    head = PhraseHead.from_pretrained(tmp_path / "head")
    assert head.features == FeatureSpec(layers=(1, -1))
    prompt = read_corpora([corpus])[0].answers[0].prompt
    sequence = fitted.target().start(head.features)
    text = torch.tensor([prompt])
    expected = fitted.target().hidden_rows(text, torch.ones_like(text), FeatureSpec(layers=(1, -1)))[0]
    torch.testing.assert_close(sequence.prefill(prompt).hidden, expected)
    assert result.head.scorer.enter.in_features == 3 * fitted.target().identity.hidden_size


def test_tr_vocab_slice_a_head_without_its_phrases_is_refused(trained, tmp_path):
    """`tr-vocab-slice`: no table is made up in the place of one that is lost."""
    trained[0].head.save_pretrained(tmp_path)
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    tensors = load_file(weights)
    del tensors["phrase_tokens"]
    save_file(tensors, weights)
    digest = {"sha256": {weights.name: hashlib.sha256(weights.read_bytes()).hexdigest()}}
    config.write_text(json.dumps(json.loads(config.read_text()) | digest))
    with pytest.raises(HeadFileError, match="without the phrase table the head's rows have no meaning") as error:
        PhraseHead.from_pretrained(tmp_path)
    assert "no table to fall back to" in error.value.hint


def test_tr_data_questions_how_answers_are_drawn_is_documented_and_lies_beside_them(corpus):
    """`tr-data-questions`: temperature, top-p and the rest, by default greedy."""
    text = " ".join(run("distill", "--help").output.replace("│", " ").split())
    assert "greedily unless temperature is set" in text
    settings = read_recipe(corpus)["settings"]
    assert {name: settings[name] for name in ("temperature", "top_p", "top_k", "seed", "max_new_tokens")} == {
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "seed": 0,
        "max_new_tokens": 24,
    }


def test_tr_head_swap_every_parameter_gets_a_gradient_and_moves():
    """`tr-head-swap`: one step on one answer."""
    target = SyntheticTarget()
    tokens = torch.randint(4, 60, (61,), generator=torch.manual_seed(1)).tolist()
    vocabulary = PhraseVocabulary.from_phrases(sorted({tuple(tokens[i : i + n]) for i in range(1, 61) for n in (1, 2)}))
    examples = make_examples([target.trace(answer_of(tokens))], vocabulary, frozenset())
    trainer = Trainer(
        examples,
        EmbeddingTable.of(examples.tokens, target.embed),
        vocabulary,
        TrainingSettings(batch_size=60, trunk_width=32),
    )
    before = {name: weight.detach().clone() for name, weight in trainer.scorer.named_parameters()}
    next(trainer.run_epoch(0))
    for name, weight in trainer.scorer.named_parameters():
        assert weight.grad.abs().sum() > 0, name
        assert not torch.equal(weight, before[name]), name


def test_tr_finetuned_target_a_head_of_the_base_drafts_for_an_adapted_target_exactly(trained):
    """`tr-finetuned-target`: LoRA by peft; the same text as without drafts, and a warning that says what it costs."""
    peft = pytest.importorskip("peft")
    result, _ = trained
    base = fitted.target()
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    torch.manual_seed(0)
    model = zoo.build_model("llama", vocab_size=base.identity.vocab_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft's own
        adapted = TransformersTarget(peft.get_peft_model(model, config).eval(), base.tokenizer)
    with pytest.warns(UserWarning, match=r"gives other hidden states .* a fine-tune, an adapter"):
        decoder = Decoder(adapted, result.head)
    stopping = Stopping(max_new_tokens=40, ignore_eos=True)
    generation = decoder.generate("question a", stopping=stopping)
    assert generation.tokens == plain(adapted, stopping=stopping, prompt="question a").tokens
    assert generation.tokens != plain(base, stopping=stopping, prompt="question a").tokens
    assert generation.stats.num_draft_tokens > 0


def test_tr_label_shift_an_answer_learnt_by_heart_is_drafted_whole(tmp_path):
    """`tr-label-shift`: one answer of a real target again and again; decoding it accepts nearly all of a draft."""
    target = fitted.target()
    path = fitted.corpus(tmp_path, ["question a"] * 24)
    settings = with_overrides(
        fitted.SETTINGS,
        ["training.num_epochs=8", "training.dropout=0.0", "training.input_noise=0.0", "training.average=0.0"],
    )
    head = fitted.fitted(path, tmp_path, settings).head
    stopping = Stopping(max_new_tokens=24)
    prompt = [{"role": "user", "content": "question a"}]
    generation = Decoder(target, head, num_draft_tokens=3).generate(prompt, stopping=stopping)
    assert generation.tokens == plain(target, stopping=stopping, prompt=prompt).tokens
    assert generation.stats.mean_acceptance_length > 3.3  # 4 is the most, and the text does not end with a whole draft


def test_tr_vocab_regenerate_going_on_with_other_phrases_is_refused(corpus, tmp_path):
    """`tr-vocab-regenerate`: the phrases are part of a run's identity and of the head; other data leaves them alone."""
    phrases = PhraseVocabulary.from_phrases([(token,) for token in range(250)])
    with pytest.raises(SystemExit):
        fitted.fitted(corpus, tmp_path, SHORT, vocabulary=phrases, console=fitted.Interrupting("epoch 1"))
    other = PhraseVocabulary.from_phrases([(token,) for token in reversed(range(250))])
    with pytest.raises(DataError, match="unfinished run with other settings: `vocabulary` is"):
        fitted.fitted(corpus, tmp_path, SHORT, vocabulary=other)
    head = fitted.fitted(corpus, tmp_path, SHORT, vocabulary=phrases).head
    assert head.vocabulary.fingerprint == phrases.fingerprint
    more = fitted.corpus(tmp_path, fitted.questions("xyz"), name="more")
    again = fitted.fitted(more, tmp_path, SHORT, vocabulary=PhraseHead.from_pretrained(tmp_path / "head").vocabulary)
    assert again.head.vocabulary.fingerprint == phrases.fingerprint


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "opt", "cohere", "qwen3_5"])
def test_tr_norm_missing_the_last_hidden_state_is_what_the_language_model_head_reads(family):
    """`tr-norm-missing`: features of layer -1 through the model's own head give the model's own logits."""
    target = target_of(family)
    tokens = torch.tensor([[5, 9, 3, 40]])
    rows = target.hidden_rows(tokens, torch.ones_like(tokens), LAST)
    with torch.inference_mode():
        logits = target.model(input_ids=tokens).logits
        torch.testing.assert_close(target.model.get_output_embeddings()(rows), logits, atol=1e-4, rtol=1e-4)


def test_tr_sigterm_a_run_that_is_told_to_end_saves_itself_and_goes_on_to_the_same_head(corpus, tmp_path):
    """`tr-sigterm`: exit code 143, a checkpoint, and the head of a run that was left alone."""
    whole = fitted.fitted(corpus, tmp_path / "whole", SHORT)
    console = fitted.Interrupting("epoch 1")
    with pytest.raises(SystemExit) as stopped:
        fitted.fitted(corpus, tmp_path / "stopped", SHORT, console=console)
    assert stopped.value.code == 143
    assert "the same command goes on from there" in console.file.getvalue()
    assert not (tmp_path / "stopped" / "head").exists()
    assert (tmp_path / "stopped" / "work" / "checkpoint.pt").exists()
    resumed = fitted.fitted(corpus, tmp_path / "stopped", SHORT)
    assert resumed.history == whole.history
    for name, weight in whole.head.scorer.state_dict().items():
        assert torch.equal(weight, resumed.head.scorer.state_dict()[name]), name


def test_tr_thinking_a_head_trained_without_thinking_warns_where_thinking_is_the_default(tmp_path):
    """`tr-thinking`: the switch and the template's hash lie in the head, and the warning names what to pass."""
    path = fitted.corpus(tmp_path, thinking="off")
    target = fitted.template_target(thinking="off")
    head = fitted.fitted(path, tmp_path, SHORT, target=target).head
    assert asdict(head.config.template)["thinking"] == "off"
    with pytest.warns(UserWarning, match=r"switch `off`, .* pass `enable_thinking=False` to its template"):
        Decoder(target, PhraseHead.from_pretrained(tmp_path / "head"))
    never = with_template(target, target.tokenizer.chat_template.replace("enable_thinking is not defined or ", ""))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Decoder(never, head)  # here no thinking is the default


def test_tr_val_vs_serve_the_figures_of_the_training_are_those_of_decoding(trained, corpus):
    """`tr-val-vs-serve`: held-out answers, replayed in training and decoded by the loop, to the last token."""
    result, target = trained[0], fitted.target()
    read = read_corpora([corpus])[0]
    held_out = [answer for answer in read.answers if is_held_out(answer, 0.25, 0)]
    for nodes, replayed in result.replayed["train"].items():
        live = DecodingStats()
        decoder = Decoder(target, result.head, num_draft_tokens=nodes)
        for answer in held_out:
            generation = decoder.generate(answer.prompt, stopping=Stopping(max_new_tokens=read.max_new_tokens))
            assert generation.tokens == answer.response
            live.add(generation.stats)
        assert replayed.num_passes == live.num_passes
        assert replayed.num_accepted_tokens_per_pos == live.num_accepted_tokens_per_pos
        assert live.mean_acceptance_length > 1.5


def test_tr_vocab_stale_phrases_of_an_earlier_run_in_the_same_folder_are_not_taken_up(corpus, tmp_path):
    """`tr-vocab-stale`: two runs with other settings in one work folder; the second is as if it had been the first."""
    few = with_overrides(SHORT, ["vocabulary.num_phrases=20"])
    alone = fitted.fitted(corpus, tmp_path / "alone", few)
    first = fitted.fitted(corpus, tmp_path / "shared", SHORT)
    second = fitted.fitted(corpus, tmp_path / "shared", few)
    assert len(first.head.vocabulary) > len(second.head.vocabulary)
    assert second.head.vocabulary == alone.head.vocabulary
    assert second.history == alone.history
    assert PhraseVocabulary.load(tmp_path / "shared" / "work" / "phrases.safetensors") == second.head.vocabulary
