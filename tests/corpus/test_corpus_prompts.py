import gzip
import json
from datetime import date

import pytest

from answering import ending_target, with_template, write_jsonl
from phrasedraft.corpus.prompts import Message, TrainingPrompt, read_prompts
from phrasedraft.corpus.template import (
    TemplateSettings,
    check_template,
    encode_prompt,
    end_of_turn,
    has_template,
    template_fingerprint,
)
from phrasedraft.errors import DataError, OptionError, PromptError
from texts import CHAT_TEMPLATE, END_OF_TURN

TODAY = date(2026, 1, 2)
THINKING_TEMPLATE = CHAT_TEMPLATE.replace(
    "<|im_start|>assistant\n{%", "<|im_start|>assistant\n{% if enable_thinking is false %}no {% endif %}{%"
)
USER = {"role": "user", "content": "and now?"}


def read_one(tmp_path, record):
    (prompt,) = read_prompts(write_jsonl(tmp_path / "prompts.jsonl", [record])).prompts
    return prompt


def said(prompt):
    return [(message.role, message.content) for message in prompt.opening]


def text_of(target, prompt, settings=None, answers=()):
    return target.tokenizer.decode(encode_prompt(target, prompt, settings or TemplateSettings(), TODAY, answers))


@pytest.mark.parametrize(
    ("record", "opening"),
    [
        ({"turns": ["hello"]}, [("user", "hello")]),
        ({"messages": [USER]}, [("user", "and now?")]),
        ({"conversations": [{"from": "human", "value": "hello"}]}, [("user", "hello")]),
        (
            {"conversations": [{"from": "system", "value": "be brief"}, USER]},
            [("system", "be brief"), ("user", "and now?")],
        ),
        ({"conversations": [{"from": "user", "value": "hi"}]}, [("user", "hi")]),
        ({"prompt": "hello"}, [("user", "hello")]),
        ({"prompt": [USER]}, [("user", "and now?")]),
    ],
)
def test_every_shape_people_use_is_a_conversation(tmp_path, record, opening):
    assert said(read_one(tmp_path, record)) == opening


def test_a_final_answer_is_dropped_and_earlier_ones_stay(tmp_path):
    earlier = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}, {"from": "human", "value": "bye"}]
    prompt = read_one(tmp_path, {"conversations": [*earlier, {"from": "gpt", "value": "not the target's"}]})
    assert said(prompt) == [("user", "hi"), ("assistant", "hello"), ("user", "bye")]
    assert prompt.num_answers == 1


def test_each_of_several_turns_is_answered_after_the_targets_own_answers(tmp_path):
    target = ending_target()
    prompt = read_one(tmp_path, {"id": "a", "turns": ["one", "two", "three"]})
    assert prompt.answer_ids == ("a", "a#2", "a#3")
    assert text_of(target, prompt).count("<|im_start|>user") == 1
    third = text_of(target, prompt, answers=["1st", "2nd"])
    assert third.split("<|im_start|>")[1:] == [
        f"{part}<|im_end|>\n" for part in ("user\none", "assistant\n1st", "user\ntwo", "assistant\n2nd", "user\nthree")
    ] + ["assistant\n"]


def test_text_is_what_the_target_goes_on_with_and_sees_no_template(tmp_path):
    prompt = read_one(tmp_path, {"text": "the answer is"})
    assert text_of(ending_target(), prompt, TemplateSettings(system_prompt="be brief")) == "the answer is"


def test_shapes_may_be_mixed_packed_and_in_one_record_where_the_first_named_counts(tmp_path):
    records = [
        {"prompt": "title", "messages": [USER]},  # as UltraChat has it
        {"messages": None, "prompt": "hello", "answer": "42"},
        {"text": "once"},
    ]
    path = tmp_path / "mixed.jsonl.gz"
    data = b"\xef\xbb\xbf" + "\r\n\n".join(map(json.dumps, records)).encode()
    path.write_bytes(gzip.compress(data))
    file = read_prompts(path)
    assert file.name == "mixed"
    assert [said(prompt) for prompt in file.prompts] == [[("user", "and now?")], [("user", "hello")], []]
    plain = tmp_path / "mixed.jsonl"
    plain.write_bytes(data)
    assert read_prompts(plain) == file


