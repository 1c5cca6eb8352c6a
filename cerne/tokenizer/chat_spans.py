"""Where in a rendered chat the assistant wrote, in characters.

Templates with `{% generation %}` say it themselves (`marked_spans`); for all others the spans come
from the tracked content (`written_spans`). `close_spans` makes each end on its end-of-turn token:
without it a model never learns to stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cerne.tokenizer.chat_text import TEMPLATE, TrackedText, cut, origins

Span = tuple[int, int]
"""[start, stop) in characters of the rendered text."""
Control = tuple[int, int, int]
"""(start, stop, id) of a control token in the rendered text."""


def marked_spans(text: TrackedText) -> list[Span]:
    """The `{% generation %}` blocks, in order."""
    found: dict[int, Span] = {}
    position = 0
    for length, _, block in origins(text):
        if block:
            found[block] = (found.get(block, (position, 0))[0], position + length)
        position += length
    return sorted(found.values())


def written_spans(
    text: TrackedText,
    messages: Sequence[Mapping[str, Any]],
    boundaries: Mapping[int, int],
) -> list[Span]:
    """The assistant's content, from where the prompt ends when only white space lies between.

    Text that the template puts before the content (an empty think block, say) is not the
    assistant's; around tool calls it is, since the model must write the calls' syntax.
    """
    spans = []
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        start, stop = extent(text, index)
        boundary = boundaries.get(index)
        if start == stop:
            if boundary is not None:
                spans.append((boundary, boundary))
            continue
        if boundary is not None and boundary <= start:
            between = text[boundary:start]
            if message.get("tool_calls") or not between.strip():
                start = boundary
        spans.append((start, stop))
    return spans


def close_spans(
    text: TrackedText, controls: Sequence[Control], spans: Sequence[Span], end_ids: frozenset[int]
) -> tuple[list[Span], bool]:
    """Each span up to and including its end of turn, and whether all of them have one."""
    ended = [_close(text, controls, span, end_ids) for span in spans]
    return [span for span, _ in ended if span[1] > span[0]], all(closed for _, closed in ended)


def _close(
    text: TrackedText, controls: Sequence[Control], span: Span, end_ids: frozenset[int]
) -> tuple[Span, bool]:
    start, stop = span
    inside = [c for c in controls if start <= c[0] and c[1] <= stop and c[2] in end_ids]
    if inside and not text[inside[-1][1] : stop].strip():
        return (start, inside[-1][1]), True
    for low, high, token in controls:
        if low < stop:
            continue
        if any(origin != TEMPLATE for _, origin, _ in cut(origins(text), stop, low)):
            break
        if token in end_ids:
            return (start, high), True
    return span, False


def extent(text: TrackedText, origin: int) -> Span:
    """From the first to the last character of one message; (0, 0) when there are none."""
    start, stop, position = -1, 0, 0
    for length, found, _ in origins(text):
        if found == origin:
            start, stop = (position if start < 0 else start), position + length
        position += length
    return max(start, 0), stop
