"""Chat rendering against transformers' apply_chat_template, template by template."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from chat_tools import FAMILIES, chat, family_tokenizer

from cerne.tokenizer.chat import render

transformers = pytest.importorskip("transformers")

DIALOGUES: dict[str, list[dict[str, Any]]] = {
    "one turn": chat("hello world", "the answer"),
    "two turns": chat("What colour is the ball?", "red", "And the fox?", "def f(x): x"),
    "system": chat("hello", "world", system="You are a helpful assistant."),
    "unicode": chat("O cachorro e a a\u00e7\u00e3o, \u044d\u0442\u043e \U0001f600", "\u4f60\u597d"),
}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"x": "number <b>"}}}]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    loaded = {}
    for name in ["default", *FAMILIES]:
        folder: Path = tmp_path_factory.mktemp(name)
        family_tokenizer(name).save(folder)
        loaded[name] = transformers.AutoTokenizer.from_pretrained(folder)
    return loaded


@pytest.mark.parametrize("dialogue", DIALOGUES)
@pytest.mark.parametrize("name", ["default", *FAMILIES])
def test_ids_equal_transformers(name: str, dialogue: str, saved: dict[str, Any]) -> None:
    messages = DIALOGUES[dialogue]
    if dialogue == "system" and name in ("mistral", "gemma"):
        pytest.skip("the template has no system role")
    for messages_shown, prompt in ((messages, False), (messages[:-1], True)):
        expected = saved[name].apply_chat_template(
            messages_shown, add_generation_prompt=prompt, tokenize=True, return_dict=False
        )
        ours = render(
            messages_shown,
            family_tokenizer(name),
            add_generation_prompt=prompt,
            date=datetime.now(),
        )
        assert ours.text == saved[name].apply_chat_template(
            messages_shown, add_generation_prompt=prompt, tokenize=False
        )
        assert ours.ids == expected


@pytest.mark.parametrize("name", ["default", "generation_marks"])
def test_masks_equal_transformers_where_the_template_marks(
    name: str, saved: dict[str, Any]
) -> None:
    messages = DIALOGUES["two turns"]
    expected = saved[name].apply_chat_template(
        messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    ours = render(messages, family_tokenizer(name))
    theirs = [bool(m) for m in expected["assistant_masks"]]
    if name == "generation_marks":
        # Its blocks go on for a line break after the end of turn, which is not worth learning.
        for _, stop in ours.spans:
            theirs[stop] = False
    assert ours.mask == theirs


@pytest.mark.parametrize("name", ["llama3", "qwen3"])
def test_tools_equal_transformers(name: str, saved: dict[str, Any]) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": 3, "y": "\u00e9"}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "call it"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": "four"},
    ]
    expected = saved[name].apply_chat_template(
        messages, tools=TOOLS, tokenize=True, return_dict=False
    )
    ours = render(messages, family_tokenizer(name), tools=TOOLS, date=datetime.now())
    assert ours.text == saved[name].apply_chat_template(messages, tools=TOOLS, tokenize=False)
    assert family_tokenizer(name).decode(ours.ids) == saved[name].decode(expected)
    assert ours.ids == expected
