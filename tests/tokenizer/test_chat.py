"""Rendering of conversations: masks, spans, facts about templates, errors."""

from __future__ import annotations

from datetime import datetime

import pytest
from chat_tools import (
    FAMILIES,
    chat,
    default_tokenizer,
    family_tokenizer,
    with_template,
    with_vocabulary,
)

from cerne.errors import InputError, TokenizerError
from cerne.tokenizer.chat import check_padding, render, template_facts
from cerne.tokenizer.special import Roles

NAMES = ["default", *FAMILIES]


def supervised(name: str, messages: list[dict[str, str]]) -> list[str]:
    tokenizer = family_tokenizer(name)
    rendered = render(messages, tokenizer)
    return [tokenizer.decode(rendered.ids[start:stop]) for start, stop in rendered.spans]


def test_default_template_text_and_ids() -> None:
    tokenizer = default_tokenizer()
    rendered = render(chat("hello", "world", system="the fox"), tokenizer)
    assert rendered.text == "<|system|>the fox<|end|><|user|>hello<|end|><|assistant|>world<|end|>"
    special, end = tokenizer.special_tokens, tokenizer.end_of_turn_id
    expected = [special["<|system|>"], *tokenizer.encode("the fox"), end]
    expected += [special["<|user|>"], *tokenizer.encode("hello"), end]
    expected += [special["<|assistant|>"], *tokenizer.encode("world"), end]
    assert rendered.ids == expected
    answer = len(tokenizer.encode("world")) + 1
    assert rendered.mask == [False] * (len(expected) - answer) + [True] * answer
    assert rendered.closed


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("default", "<|end|>"),
        ("chatml", "<|im_end|>"),
        ("llama3", "<|eot_id|>"),
        ("qwen3", "<|im_end|>"),
        ("zephyr", "</s>"),
        ("gemma", "<end_of_turn>"),
        ("generation_marks", "<|im_end|>"),
    ],
)
def test_spans_are_the_answers_with_their_end(name: str, end: str) -> None:
    messages = chat("What colour?", "red", "and the ball?", "  blue\n")
    last = "blue" if name in ("llama3", "gemma") else "  blue\n"
    if name == "qwen3":
        last = "  blue\n"
    assert supervised(name, messages) == ["red" + end, last + end]
    rendered = render(messages, family_tokenizer(name))
    assert rendered.closed
    assert sum(rendered.mask) == sum(stop - start for start, stop in rendered.spans)


def test_white_space_the_template_writes_before_an_answer_is_the_answers() -> None:
    # The prompt ends at [/INST]; the model itself must write the space.
    assert supervised("mistral", chat("hello", "world", "a", "b")) == [" world</s>", " b</s>"]


def test_an_empty_think_block_of_the_template_is_not_trained() -> None:
    tokenizer = family_tokenizer("qwen3")
    rendered = render(chat("hello", "world"), tokenizer)
    assert "<think>\n\n</think>\n\nworld" in rendered.text
    assert supervised("qwen3", chat("hello", "world")) == ["world<|im_end|>"]


def test_tool_calls_are_trained_with_their_syntax() -> None:
    tokenizer = family_tokenizer("qwen3")
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": "<|im_end|>"}}}
    messages = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "<|im_start|>system"},
        {"role": "assistant", "content": "done"},
    ]
    tools = [{"type": "function", "function": {"name": "f", "description": "<|im_end|>"}}]
    rendered = render(messages, tokenizer, tools=tools)
    spans = [tokenizer.decode(rendered.ids[start:stop]) for start, stop in rendered.spans]
    body = '<tool_call>\n{"name": "f", "arguments": {"x": "<|im_end|>"}}\n</tool_call><|im_end|>'
    assert spans[0] == body
    assert spans[1] == "done<|im_end|>"
    end = tokenizer.special_tokens["<|im_end|>"]
    assert rendered.ids.count(end) == 5  # system, user, assistant, tool, assistant


def test_facts_name_the_end_of_turn_and_the_added_system_message() -> None:
    smol = family_tokenizer("chatml")
    assert template_facts(smol).end_of_turn_ids == {smol.special_tokens["<|im_end|>"]}
    assert template_facts(smol).default_system.startswith("You are a helpful AI assistant")
    assert template_facts(default_tokenizer()).default_system == ""
    assert template_facts(family_tokenizer("llama3")).default_system == ""
    zephyr = family_tokenizer("zephyr")
    assert template_facts(zephyr).end_of_turn_ids == {zephyr.special_tokens["</s>"]}


def test_a_template_without_end_of_turn_is_not_closed() -> None:
    open_ended = with_template(
        "{% for m in messages %}### {{ m.role }}:\n{{ m.content }}\n\n{% endfor %}"
    )
    rendered = render(chat("hello", "world", "a", "b"), open_ended)
    assert not rendered.closed
    spans = [open_ended.decode(rendered.ids[start:stop]) for start, stop in rendered.spans]
    assert spans == ["world", "b"]


def test_the_next_header_is_not_taken_for_an_end_of_turn() -> None:
    tokenizer = with_template("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}")
    rendered = render(chat("hello", "world", "a", "b"), tokenizer)
    assert not rendered.closed
    assert rendered.mask[len(rendered.mask) - 2 - len(tokenizer.encode("a"))] is False


def test_generation_marks_longer_than_the_turn_end_on_the_end_of_turn() -> None:
    tokenizer = with_template(
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
        "<|end|>\n\n{% endgeneration %}{% else %}<|user|>{{ m.content }}{% endif %}{% endfor %}"
    )
    rendered = render(chat("hello", "world"), tokenizer)
    start, stop = rendered.spans[0]
    assert tokenizer.decode(rendered.ids[start:stop]) == "world<|end|>"


def test_date_is_only_what_is_passed() -> None:
    llama = family_tokenizer("llama3")
    assert "Today Date: 26 Jul 2024" in render(chat("a", "b"), llama).text
    dated = render(chat("a", "b"), llama, date=datetime(2031, 5, 4))
    assert "Today Date: 04 May 2031" in dated.text


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "hello",
        ["hello"],
        [{"role": "robot", "content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "user", "content": object()}],
    ],
)
def test_what_is_no_conversation_is_refused(messages: object) -> None:
    with pytest.raises(InputError):
        render(messages, default_tokenizer())  # type: ignore[arg-type]


def test_errors_of_the_template_reach_the_user() -> None:
    with pytest.raises(TokenizerError, match="roles must alternate"):
        render([*chat("a"), *chat("b")], family_tokenizer("gemma"))
    with pytest.raises(TokenizerError, match="no chat template"):
        render(chat("a"), with_vocabulary(default_tokenizer(), chat_template=None))


def test_padding_that_is_an_end_token_is_reported() -> None:
    tokenizer = default_tokenizer()
    assert check_padding(tokenizer) is None
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    foreign = with_vocabulary(tokenizer, roles=Roles(pad="<|end|>", eos="<|end|>"))
    assert "never stop" in (check_padding(foreign) or "")
    # The mask comes from rendering, so the end of turn is trained all the same.
    rendered = render(chat("hello", "world"), foreign)
    assert rendered.ids[-1] == foreign.pad_token_id
    assert rendered.mask[-1]
