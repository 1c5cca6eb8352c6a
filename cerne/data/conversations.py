"""Conversations for fine-tuning: typed messages, checks, and readers for the usual row formats.

`read_conversations` streams the conversations of JSONL, JSON and Parquet files and of the built-in
world (`world:mix?conversations=20000&seed=0`). A row that is no conversation is counted with file
and line, never guessed at. Leaves out: tokens (conversation_tokens.py), tool calls and images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs

from pydantic import Field, field_validator

from cerne.config import Config
from cerne.data.config import Errors
from cerne.data.report import RowReport
from cerne.data.rows import iterate_rows
from cerne.data.sources import WORLD_LANGUAGES, WORLD_PREFIX, Source, find_sources
from cerne.data.world import World
from cerne.errors import DataError, shorten

Role = Literal["system", "user", "assistant", "tool"]
RowFormat = Literal["auto", "messages", "sharegpt", "prompt", "instruction"]
TooLong = Literal["drop-turns", "skip"]

WORLD_CONVERSATIONS = 5000
WORLD_TURNS = 6
# Who may speak after whom; "" is the beginning.
_NEXT_ROLES: dict[str, tuple[Role, ...]] = {
    "": ("system", "user"),
    "system": ("user",),
    "user": ("assistant",),
    "assistant": ("user", "tool"),
    "tool": ("tool", "assistant"),
}
_SHAREGPT_ROLES: dict[str, Role] = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "observation": "tool",
    "tool": "tool",
}
_ANSWER_FIELDS = ("response", "completion", "answer")
_PROMPT_FIELDS = ("prompt", "question")


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `content` is plain text."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A checked conversation that ends with an answer, and where it was read."""

    messages: tuple[Message, ...]
    source: str = ""
    line: int = 0

    def as_dicts(self) -> list[dict[str, str]]:
        """The messages as chat templates and the engine take them."""
        return [{"role": m.role, "content": m.content} for m in self.messages]

    def without_last_turn(self) -> Conversation | None:
        """Up to the answer before the last user message; None when there is none."""
        last_user = max(i for i, m in enumerate(self.messages) if m.role == "user")
        kept = self.messages[:last_user]
        if not any(m.role == "assistant" for m in kept):
            return None
        return Conversation(kept, self.source, self.line)


