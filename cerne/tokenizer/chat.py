"""From messages to token ids: the one chat renderer of training, evaluation, chat and serving.

`render` runs the tokenizer's chat template and encodes the result. Only characters that the
template itself wrote can become control tokens; message content is always encoded as text. The
mask marks what the assistant wrote, up to and including its end of turn. Each assistant span is
encoded on its own, so the ids of a prompt are a prefix of the ids of prompt and answer.
Leaves out: images, and templates that need the current date unless a date is passed.
"""

from __future__ import annotations

import dataclasses
import re
import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from cerne.errors import InputError, TokenizerError
from cerne.tokenizer.chat_sandbox import CompiledTemplate, compile_template
from cerne.tokenizer.chat_spans import (
    Control,
    Span,
    close_spans,
    extent,
    marked_spans,
    written_spans,
)
from cerne.tokenizer.chat_text import DATA, TEMPLATE, UNKNOWN, TrackedText, label, origins

ROLES = ("system", "user", "assistant", "tool")


class ChatTokenizer(Protocol):
    """What rendering needs of a tokenizer."""

    @property
    def chat_template(self) -> str | None: ...
    @property
    def special_tokens(self) -> dict[str, int]: ...
    @property
    def bos_token_id(self) -> int | None: ...
    @property
    def eos_token_id(self) -> int | None: ...
    @property
    def pad_token_id(self) -> int | None: ...
    @property
    def end_of_turn_id(self) -> int | None: ...
    def encode(self, text: str, /) -> list[int]: ...


@dataclasses.dataclass(frozen=True)
class RenderedChat:
    """A rendered conversation.

    Attributes:
        ids: token ids.
        mask: for each id, whether the assistant wrote it (and training may use it as a target).
        text: the rendered text, for showing; encoding it again is not safe.
        spans: token ranges [start, stop) of the assistant's turns, in order.
        closed: whether every assistant span ends on an end-of-turn token.
    """

    ids: list[int]
    mask: list[bool]
    text: str
    spans: tuple[tuple[int, int], ...]
    closed: bool


@dataclasses.dataclass(frozen=True)
class TemplateFacts:
    """What a chat template does by itself.

    Attributes:
        end_of_turn_ids: tokens that end an assistant's turn: stop generation there.
        default_system: system text that the template adds when the messages bring none.
    """

    end_of_turn_ids: frozenset[int]
    default_system: str


def render(
    messages: Sequence[Mapping[str, Any]],
    tokenizer: ChatTokenizer,
    add_generation_prompt: bool = False,
    tools: Sequence[Mapping[str, Any]] | None = None,
    date: datetime | None = None,
) -> RenderedChat:
    """Render and encode a conversation.

    Args:
        messages: mappings with role (one of ROLES), content and whatever the template reads.
        tokenizer: a tokenizer with a chat template.
        add_generation_prompt: end with the header after which the assistant answers.
        tools: JSON schemas of functions, for templates that list them.
        date: the day for templates that print one; without it they use their own fixed day.
    Raises:
        TokenizerError: no template, a template that fails or that loses track of content.
        InputError: messages that are no conversation.
    """
    prepared = _prepare(tokenizer)
    text = prepared.text(messages, add_generation_prompt, tools, date)
    controls = prepared.controls(text)
    spans, boundaries = marked_spans(text), {}
    if not spans:
        boundaries = prepared.boundaries(messages, text, tools, date)
        spans = written_spans(text, messages, boundaries)
    spans, closed = close_spans(text, controls, spans, prepared.facts().end_of_turn_ids)
    ids, index_at = _encode(tokenizer, text, controls, {*boundaries.values(), *sum(spans, ())})
    token_spans = tuple((index_at[start], index_at[stop]) for start, stop in spans)
    mask = [False] * len(ids)
    for start, stop in token_spans:
        mask[start:stop] = [True] * (stop - start)
    return RenderedChat(ids, mask, "".join((text,)), token_spans, closed)


def template_facts(tokenizer: ChatTokenizer) -> TemplateFacts:
    """End-of-turn tokens and default system message, found by rendering two probes."""
    return _prepare(tokenizer).facts()


def check_padding(tokenizer: ChatTokenizer) -> str | None:
    """A warning when padding cannot be told from an end token, else None.

    Our masks come from lengths and never from ids, so training is right all the same; other
    programs that mask by id would never learn to stop.
    """
    pad = tokenizer.pad_token_id
    ends = {tokenizer.eos_token_id, tokenizer.end_of_turn_id}
    if pad is None or pad not in ends:
        return None
    return f"pad_token_id {pad} is also an end token; programs that mask by id would never stop"


def _encode(
    tokenizer: ChatTokenizer, text: TrackedText, controls: Sequence[Control], cuts: set[int]
) -> tuple[list[int], dict[int, int]]:
    """Ids of the text, encoded piece by piece between controls and cuts, and the index of the
    token that begins at each cut."""
    plain = "".join((text,))
    at_start = {start: (stop, token) for start, stop, token in controls}
    ids: list[int] = []
    index_at: dict[int, int] = {}
    position = 0
    for edge in sorted({0, len(plain), *cuts}.union(*(control[:2] for control in controls))):
        if edge > position:
            ids.extend(tokenizer.encode(plain[position:edge]))
        index_at[edge] = len(ids)
        position = max(position, edge)
        if edge in at_start:
            position, token = at_start[edge]
            ids.append(token)
    return ids, index_at


