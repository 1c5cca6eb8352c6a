"""Reading, checking and encoding conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_tools import default_tokenizer, with_template

from cerne.data.conversation_tokens import (
    encode_conversation,
    encode_conversations,
    is_held_out,
    to_labels,
)
from cerne.data.conversations import (
    BadRowError,
    Conversation,
    ConversationConfig,
    Message,
    conversation_sources,
    parse_row,
    read_conversations,
)
from cerne.data.report import RowReport
from cerne.errors import ConfigError, DataError, TokenizerError

HELLO = (Message("user", "hello"), Message("assistant", "world"))


def write(path: Path, rows: list[Any]) -> str:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def turns(*contents: str) -> tuple[Message, ...]:
    return tuple(Message("assistant" if i % 2 else "user", text) for i, text in enumerate(contents))


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "hello"},
                      {"role": "assistant", "content": "world"}]},
        {"conversations": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "world"}]},
        {"prompt": "hello", "response": "world"},
        {"prompt": "hello", "completion": "world", "other": 3},
        {"question": "hello", "answer": "world"},
        {"instruction": "hello", "input": "", "output": "world"},
        {"instruction": "hello", "output": "world"},
    ],
)  # fmt: skip
def test_row_formats(row: dict[str, Any]) -> None:
    assert parse_row(row) == HELLO


def test_instruction_with_input_and_sharegpt_with_system() -> None:
    row = {"instruction": "Name it.", "input": "a red ball", "output": "ball"}
    assert parse_row(row)[0].content == "Name it.\n\na red ball"
    row = {"system": "be kind", "conversations": [{"from": "human", "value": "a"},
                                                  {"from": "gpt", "value": "b"}]}  # fmt: skip
    assert [m.role for m in parse_row(row)] == ["system", "user", "assistant"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "no known conversation fields"),
        ({"text": "x"}, "no known conversation fields"),
        ({"messages": []}, "not a list of messages"),
        ({"messages": "x"}, "not a list of messages"),
        ({"messages": ["x"]}, "not an object"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "unknown role"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "unknown role"),
        ({"messages": [{"role": {}, "content": "x"}]}, "unknown role"),
        ({"messages": [{"role": "user", "content": 3}]}, "not text"),
        ({"messages": [{"role": "user", "content": "x"}]}, "no answer at the end"),
        ({"prompt": " ", "response": "x"}, "empty message"),
        ({"prompt": "x", "response": ""}, "empty message"),
        ({"prompt": "x", "response": None}, "not text"),
        ({"instruction": "x", "input": 3, "output": "y"}, "not text"),
    ],
)
def test_bad_rows_say_why(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRowError, match=reason):
        parse_row(row)


@pytest.mark.parametrize(
    "roles",
    [
        ["assistant"],
        ["user", "user", "assistant"],
        ["user", "assistant", "assistant"],
        ["user", "system", "assistant"],
        ["user", "tool", "assistant"],
        ["system", "assistant"],
        ["user", "assistant", "user"],
    ],
)
def test_roles_out_of_order(roles: list[str]) -> None:
    with pytest.raises(BadRowError):
        parse_row({"messages": [{"role": role, "content": "x"} for role in roles]})


def test_tool_turns_are_accepted() -> None:
    roles = ["system", "user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
    row = {"messages": [{"role": role, "content": "x"} for role in roles]}
    assert [m.role for m in parse_row(row)] == roles


def test_bad_rows_are_counted_with_file_and_line(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        [{"prompt": "a", "response": "b"}, "{broken", {"prompt": "a"}, {"prompt": "c",
         "response": "d"}],
    )  # fmt: skip
    report = RowReport(max_bad_fraction=0.9)
    config = ConversationConfig(path=path)
    found = list(read_conversations(config.paths, config, report))
    assert [(c.line, c.messages[0].content) for c in found] == [(1, "a"), (4, "c")]
    assert (report.good, report.bad) == (2, 2)
    assert [example.split(":")[1] for example in report.examples] == ["2", "3"]
    with pytest.raises(DataError, match="2 of 4 rows cannot be used"):
        list(read_conversations(config.paths, config, RowReport(0.01)))


def test_no_usable_row_and_plain_text_are_errors(tmp_path: Path) -> None:
    empty = write(tmp_path / "a.jsonl", [])
    text = write(tmp_path / "a.txt", ["hello"])
    for path in (empty, text):
        config = ConversationConfig(path=path)
        with pytest.raises(DataError):
            list(read_conversations(config.paths, config, RowReport(1.0)))


def test_system_message_of_the_recipe(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"prompt": "a", "response": "b"}])
    config = ConversationConfig(path=path, system="Answer briefly.")
    (found,) = read_conversations(config.paths, config, RowReport())
    assert found.messages[0] == Message("system", "Answer briefly.")


def test_world_conversations() -> None:
    config = ConversationConfig(path="world:mix?conversations=5&seed=3&turns=2")
    found = list(read_conversations(config.paths, config, RowReport()))
    assert len(found) == 5
    assert all(c.messages[-1].role == "assistant" for c in found)
    assert max(len(c.messages) for c in found) <= 4
    again = list(read_conversations(config.paths, config, RowReport()))
    assert found == again
    assert len(conversation_sources(config.paths)[0]["sha256"]) == 64
    for bad in ("world:xx", "world:en?conversations=0", "world:en?documents=3"):
        with pytest.raises(DataError, match="not an address"):
            list(read_conversations((bad,), config, RowReport()))


def test_empty_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty path"):
        from cerne.config import load_recipe

        load_recipe(ConversationConfig, None, ["path="])


def test_encoding_masks_the_answer_and_its_end() -> None:
    tokenizer = default_tokenizer()
    example = encode_conversation(Conversation(HELLO), tokenizer)
    answer = tokenizer.encode("world")
    assert example.num_supervised == len(answer) + 1
    labels_T = to_labels(example.ids_T, example.mask_T)
    assert labels_T[labels_T != -100].tolist() == [*answer, tokenizer.end_of_turn_id]
    assert labels_T[-1] == -100


@pytest.mark.parametrize("policy", ["drop-turns", "skip"])
def test_too_long_conversations_lose_whole_turns_or_are_skipped(policy: Any) -> None:
    tokenizer = default_tokenizer()
    long = Conversation(turns("hello", "world", "the fox", "the dog " * 30), "f.jsonl", 7)
    never = Conversation(turns("fox " * 50, "dog"), "f.jsonl", 8)
    short = encode_conversation(Conversation(long.messages[:2]), tokenizer)
    limit = len(short.ids_T)
    encoded, report = encode_conversations(
        [long, never, Conversation(HELLO)], tokenizer, limit, policy
    )
    if policy == "drop-turns":
        assert len(encoded) == 2
        assert encoded[0].ids_T.tolist() == short.ids_T.tolist()
        assert (report.shortened, report.dropped_turns, report.skipped_too_long) == (1, 1, 1)
        assert report.examples == [f"f.jsonl:8: longer than {limit} tokens"]
    else:
        assert len(encoded) == 1
        assert (report.shortened, report.skipped_too_long) == (0, 2)
    assert report.tokens == sum(len(e.ids_T) for e in encoded)
    assert report.supervised_tokens == sum(int(e.mask_T.sum()) for e in encoded)


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(DataError, match="no conversation is left"):
        encode_conversations([Conversation(HELLO)], default_tokenizer(), 3)


def test_case44_template_without_end_of_turn_is_refused_for_training() -> None:
    tokenizer = with_template("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}")
    with pytest.raises(TokenizerError, match="never stop"):
        encode_conversation(Conversation(HELLO), tokenizer)


def test_held_out_share_is_stable_and_by_question() -> None:
    many = [Conversation(turns(f"question {i}", "x")) for i in range(2000)]
    held = [is_held_out(c, 0.1) for c in many]
    assert 140 < sum(held) < 260
    assert not any(is_held_out(c, 0.0) for c in many)
    other = [Conversation(turns(f"question {i}", "y", "more", "z")) for i in range(2000)]
    assert held == [is_held_out(c, 0.1) for c in other]


def test_mask_dtype_and_ids() -> None:
    example = encode_conversation(Conversation(HELLO), default_tokenizer())
    assert example.ids_T.dtype == np.uint32
    assert example.mask_T.dtype == np.bool_
