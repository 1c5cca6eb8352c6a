"""Text that remembers, character by character, who wrote it: the template or a message.

`TrackedText` is a str whose runs say where its characters come from. It behaves like the same plain
string in every comparison, search and test, so a chat template takes the same branches as it would
elsewhere; slicing, joining and trimming keep the origins. What a method cannot follow becomes
UNKNOWN, which the renderer never lets become a control token. Knows nothing of templates or ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, SupportsIndex

from cerne.errors import TokenizerError

TEMPLATE = -1
"""Origin of the template's own characters; only these may form control tokens."""
DATA = -2
"""Origin of tools and other values of the caller."""
UNKNOWN = -3
"""Origin lost in an operation that cannot be followed."""

Run = tuple[int, int, int]
"""(number of characters, origin, generation span); an origin >= 0 is a message's index, a span 0
means outside `{% generation %}`, k >= 1 the k-th such block."""

MAX_CHARS = 1 << 24
"""Longest text that any operation may make."""

CHARS_LEFT: ContextVar[list[int] | None] = ContextVar("chars_left", default=None)
"""How many more characters the operations of this render may write, a list of one count."""


class TrackedText(str):
    """A string with origins.

    Args:
        text: the characters.
        runs: runs that cover them; None marks all of them UNKNOWN.
    """

    __slots__ = ("_runs",)
    _runs: tuple[Run, ...]

    def __new__(cls, text: str = "", runs: tuple[Run, ...] | None = None) -> TrackedText:
        made = super().__new__(cls, text)
        if runs is None:
            runs = origins(text) if len(text) else ()
        made._runs = runs
        return made

    def __str__(self) -> TrackedText:
        return self

    def __add__(self, other: str) -> TrackedText:
        return concat((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> TrackedText:
        return concat((other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> TrackedText:
        count = max(0, times.__index__())
        charge((len(self) + len(self._runs)) * count)
        return TrackedText(str.__mul__(self, count), self._runs * count)

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> TrackedText:
        text = str.__getitem__(self, key)
        charge(len(text))
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return TrackedText(text, cut(self._runs, start, max(start, stop)))
            return TrackedText(text, self._uniform(len(text)))
        index = key.__index__() % len(self)
        return TrackedText(text, cut(self._runs, index, index + 1))

    def __iter__(self) -> Iterator[TrackedText]:
        return (self[i] for i in range(len(self)))

    def _uniform(self, length: int) -> tuple[Run, ...]:
        """Runs for a text of `length` made from these characters alone."""
        sources = {(origin, span) for _, origin, span in self._runs}
        if not length:
            return ()
        if len(sources) == 1:
            ((origin, span),) = sources
            return ((length, origin, span),)
        return ((length, UNKNOWN, 0),)

    def _parts(self, parts: Iterable[str], gap: int = 0) -> list[TrackedText]:
        """Pieces that occur in this order in the text, `gap` or more apart, with their origins."""
        found, position = [], 0
        for part in parts:
            position = str.find(self, part, position)
            found.append(self[position : position + len(part)])
            position += len(part) + gap
        return found

    def strip(self, chars: str | None = None, /) -> TrackedText:
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None, /) -> TrackedText:
        return self[len(self) - len(str.lstrip(self, chars)) :]

    def rstrip(self, chars: str | None = None, /) -> TrackedText:
        return self[: len(str.rstrip(self, chars))]

    def removeprefix(self, prefix: str, /) -> TrackedText:
        return self[len(prefix) :] if self.startswith(prefix) else self

    def removesuffix(self, suffix: str, /) -> TrackedText:
        return self[: len(self) - len(suffix)] if suffix and self.endswith(suffix) else self

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Any]:
        return self._parts(str.split(self, sep, maxsplit), len(sep) if sep is not None else 0)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Any]:
        parts, end = [], len(self)
        for part in reversed(str.rsplit(self, sep, maxsplit)):
            start = str.rfind(self, part, 0, end)
            parts.append(self[start : start + len(part)])
            end = start if sep is None else start - len(sep)
        return parts[::-1]

    def splitlines(self, keepends: bool = False) -> list[Any]:
        whole = self._parts(str.splitlines(self, True))
        return whole if keepends else [line[: len(str.splitlines(line)[0])] for line in whole]

    def partition(self, sep: str, /) -> tuple[Any, Any, Any]:
        at = str.find(self, sep)
        if at < 0:
            return self, TrackedText(), TrackedText()
        return self[:at], self[at : at + len(sep)], self[at + len(sep) :]

    def rpartition(self, sep: str, /) -> tuple[Any, Any, Any]:
        at = str.rfind(self, sep)
        if at < 0:
            return TrackedText(), TrackedText(), self
        return self[:at], self[at : at + len(sep)], self[at + len(sep) :]

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> TrackedText:
        occurrences = str.count(self, old)
        charge(len(self) + occurrences * len(new))
        if not old:
            return TrackedText(str.replace(self, old, new, count))
        return TrackedText.join(as_tracked(new), self.split(old, count))

    def join(self, parts: Iterable[str], /) -> TrackedText:
        pieces: list[str] = []
        for part in parts:
            if pieces and len(self):
                pieces.append(self)
            pieces.append(part)
        return concat(pieces)

    def lower(self) -> TrackedText:
        return self._changed(str.lower(self))

    def upper(self) -> TrackedText:
        return self._changed(str.upper(self))

    def title(self) -> TrackedText:
        return self._changed(str.title(self))

    def capitalize(self) -> TrackedText:
        return self._changed(str.capitalize(self))

    def _changed(self, text: str) -> TrackedText:
        """Runs after a change of case: kept when nothing moved, else from one source or lost."""
        charge(len(text))
        if text == self:
            return self
        return TrackedText(text, self._uniform(len(text)))


def origins(text: str) -> tuple[Run, ...]:
    """The runs of any string; a plain one is UNKNOWN."""
    if isinstance(text, TrackedText):
        return text._runs
    return ((len(text), UNKNOWN, 0),) if text else ()


def as_tracked(text: str) -> TrackedText:
    """The text itself when tracked, else with UNKNOWN origin."""
    return text if isinstance(text, TrackedText) else TrackedText(text)


def label(text: str, origin: int, span: int = 0) -> TrackedText:
    """The same characters, all with one origin."""
    plain = "".join((text,))
    return TrackedText(plain, ((len(plain), origin, span),) if plain else ())


def with_span(text: str, span: int) -> TrackedText:
    """The same characters and origins inside generation block `span`."""
    return TrackedText("".join((text,)), tuple((n, origin, span) for n, origin, _ in origins(text)))


def concat(parts: Iterable[Any]) -> TrackedText:
    """All parts in one text; what is not a string is written out and UNKNOWN."""
    texts = [part if isinstance(part, str) else str(part) for part in parts]
    charge(sum(map(len, texts)))
    runs: list[Run] = []
    for text in texts:
        for run in origins(text):
            if runs and runs[-1][1:] == run[1:]:
                runs[-1] = (runs[-1][0] + run[0], run[1], run[2])
            else:
                runs.append(run)
    return TrackedText("".join(texts), tuple(runs))


def cut(runs: Iterable[Run], start: int, stop: int) -> tuple[Run, ...]:
    """The runs of the characters [start, stop)."""
    kept: list[Run] = []
    position = 0
    for length, origin, span in runs:
        low, high = max(start, position), min(stop, position + length)
        if low < high:
            kept.append((high - low, origin, span))
        position += length
        if position >= stop:
            break
    return tuple(kept)


def charge(num_chars: int) -> None:
    """Count characters about to be written; refuse what only a runaway template would write."""
    left = CHARS_LEFT.get()
    if left is not None:
        left[0] -= num_chars
    if num_chars > MAX_CHARS or (left is not None and left[0] < 0):
        raise TokenizerError(
            "the chat template makes too much text",
            value=num_chars,
            allowed=f"at most {MAX_CHARS} characters in one piece",
        )
