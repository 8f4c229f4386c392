"""Scripts unlike English: many tokens a word, no spaces between words, code. The texts were written for these tests."""

import random
import re
from functools import cache

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from phrasedraft.phrases import METHODS, TokenPieces, VocabularySettings, mine
from phrasedraft.target.loading import load_tokenizer

HINDI = (
    "विद्यार्थियों को प्रतिदिन विद्यालय जाना चाहिए।",
    "इस प्रश्न का उत्तर यह है कि संख्या बारह है।",
    "भारत में बहुत सी भाषाएँ बोली जाती हैं।",
    "पहले हम दोनों संख्याओं को जोड़ते हैं।",
)
TELUGU = (
    "విద్యార్థులు ప్రతిరోజూ పాఠశాలకు వెళ్తారు.",
    "ఈ ప్రశ్నకు సమాధానం పన్నెండు అవుతుంది.",
    "తెలుగు భాష చాలా అందమైనది.",
    "ముందుగా రెండు సంఖ్యలను కలుపుదాం.",
)
CHINESE = (
    "我们需要先计算总数,然后除以三。",
    "所以这个问题的答案是十二。",
    "人工智能可以帮助学生学习数学。",
    "首先把两个数字相加,再乘以五。",
)
CODE = (
    "def add(self, left, right):\n    return left + right\n",
    "for i in range(len(items)):\n    total += items[i]\n",
    "if value is None:\n    raise ValueError('no value')\n",
    "with open(path) as file:\n    return json.load(file)\n",
)
SENTENCES = {"hindi": HINDI, "telugu": TELUGU, "chinese": CHINESE, "code": CODE}


@cache
def tokenizer_of(language: str, num_merges: int = 60) -> PreTrainedTokenizerFast:
    """A byte-level BPE that has seen a little of the language: several tokens a Hindi or Telugu word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=256 + num_merges, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES[language] * 3, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def answers_of(language: str, tokenizer, count: int = 24) -> list[list[int]]:
    """Answers of three sentences each, no two sentences always together."""
    draw = random.Random(0)
    texts = [" ".join(draw.sample(SENTENCES[language], 3)) for _ in range(count)]
    return [tokenizer.encode(text, add_special_tokens=False) for text in texts]


def mined(language: str, tokenizer=None, **settings) -> tuple[set[tuple[int, ...]], TokenPieces]:
    tokenizer = tokenizer or tokenizer_of(language)
    pieces = TokenPieces.from_tokenizer(tokenizer, len(tokenizer))
    vocabulary = mine(answers_of(language, tokenizer), pieces, VocabularySettings(**settings))
    return {vocabulary.expand(phrase) for phrase in range(len(vocabulary))}, pieces


@cache
def embedded() -> tuple[PreTrainedTokenizerFast, TokenPieces]:
    tokenizer, vocab_size = load_tokenizer("smollm2-135m")
    assert vocab_size == len(tokenizer)
    return tokenizer, TokenPieces.from_tokenizer(tokenizer, vocab_size)


def texts_of(phrases: set[tuple[int, ...]], pieces: TokenPieces) -> set[str]:
    """The phrases that are whole text, as text."""
    return {text for text in (pieces.text(phrase) for phrase in phrases) if "\ufffd" not in text}


@pytest.mark.parametrize("language", ["hindi", "telugu"])
def test_words_between_spaces_are_counted_whatever_they_are_split_into(language):
    tokenizer = tokenizer_of(language)
    pieces = TokenPieces.from_tokenizer(tokenizer, len(tokenizer))
    for sentence in SENTENCES[language]:
        tokens = tokenizer.encode(sentence, add_special_tokens=False)
        assert pieces.num_words(tokens) == len(sentence.split())
        assert len(tokens) > 2 * len(sentence.split())


@pytest.mark.parametrize(
    ("language", "phrase", "longer"),
    [
        ("hindi", " को प्रतिदिन विद्यालय", " को प्रतिदिन विद्यालय जाना"),
        ("telugu", " ప్రశ్నకు సమాధానం పన్నెండు", " ప్రశ్నకు సమాధానం పన్నెండు అవుతుంది"),
        ("chinese", "人工智能可以", "人工智能可以帮"),
        ("code", " in range(len(", " in range(len(items"),
    ],
)
@pytest.mark.parametrize("method", ["prefixes", "spans"])
def test_three_words_are_within_reach_and_the_fourth_is_not(language, phrase, longer, method):
    phrases, pieces = mined(language, method=method)
    texts = texts_of(phrases, pieces)
    assert phrase in texts
    assert longer not in texts


def test_words_of_many_tokens_make_longer_phrases_than_twelve_tokens():
    for language in ("hindi", "telugu"):
        phrases, pieces = mined(language)
        longest = max(phrases, key=len)
        assert 12 < len(longest) <= 36
        assert pieces.num_words(longest) >= 2
        assert max(len(phrase) for phrase in phrases if pieces.num_words(phrase) <= 1) <= 12


def test_words_of_more_than_twelve_tokens_are_within_reach_where_settings_say_so():
    spelled_in_bytes = tokenizer_of("telugu", 0)
    word = tuple(spelled_in_bytes.encode(" పాఠశాలకు", add_special_tokens=False))
    assert len(word) == 25
    assert word not in mined("telugu", spelled_in_bytes)[0]
    assert word in mined("telugu", spelled_in_bytes, max_tokens_per_word=30)[0]


@pytest.mark.parametrize("max_words", [1, 2, 3, 8])
def test_a_chinese_phrase_has_two_characters_for_each_word_allowed(max_words):
    phrases, pieces = mined("chinese", max_words=max_words)
    longer = texts_of({phrase for phrase in phrases if len(phrase) > 1}, pieces)
    most = max(len(re.findall(r"[\u4e00-\u9fff]", text)) for text in longer)
    assert most == 2 * max_words


def test_code_phrases_cross_signs_and_indentation():
    phrases, pieces = mined("code")
    texts = texts_of(phrases, pieces)
    assert {" None:\n    raise", "):\n    return", " as file:\n    return"} <= texts


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("method", METHODS)
def test_most_of_a_text_is_covered_by_long_phrases_in_any_script(language, method):
    phrases, pieces = mined(language, method=method, num_phrases=600)
    assert all(phrase[:-1] in phrases for phrase in phrases if len(phrase) > 1)
    answers = answers_of(language, tokenizer_of(language))
    said = {tuple(answer[at : at + size]) for answer in answers for at in range(len(answer)) for size in range(1, 37)}
    assert phrases <= said
    assert sum(map(len, phrases)) / len(phrases) > 2
    assert all(pieces.num_words(phrase) <= 3 for phrase in phrases if len(phrase) > 1)


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("language", "phrase", "num_tokens"),
    [
        ("hindi", " को प्रतिदिन विद्यालय", 21),
        ("chinese", "人工智能可以", 9),
        ("code", "):\n    return", 3),
    ],
)
def test_the_embedded_target_spells_scripts_in_phrases_that_can_be_mined(language, phrase, num_tokens):
    tokenizer, pieces = embedded()
    answers = answers_of(language, tokenizer)
    vocabulary = mine(answers, pieces, VocabularySettings())
    phrases = {vocabulary.expand(number) for number in range(len(vocabulary))}
    assert phrase in texts_of(phrases, pieces)
    assert num_tokens in {len(tokens) for tokens in phrases if pieces.text(tokens) == phrase}
