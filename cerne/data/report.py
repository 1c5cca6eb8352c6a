"""Counting what could not be used: every bad row has a reason, a file and a line.

A few bad rows are reported and left out; a larger share than the limit is a DataError, because
then the options are more likely wrong than the data.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from cerne.errors import DataError

MAX_EXAMPLES = 20
CHECK_INTERVAL = 10_000


class RowReport:
    """Counts of good and bad rows, with the first bad ones kept as examples.

    Args:
        max_bad_fraction: the largest accepted bad / (good + bad).
        hint: what to try when there are more.
    """

    def __init__(
        self,
        max_bad_fraction: float = 0.01,
        hint: str = "correct the rows, or data.field, or raise data.max_bad_fraction",
    ) -> None:
        self.max_bad_fraction = max_bad_fraction
        self._hint = hint
        self._first_bad = ""
        self.good = 0
        self.reasons: Counter[str] = Counter()
        self.examples: list[str] = []
        self.notes: Counter[str] = Counter()

    @property
    def bad(self) -> int:
        """Rows left out so far."""
        return sum(self.reasons.values())

    def add_good(self) -> None:
        """Count one usable row."""
        self.good += 1

    def add_bad(self, source: str, line: int, reason: str, detail: str = "") -> None:
        """Count one unusable row at `source`:`line`; the share is checked now and then."""
        example = f"{source}:{line}: {reason}{': ' if detail else ''}{detail}"
        if not self.bad:
            self._first_bad = example
        self.reasons[reason] += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(example)
        if (self.good + self.bad) % CHECK_INTERVAL == 0:
            self.check()

    def add_empty(self, source: str) -> None:
        """Count a file without a byte; reported, but no bad row."""
        self.note("empty files")
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(f"{source}: empty file")

    def note(self, what: str, count: int = 1) -> None:
        """Count something that was changed but kept, such as replaced bytes."""
        self.notes[what] += count

    def check(self) -> None:
        """Raise DataError when the bad share is above the limit."""
        total = self.good + self.bad
        if total and self.bad / total > self.max_bad_fraction:
            raise DataError(
                f"{self.bad} of {total} rows cannot be used, first {self._first_bad}",
                value=dict(self.reasons),
                allowed=f"a bad share of at most {self.max_bad_fraction:g}",
                hint=self._hint,
            )

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for the shard index and for people."""
        return {
            "good_rows": self.good,
            "bad_rows": self.bad,
            "bad_reasons": dict(sorted(self.reasons.items())),
            "bad_examples": list(self.examples),
            "notes": dict(sorted(self.notes.items())),
        }
