"""Cleaning of text: small pure functions, each returning the new text and how much it changed.

The order is fixed whatever the order in the configuration: newlines, control, nfc, trailing-space.
What it leaves out: language filters, HTML, rewriting of any visible character (but NFC).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

_CARRIAGE = re.compile(r"\r\n?|[\u2028\u2029]")
# NUL, C0 controls but tab and newline, DEL, and the byte order mark.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff]")
# Possessive by construction: the run starts after a visible character, so matching is linear.
_TRAILING = re.compile(r"(?<![ \t])[ \t]+(?=\n|\Z)")

Step = Callable[[str], tuple[str, int]]


def newlines(text: str) -> tuple[str, int]:
    """CR LF, CR and the Unicode line and paragraph separators become LF."""
    return _CARRIAGE.subn("\n", text)


def control(text: str) -> tuple[str, int]:
    """NUL, other control characters (but tab and newline) and byte order marks are removed."""
    return _CONTROL.subn("", text)


def nfc(text: str) -> tuple[str, int]:
    """Unicode normalisation form C; the count is 1 when the text changed."""
    if unicodedata.is_normalized("NFC", text):
        return text, 0
    return unicodedata.normalize("NFC", text), 1


def trailing_space(text: str) -> tuple[str, int]:
    """Spaces and tabs at the end of lines are removed."""
    return _TRAILING.subn("", text)


STEPS: dict[str, Step] = {
    "newlines": newlines,
    "control": control,
    "nfc": nfc,
    "trailing-space": trailing_space,
}


class Cleaner:
    """Applies the chosen steps and counts the changes of each.

    Args:
        steps: names from STEPS.
    """

    def __init__(self, steps: Iterable[str]) -> None:
        chosen = set(steps)
        self._steps = [(name, step) for name, step in STEPS.items() if name in chosen]
        self.counts: dict[str, int] = {name: 0 for name, _ in self._steps}

    def __call__(self, text: str) -> str:
        """The cleaned text."""
        for name, step in self._steps:
            text, changed = step(text)
            self.counts[name] += changed
        return text