class _Prepared:
    """A tokenizer's template, compiled, with the pattern of its control tokens."""

    def __init__(self, tokenizer: ChatTokenizer, source: str) -> None:
        self.source = source
        self._run: CompiledTemplate = compile_template(source)
        self._ids = dict(tokenizer.special_tokens)
        longest_first = sorted(filter(None, self._ids), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._ends = {tokenizer.eos_token_id, tokenizer.end_of_turn_id} - {None}
        names = {token: name for name, token in self._ids.items()}
        self._named = {
            f"{kind}_token": label(names.get(token, "") if token is not None else "", TEMPLATE)
            for kind, token in (
                ("bos", tokenizer.bos_token_id),
                ("eos", tokenizer.eos_token_id),
                ("pad", tokenizer.pad_token_id),
                ("unk", None),
            )
        }
        self._facts: TemplateFacts | None = None

    def text(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None = None,
        date: datetime | None = None,
    ) -> TrackedText:
        size = [0]
        variables: dict[str, Any] = {
            **self._named,
            "messages": [_message(m, i, size) for i, m in enumerate(_checked(messages))],
            "tools": None if tools is None else _wrap(list(tools), DATA, size),
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        if date is not None:
            moment = date
            variables["strftime_now"] = lambda form: label(moment.strftime(form), TEMPLATE)
        return self._run(variables, size[0])

    def controls(self, text: TrackedText) -> list[Control]:
        """Control tokens in the template's own text: (start, stop, id), in order."""
        found: list[Control] = []
        plain = "".join((text,))
        lost: list[Span] = []
        region_start = position = 0
        for length, origin, _ in [*origins(text), (0, DATA, 0)]:
            if origin == UNKNOWN:
                lost.append((position, position + length))
            elif origin != TEMPLATE:
                for match in self._pattern.finditer(plain, region_start, position):
                    found.append((*match.span(), self._ids[match.group()]))
                region_start = position + length
            position += length
        for start, stop, _ in found:
            if any(low < stop and start < high for low, high in lost):
                raise TokenizerError(
                    "the chat template changes text in a way that hides whether a control token"
                    " comes from it or from a message",
                    value=plain[start:stop],
                    hint="pass message content through the template unchanged (trim is fine)",
                )
        return found

    def boundaries(
        self,
        messages: Sequence[Mapping[str, Any]],
        text: TrackedText,
        tools: Sequence[Mapping[str, Any]] | None,
        date: datetime | None,
    ) -> dict[int, int]:
        """For each assistant message, where the prompt before it ends in the text, if it does."""
        ends = {}
        for i, message in enumerate(messages):
            if message.get("role") == "assistant" and i:
                prompt = self.text(messages[:i], True, tools, date)
                if text.startswith(prompt):
                    ends[i] = len(prompt)
        return ends

    def facts(self) -> TemplateFacts:
        if self._facts is None:
            self._facts = TemplateFacts(frozenset(self._probe_end()), self._probe_system())
        return self._facts

    def _probe_end(self) -> set[int]:
        probe = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        try:
            text = self.text(probe, False)
        except TokenizerError:
            return {token for token in self._ends if token is not None}
        answer = extent(text, 1)
        after = [token for start, _, token in self.controls(text) if start >= answer[1]]
        return {token for token in self._ends if token is not None} | set(after[:1])

    def _probe_system(self) -> str:
        user = {"role": "user", "content": "a"}
        try:
            alone = self.text([user], False)
            led = self.text([{"role": "system", "content": "s"}, user], False)
        except TokenizerError:
            return ""
        system, asked = extent(led, 0), extent(led, 1)
        before, between = led[: system[0]], led[system[1] : asked[0]]
        head = alone[: extent(alone, 0)[0]]
        if system[1] == 0 or len(head) < len(before) + len(between):
            return ""
        if not (head.startswith(before) and head.endswith(between)):
            return ""
        return "".join((head[len(before) : len(head) - len(between)],))


_PREPARED: weakref.WeakKeyDictionary[ChatTokenizer, _Prepared] = weakref.WeakKeyDictionary()


def _prepare(tokenizer: ChatTokenizer) -> _Prepared:
    source = tokenizer.chat_template
    if not source:
        raise TokenizerError(
            "the tokenizer has no chat template",
            hint="use a raw prompt, or put chat_template into tokenizer_config.json",
        )
    prepared = _PREPARED.get(tokenizer)
    if prepared is None or prepared.source != source:
        prepared = _PREPARED[tokenizer] = _Prepared(tokenizer, source)
    return prepared


def _checked(messages: Any) -> Sequence[Mapping[str, Any]]:
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence) or not messages:
        raise InputError("a chat needs a list of messages", value=messages, hint="at least one")
    for message in messages:
        if not isinstance(message, Mapping):
            raise InputError("a message is not a mapping", value=message)
        if message.get("role") not in ROLES:
            raise InputError(
                "a message has an unknown role",
                value=message.get("role"),
                allowed=", ".join(ROLES),
            )
        if "content" not in message and "tool_calls" not in message:
            raise InputError("a message has no content", value=dict(message))
    return messages


def _message(message: Mapping[str, Any], index: int, size: list[int]) -> dict[str, Any]:
    wrapped: dict[str, Any] = _wrap(dict(message), index, size)
    wrapped["role"] = label(message["role"], TEMPLATE)
    return wrapped


def _wrap(value: Any, origin: int, size: list[int]) -> Any:
    """A copy of plain data whose strings carry an origin."""
    if isinstance(value, str):
        size[0] += len(value)
        return label(_encodable(value), origin)
    if isinstance(value, Mapping):
        return {_wrap(k, origin, size): _wrap(v, origin, size) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wrap(v, origin, size) for v in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InputError("a message holds a value that is not plain data", value=value)


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            "message content is not valid Unicode (a lone surrogate)",
            value=text[error.start : error.end],
        ) from None
    return text
