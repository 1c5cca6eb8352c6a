"""Stop strings in streamed text: hold back what may still become a stop, never let one out.

Each stop string has a Knuth-Morris-Pratt automaton over characters, so the result does not depend
on how the text was cut into tokens and the work is linear in the text. The match that ends first
wins; of those that end at the same character, the longest. Text before the match is kept, the match
and what follows are dropped. Stop tokens are not text and are handled where tokens are.
"""

from __future__ import annotations

from collections.abc import Sequence

from cerne.errors import ConfigError


class StopMatcher:
    """Filters a stream of text; `stopped` becomes true at the first complete stop string.

    Args:
        stops: any number of non-empty strings.
    Raises:
        ConfigError: an empty stop string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        for stop in stops:
            check_stop(stop)
        self._stops = list(dict.fromkeys(stops))
        self._tables = [failure_table(stop) for stop in self._stops]
        self._matched = [0] * len(self._stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Add text; returns what can no longer be part of a stop string."""
        if self.stopped:
            return ""
        if not self._stops:
            return text
        buffer = self._held + text
        start = len(self._held)
        for index in range(start, len(buffer)):
            longest = self._advance(buffer[index])
            if longest:
                self.stopped = True
                self._held = ""
                return buffer[: index + 1 - longest]
        keep = max(self._matched)
        self._held = buffer[len(buffer) - keep :]
        return buffer[: len(buffer) - keep]

    def flush(self) -> str:
        """At the end of the text: what was held back and did not become a stop string."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> int:
        """Feed one character to every automaton; length of the longest stop ending here, or 0."""
        longest = 0
        for index, (stop, table) in enumerate(zip(self._stops, self._tables, strict=True)):
            state = self._matched[index]
            while state and stop[state] != character:
                state = table[state]
            state += stop[state] == character
            if state == len(stop):
                longest = max(longest, state)
                state = table[state]
            self._matched[index] = state
        return longest


def check_stop(stop: str) -> None:
    """Refuse a stop string that would match everywhere."""
    if not stop:
        raise ConfigError("a stop string is empty", value=stop, allowed="one character or more")


def failure_table(pattern: str) -> list[int]:
    """Knuth-Morris-Pratt: entry k is the longest proper border of the first k characters."""
    table = [0] * (len(pattern) + 1)
    border = 0
    for length in range(2, len(pattern) + 1):
        while border and pattern[border] != pattern[length - 1]:
            border = table[border]
        border += pattern[border] == pattern[length - 1]
        table[length] = border
    return table
