"""Where a long text may be cut into pieces so that the pieces' tokens are the whole text's tokens.

Every pre-tokenization pattern in use starts a new word at a single space between two visible
characters, so a cut before such a space changes nothing. Text without one is cut at a line end,
else between two characters.
"""

from __future__ import annotations

import re
import unicodedata

WINDOW = 4096
_BEFORE_WORD_STR = re.compile(r"\w(?= \w)")
_BEFORE_WORD = (
    re.compile(rb"[A-Za-z](?= [A-Za-z])"),
    re.compile(rb"[!-~\x80-\xff](?= [!-~\x80-\xff])"),
)


def cut_text(text: str, limit: int) -> int:
    """The best place to cut `text`, in 1..limit; `limit` < len(text).

    Never inside a CR LF pair and never before a combining mark (within the last 4,096 characters).
    """
    low = max(0, limit - WINDOW)
    cut = _last_end(_BEFORE_WORD_STR, text, low, limit)
    if cut > 0:
        return cut
    newline = text.rfind("\n", low, limit)
    if newline >= 0:
        return newline + 1
    for cut in range(limit, max(low, 0), -1):
        joined = text[cut - 1] == "\r" and text[cut] == "\n"
        if not joined and not unicodedata.combining(text[cut]):
            return cut
    return limit


def cut_bytes(data: bytes, limit: int) -> int:
    """The best place to cut UTF-8 `data`, in 1..limit; `limit` < len(data)."""
    low = max(0, limit - WINDOW)
    for pattern in _BEFORE_WORD:
        cut = _last_end(pattern, data, low, limit)
        if cut > 0:
            return cut
    newline = data.rfind(b"\n", low, limit)
    if newline >= 0:
        return newline + 1
    return character_start(data, limit)


def character_start(data: bytes, position: int) -> int:
    """The start of the UTF-8 character that covers `position` (or `position` in invalid text)."""
    for back in range(4):
        at = position - back
        if at <= 0 or at >= len(data):
            return position
        if data[at] & 0xC0 != 0x80:
            return at
    return position


def _last_end(pattern: re.Pattern, text: str | bytes, low: int, high: int) -> int:  # type: ignore[type-arg]
    end = -1
    # The look-ahead needs two characters after the match.
    for match in pattern.finditer(text, low, min(len(text), high + 2)):
        if match.end() <= high:
            end = match.end()
    return end
