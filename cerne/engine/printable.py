"""Model output on a terminal: control characters are shown, not obeyed.

A model can write any byte it has seen, and an escape sequence can move the cursor, retitle the
window or hide text. Line feed and tab stay; other control characters and the invisible direction
marks of Unicode become their escaped names.
"""

from __future__ import annotations

_CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_TABLE = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*_CONTROLS, *_DIRECTIONS)
    if chr(code) not in "\n\t"
}


def printable(text: str) -> str:
    """The text with every character that a terminal would obey written out, e.g. `\\x1b`."""
    return text.translate(_TABLE)
