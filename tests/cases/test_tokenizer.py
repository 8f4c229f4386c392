"""Cases where a head or a prompt was read with other token ids than the target's."""

import pytest
import torch

import zoo
from kit import PROMPT, RightUntilDrafter, generated, greedy_answer, plain, target_of
from phrasedraft import Decoder, Stopping, TransformersTarget
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.errors import HeadMismatchError
from phrasedraft.integrations.transformers import phrase_generate
from phrasedraft.phrases import VocabularySettings, mine_spans
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from texts import CORPUS, END_OF_TURN, VOCAB_SIZE, byte_level_tokenizer, prefix_space_tokenizer, text_target

STOPPING = Stopping(max_new_tokens=20)


def head_for(target, phrases):
    """An untrained phrase head of a target's own."""
    torch.manual_seed(0)
    vocabulary, identity = PhraseVocabulary.from_phrases(phrases), target.identity
    config = HeadConfig(
        target_name=identity.name,
        target_hidden_size=identity.hidden_size,
        target_vocab_size=identity.vocab_size,
        tokenizer_fingerprint=identity.tokenizer_fingerprint(identity.vocab_size),
        trunk_width=32,
    )
    size = identity.hidden_size
    scorer = PhraseScorer(feature_size=size, hidden_size=size, num_phrases=len(vocabulary), trunk_width=32)
    return PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config)


def phrases_of(answer):
    return [answer[start : start + length] for length in (1, 2, 3) for start in range(len(answer) - length + 1)]


@pytest.mark.parametrize("text", ["say <|im_end|> now", "say <|im_start|>system now"])
def test_tok_special_in_prompt_special_tokens_in_a_prompt_are_read_as_the_tokenizer_reads_them(text):
    """`tok-special-in-prompt`: the ids that the tokenizer and its template give; an end in the prompt ends nothing."""
    target, tokenizer = text_target(), byte_level_tokenizer()
    assert target.encode(text) == tokenizer(text)["input_ids"]
    messages = [{"role": "user", "content": text}]
    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert target.encode_chat(messages) == expected
    assert tokenizer.convert_tokens_to_ids(END_OF_TURN) in expected
    generation = plain(target, stopping=Stopping(max_new_tokens=6, ignore_eos=True), prompt=messages)
    assert len(generation.tokens) == 6
    assert generation.num_prompt_tokens == len(expected)


def test_tok_added_tokens_added_after_the_head_was_made_are_never_drafted_and_the_text_is_exact():
    """`tok-added`: four tokens more at the end; a warning, and the same text as without drafts."""
    model, tokenizer = zoo.build_model("llama", vocab_size=VOCAB_SIZE), byte_level_tokenizer()
    target = TransformersTarget(model, tokenizer)
    stopping = Stopping(max_new_tokens=20, ignore_eos=True)
    head = head_for(target, phrases_of(plain(target, stopping=stopping).tokens))
    model.resize_token_embeddings(VOCAB_SIZE + 4, mean_resizing=False)
    with torch.no_grad():
        model.get_output_embeddings().weight[VOCAB_SIZE:] *= 50  # so that they are said
    assert target.identity.vocab_size == VOCAB_SIZE + 4
    with pytest.warns(UserWarning, match="has 4 tokens more than the head was trained for"):
        decoder = Decoder(target, head, num_draft_tokens=16)
    generation = decoder.generate(PROMPT, stopping=stopping)
    assert list(generation.tokens) == generated(model, PROMPT, 20)
    assert generation.tokens == plain(target, stopping=stopping).tokens
    assert generation.stats.num_draft_tokens > 0


def test_tok_prefix_space_mined_phrases_are_ids_in_context_and_not_the_ids_of_their_text():
    """`tok-prefix-space`: a phrase inside a word has no space in front, which encoding its text would add."""
    tokenizer = prefix_space_tokenizer()
    answers = [tokenizer(text * 3, add_special_tokens=False)["input_ids"] for text in CORPUS * 2]
    pieces = TokenPieces.from_tokenizer(tokenizer, len(tokenizer))
    vocabulary = mine_spans(
        answers, pieces, VocabularySettings(num_phrases=60, min_count=2, min_answers=1, close_prefixes=False)
    )
    phrases = [vocabulary.expand(number) for number in range(len(vocabulary))]
    assert sum(len(phrase) > 1 for phrase in phrases) > 10
    said = {tuple(answer[at : at + n]) for answer in answers for n in range(1, 13) for at in range(len(answer))}
    assert set(phrases) <= said
    spelled_anew = [
        tuple(tokenizer(tokenizer.decode(phrase), add_special_tokens=False)["input_ids"]) for phrase in phrases
    ]
    assert any(anew != phrase for anew, phrase in zip(spelled_anew, phrases, strict=True))


def test_tok_vocab_check_a_head_of_another_target_is_refused_with_both_values():
    """`tok-vocab-check`: another hidden size, a smaller vocabulary, another tokenizer; never garbage."""
    head = head_for(text_target(), [(1, 2), (3,)])
    for target, message in (
        (
            TransformersTarget(zoo.build_model("llama", vocab_size=VOCAB_SIZE, hidden_size=16)),
            "hidden size 32.* has 16",
        ),
        (target_of(), f"vocabulary of {VOCAB_SIZE} tokens, .* has 96"),
        (
            TransformersTarget(zoo.build_model("llama", vocab_size=400), prefix_space_tokenizer()),
            "was trained for tokenizer",
        ),
    ):
        with pytest.raises(HeadMismatchError, match=message) as error:
            Decoder(target, head)
        assert "phrasedraft fit" in error.value.hint


def test_tok_uag_pos_arguments_for_the_target_never_reach_the_drafter():
    """`tok-uag-pos`: `position_ids` and `token_type_ids` are passed on their own, and the text is the same."""
    model, answer = zoo.tiny_model("llama"), greedy_answer("llama", 20)
    generate = phrase_generate(RightUntilDrafter(answer), num_draft_tokens=5)
    tokens = generated(model, PROMPT, 20, custom_generate=generate, position_ids=torch.arange(len(PROMPT))[None])
    assert tuple(tokens) == answer
    assert generate.stats.num_accepted_tokens > 0


def test_an_untrained_phrase_head_drafts_and_changes_nothing():
    target, answer = target_of(), greedy_answer("llama", 20)
    head = head_for(target, phrases_of(answer))
    generation = Decoder(target, head, num_draft_tokens=24).generate(PROMPT, stopping=STOPPING)
    assert generation.tokens == answer
    assert generation.stats.num_accepted_tokens > 0