def test_a_prompt_without_an_id_is_called_by_its_file_and_line(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"prompt": "x"}, {"prompt": "y", "id": 7}, {"prompt": "z"}])
    assert [prompt.id for prompt in read_prompts(path).prompts] == ["a:1", "7", "a:3"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{nope", "line 2 is not JSON"),
        ('{"turns": ["\\ud8', "line 2 is not JSON"),
        ("[1]", "line 2: is a list, not an object"),
        ("{}", "line 2: has none of `turns`, `messages`"),
        ('{"turns": []}', "line 2: `turns` is `[]`"),
        ('{"turns": "hello"}', "line 2: `turns` is `'hello'`, it must be a list"),
        ('{"turns": ["hello", " "]}', "line 2: a turn is `' '`"),
        ('{"prompt": 7}', "line 2: `prompt` is `7`"),
        ('{"text": ""}', "line 2: `text` is `''`"),
        ('{"messages": ["hello"]}', "line 2: a message is `'hello'`"),
        ('{"messages": [{"role": "robot", "content": "x"}]}', "line 2: a message has `role` `'robot'`"),
        ('{"conversations": [{"value": "x"}]}', "line 2: a message has `from` `None`"),
        ('{"messages": [{"role": "user", "content": [1]}]}', "line 2: a message of `user` has `content` `[1]`"),
        ('{"messages": [{"role": "assistant", "content": "x"}]}', "line 2: has no message of the user"),
        (
            '{"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]}',
            "line 2: ends with a message of `system`",
        ),
        ('{"prompt": "x", "id": ""}', "line 2: `id` is `''`"),
        ('{"prompt": "x", "id": "a"}', "line 2 has the id `a`, which line 1 has too"),
        ('{"turns": ["x", "y"], "id": "b"}', "line 2 has the id `b#2`, which line 1 has too"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_with_its_number_and_reason(tmp_path, line, reason):
    path = tmp_path / "prompts.jsonl"
    first = "b#2" if "b#2" in reason else "a"
    path.write_text(json.dumps({"prompt": "fine", "id": first}) + "\n" + line)
    with pytest.raises(DataError) as caught:
        read_prompts(path)
    assert reason in str(caught.value)
    assert caught.value.hint


def test_no_prompts_no_file_and_a_damaged_file_are_each_one_clear_error(tmp_path):
    empty, cut = tmp_path / "empty.jsonl", tmp_path / "cut.jsonl.gz"
    empty.write_text("\n\n")
    cut.write_bytes(gzip.compress(b'{"prompt": "x"}\n' * 100)[:-9])
    for path, message in (
        (empty, "there are no prompts in"),
        (cut, "is damaged"),
        (tmp_path / "missing.jsonl", "cannot be read"),
    ):
        with pytest.raises(DataError, match=message):
            read_prompts(path)


def test_a_system_message_of_its_own_wins_over_the_settings(tmp_path):
    target, settings = ending_target(), TemplateSettings(system_prompt="be brief")
    without = read_one(tmp_path, {"prompt": "hello"})
    own = read_one(tmp_path, {"messages": [{"role": "system", "content": "be long"}, USER]})
    assert "system\nbe brief" in text_of(target, without, settings)
    assert "be long" in text_of(target, own, settings)
    assert "be brief" not in text_of(target, own, settings)


def test_the_thinking_switch_reaches_a_template_that_reads_it(tmp_path):
    target = with_template(ending_target(), THINKING_TEMPLATE)
    prompt = read_one(tmp_path, {"prompt": "hello"})
    texts = {value: text_of(target, prompt, TemplateSettings(thinking=value)) for value in ("default", "on", "off")}
    assert texts["off"] == texts["on"] + "no "
    assert texts["default"] == texts["on"]
    check_template(target, [prompt], TemplateSettings(thinking="off"))  # without a warning, which would be an error
    with pytest.raises(OptionError, match="`thinking` is `maybe`, it may be `default`, `on`, `off`"):
        TemplateSettings(thinking="maybe")


def test_a_template_setting_without_effect_warns(tmp_path):
    chat, text = read_one(tmp_path, {"prompt": "hello"}), read_one(tmp_path, {"text": "hello"})
    with pytest.warns(UserWarning, match="reads no `enable_thinking`: `thinking` has no effect"):
        check_template(ending_target(), [chat], TemplateSettings(thinking="on"))
    deaf = CHAT_TEMPLATE.replace(
        "{% for message in messages %}", "{% for message in messages if message.role != 'system' %}"
    )
    with pytest.warns(UserWarning, match="writes no system message"):
        check_template(with_template(ending_target(), deaf), [chat], TemplateSettings(system_prompt="be brief"))
    with pytest.warns(UserWarning, match="all prompts are plain `text`"):
        check_template(ending_target(), [text], TemplateSettings(system_prompt="be brief"))


def test_a_target_without_a_template_takes_text_only(tmp_path):
    target = ending_target(chat=False)
    check_template(target, [read_one(tmp_path, {"text": "hello"})], TemplateSettings())
    with pytest.raises(
        PromptError, match="prompt `c` is a conversation, and the tokenizer of `tiny` has no chat"
    ) as caught:
        check_template(target, [read_one(tmp_path, {"prompt": "hello", "id": "c"})], TemplateSettings())
    assert '{"text": "..."}' in caught.value.hint
    assert not has_template(target)


def test_the_fingerprint_changes_with_template_switch_and_system_prompt_and_with_nothing_else():
    target = with_template(ending_target(), THINKING_TEMPLATE)
    prints = [
        template_fingerprint(target, TemplateSettings()),
        template_fingerprint(target, TemplateSettings(thinking="off")),
        template_fingerprint(target, TemplateSettings(system_prompt="be brief")),
        template_fingerprint(with_template(target, CHAT_TEMPLATE + " "), TemplateSettings()),
    ]
    assert len(set(prints)) == 4
    assert template_fingerprint(with_template(target, THINKING_TEMPLATE), TemplateSettings()) == prints[0]


def test_a_date_in_the_template_is_the_one_given_and_not_part_of_the_fingerprint():
    template = "Today is {{ strftime_now('%d %B %Y') }}.\n" + CHAT_TEMPLATE
    target = with_template(ending_target(), template)
    prompt = TrainingPrompt(id="a", opening=(Message(role="user", content="hello"),))
    assert text_of(target, prompt).startswith("Today is 02 January 2026.\n<|im_start|>user")
    frozen = with_template(target, template.replace("{{ strftime_now('%d %B %Y') }}", "01 January 2000"))
    assert template_fingerprint(target, TemplateSettings()) == template_fingerprint(frozen, TemplateSettings())


def test_the_end_of_a_turn_is_the_one_the_template_writes():
    target = ending_target()
    assert end_of_turn(target) == target.tokenizer.convert_tokens_to_ids(END_OF_TURN)
    other = with_template(target, CHAT_TEMPLATE.replace("<|im_end|>", "<|endoftext|>"))
    assert end_of_turn(other) == other.tokenizer.eos_token_id  # the template's own end is none the target knows
    assert end_of_turn(ending_target(chat=False)) == target.tokenizer.eos_token_id


@pytest.mark.parametrize(
    "record",
    [
        {"turns": ["a cut \ud83d"]},
        {"text": "\udc00 begins"},
        {"messages": [{"role": "user", "content": "a \ud83d b"}]},
    ],
)
def test_half_a_character_is_named_with_its_line(tmp_path, record):
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps({"turns": ["good"]}) + "\n" + json.dumps(record) + "\n")
    with pytest.raises(DataError, match=r"line 2: .* holds half of a character") as caught:
        read_prompts(path)
    assert "cut" in caught.value.hint