class ConversationConfig(Config):
    """The `[data]` section of a fine-tuning recipe."""

    path: str | tuple[str, ...] = Field(
        default="world:mix",
        description="files, folders, globs, or world:LANGUAGE?conversations=N&seed=S&turns=T",
    )
    format: RowFormat = Field(
        default="auto",
        description="messages: list of role, content; sharegpt: conversations of from, value; "
        "prompt: prompt|question and response|completion|answer; instruction: instruction, input, "
        "output; auto: by the fields of each row",
    )
    system: str | None = Field(
        default=None, description="system message for conversations that bring none"
    )
    val_path: str | tuple[str, ...] | None = Field(
        default=None, description="held-out conversations; then nothing is split off `path`"
    )
    val_fraction: float = Field(
        default=0.02, ge=0.0, lt=1.0, description="held-out share, by a hash of the first question"
    )
    too_long: TooLong = Field(
        default="drop-turns",
        description="a conversation longer than a row: drop its last turns, or skip it; counted",
    )
    errors: Errors = Field(default="strict", description="invalid UTF-8, as in pre-training")
    max_bad_fraction: float = Field(
        default=0.01, ge=0.0, le=1.0, description="largest share of unusable rows that is accepted"
    )

    @field_validator("path", "val_path")
    @classmethod
    def _not_empty(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if value is not None and (not value or not all(value)):
            raise ValueError("an empty path; give a file, a folder, a glob or world:mix")
        return value

    @property
    def paths(self) -> tuple[str, ...]:
        """`path` as a tuple."""
        return (self.path,) if isinstance(self.path, str) else self.path

    @property
    def val_paths(self) -> tuple[str, ...]:
        """`val_path` as a tuple, empty when it is not given."""
        if self.val_path is None:
            return ()
        return (self.val_path,) if isinstance(self.val_path, str) else self.val_path


class BadRowError(ValueError):
    """A row that is no conversation: reason and detail for the report."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


def read_conversations(
    paths: tuple[str, ...],
    config: ConversationConfig,
    report: RowReport,
    on_rows: Callable[[int], None] | None = None,
) -> Iterator[Conversation]:
    """Stream the conversations of files and worlds in a fixed order.

    Args:
        paths: which of config's paths to read.
        report: receives good rows and bad ones with file and line; checked at the end.
        on_rows: called with the number of rows read, for a progress bar.
    Raises:
        DataError: no such file, damaged file, a bad world address, too many bad rows.
    """
    for path in paths:
        if path.startswith(WORLD_PREFIX):
            for conversation in _world(path, config.system):
                report.add_good()
                yield conversation
                if on_rows is not None:
                    on_rows(1)
            continue
        for source in find_sources((path,)):
            yield from _file(source, config, report, on_rows)
    report.check()
    if report.good == 0:
        raise DataError(
            "no usable conversation",
            value=", ".join(paths),
            hint="rows look like " + '{"messages": [{"role": "user", "content": "..."}, ...]}',
        )


def conversation_sources(paths: tuple[str, ...]) -> list[dict[str, str]]:
    """Name and digest of every source, for the record of what a model was trained on."""
    found = []
    for path in paths:
        if path.startswith(WORLD_PREFIX):
            language, count, seed, _ = _parse_world(path)
            plain = Source(
                f"{WORLD_PREFIX}{language}?documents={count}&seed={seed}", "world", count
            )
            found.append({"name": path, "sha256": plain.digest()})
        else:
            found.extend({"name": s.name, "sha256": s.digest()} for s in find_sources((path,)))
    return found


def parse_row(row: Mapping[str, Any], form: RowFormat = "auto") -> tuple[Message, ...]:
    """The checked messages of one row.

    Raises:
        BadRowError: unknown fields, a wrong type, an empty or misplaced message.
    """
    kind = _detect(row) if form == "auto" else form
    messages = _PARSERS[kind](row)
    check_messages(messages)
    return tuple(messages)


def check_messages(messages: list[Message] | tuple[Message, ...]) -> None:
    """Refuse what cannot be trained on: no answer, two users in a row, an empty message.

    Raises:
        BadRowError: what is wrong and at which message.
    """
    before = ""
    for number, message in enumerate(messages, start=1):
        if message.role not in _NEXT_ROLES[before]:
            where = f"{message.role} at message {number}, after {before or 'the beginning'}"
            raise BadRowError("roles out of order", where)
        if not message.content.strip():
            raise BadRowError("empty message", f"{message.role} at message {number}")
        before = message.role
    if before != "assistant":
        raise BadRowError("no answer at the end", f"the last message is {before or 'missing'}")


def _file(
    source: Source,
    config: ConversationConfig,
    report: RowReport,
    on_rows: Callable[[int], None] | None,
) -> Iterator[Conversation]:
    if source.kind == "text":
        raise DataError(
            "conversations are not read from plain text",
            value=source.name,
            allowed=".jsonl, .json or .parquet, each also with .gz, .xz or .zst",
        )
    for row in iterate_rows(source.name, source.kind, report, config.errors):
        try:
            messages = parse_row(row.value, config.format)
        except BadRowError as error:
            report.add_bad(row.source, row.line, error.reason, error.detail)
        else:
            report.add_good()
            yield Conversation(_with_system(messages, config.system), row.source, row.line)
        if on_rows is not None:
            on_rows(1)


def _with_system(messages: tuple[Message, ...], system: str | None) -> tuple[Message, ...]:
    if system is None or messages[0].role == "system":
        return messages
    return (Message("system", system), *messages)


def _world(address: str, system: str | None) -> Iterator[Conversation]:
    language, count, seed, turns = _parse_world(address)
    world = World(seed, language)
    for index in range(count):
        told = world.conversation(index, "train", turns)
        messages = tuple(Message(m["role"], m["content"]) for m in told.messages)  # type: ignore[arg-type]
        yield Conversation(_with_system(messages, system), address, index + 1)


def _parse_world(address: str) -> tuple[Literal["en", "pt", "mix"], int, int, int]:
    language, _, query = address.removeprefix(WORLD_PREFIX).partition("?")
    values = parse_qs(query, keep_blank_values=True)
    try:
        count = int(values.pop("conversations", [str(WORLD_CONVERSATIONS)])[0])
        seed = int(values.pop("seed", ["0"])[0])
        turns = int(values.pop("turns", [str(WORLD_TURNS)])[0])
    except ValueError:
        count = seed = turns = -1
    if language not in WORLD_LANGUAGES or min(count, turns) < 1 or seed < 0 or values:
        raise DataError(
            "not an address of the built-in world's conversations",
            value=address,
            allowed=f"world:{'|'.join(WORLD_LANGUAGES)}, then ?conversations=N&seed=S&turns=T",
        )
    return language, count, seed, turns


def _detect(row: Mapping[str, Any]) -> RowFormat:
    if "messages" in row:
        return "messages"
    if "conversations" in row:
        return "sharegpt"
    if "instruction" in row and ("output" in row or "response" in row):
        return "instruction"
    if any(f in row for f in _PROMPT_FIELDS) and any(f in row for f in _ANSWER_FIELDS):
        return "prompt"
    names = ", ".join(sorted(map(str, row))) or "none"
    raise BadRowError("no known conversation fields", f"the row has: {names}")


def _from_messages(row: Mapping[str, Any]) -> list[Message]:
    return _turns(row, "messages", "role", "content", {r: r for r in _NEXT_ROLES if r})


def _from_sharegpt(row: Mapping[str, Any]) -> list[Message]:
    turns = _turns(row, "conversations", "from", "value", _SHAREGPT_ROLES)
    system = row.get("system")
    if isinstance(system, str) and system.strip() and turns and turns[0].role != "system":
        turns.insert(0, Message("system", system))
    return turns


def _turns(
    row: Mapping[str, Any], field: str, role_key: str, text_key: str, roles: Mapping[str, Any]
) -> list[Message]:
    turns = row.get(field)
    if not isinstance(turns, list) or not turns:
        raise BadRowError(f"field {field!r} is not a list of messages", shorten(turns, 40))
    found = []
    for number, turn in enumerate(turns, start=1):
        if not isinstance(turn, Mapping):
            raise BadRowError("a message is not an object", f"message {number}")
        if turn.get("tool_calls"):
            raise BadRowError("tool calls are not supported", f"message {number}")
        role = turn.get(role_key)
        if not isinstance(role, str) or role not in roles:
            raise BadRowError("unknown role", f"{shorten(role, 40)} at message {number}")
        found.append(Message(roles[role], _text(turn, text_key, f" of message {number}")))
    return found


def _from_prompt(row: Mapping[str, Any]) -> list[Message]:
    prompt = next((f for f in _PROMPT_FIELDS if f in row), _PROMPT_FIELDS[0])
    answer = next((f for f in _ANSWER_FIELDS if f in row), _ANSWER_FIELDS[0])
    return [Message("user", _text(row, prompt)), Message("assistant", _text(row, answer))]


def _from_instruction(row: Mapping[str, Any]) -> list[Message]:
    prompt = _text(row, "instruction")
    more = row.get("input")
    if more is not None and not isinstance(more, str):
        raise BadRowError("field 'input' is not text", type(more).__name__)
    if more:
        prompt = f"{prompt}\n\n{more}"
    answer = "output" if "output" in row else "response"
    return [Message("user", prompt), Message("assistant", _text(row, answer))]


def _text(row: Mapping[str, Any], field: str, where: str = "") -> str:
    value = row.get(field)
    if not isinstance(value, str):
        kind = "missing" if value is None else type(value).__name__
        raise BadRowError(f"field {field!r}{where} is not text", f"it is {kind}")
    return value


_PARSERS: dict[str, Callable[[Mapping[str, Any]], list[Message]]] = {
    "messages": _from_messages,
    "sharegpt": _from_sharegpt,
    "prompt": _from_prompt,
    "instruction": _from_instruction,
}


def first_question(conversation: Conversation) -> str:
    """The first user message: conversations that share it stay on one side of a split."""
    return next(m.content for m in conversation.messages if m.role == "user")


def display_source(conversation: Conversation) -> str:
    """FILE:LINE for messages to people."""
    return f"{Path(conversation.source).name}:{conversation.line}"
