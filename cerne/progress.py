"""Progress of long work: a rich bar with rate and time left on a terminal, one plain line per
interval otherwise. Everything goes to standard error; standard output is for results.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress

PLAIN_INTERVAL_S = 10.0


def say(text: str) -> None:
    """Print one line to standard error."""
    print(text, file=sys.stderr, flush=True)


def human_time(seconds: float) -> str:
    """Seconds as `42s`, `3m10s` or `2h05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def human_count(value: float) -> str:
    """A count with k, M, G suffix and three significant digits."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"


class Progress:
    """A context manager that shows how far a piece of work is.

    Args:
        label: what is being done.
        total: units in all; None when unknown (then no time left is shown). May be set anew.
        unit: the name of a unit, for the rate.
        done: units already done before this run, for example after a resume.
    """

    def __init__(
        self, label: str, total: float | None = None, unit: str = "it", done: float = 0
    ) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = float(done)
        self._start_done = float(done)
        self._note = ""
        self._start_s = self._last_s = time.monotonic()
        self._bar: rich.progress.Progress | None = None

    def __enter__(self) -> Progress:
        self._start_s = self._last_s = time.monotonic()
        if sys.stderr.isatty():
            self._bar = _terminal_bar()
            self._task = self._bar.add_task("", total=self.total, completed=int(self.done), text="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is None:
            say(self.line())
        else:
            self._draw()
            self._bar.stop()
            self._bar = None

    def advance(self, amount: float = 1) -> None:
        """Count `amount` more units as done."""
        self.done += amount
        self._maybe_draw()

    def note(self, text: str) -> None:
        """Set the short text at the end of the line, for example `loss 2.31`."""
        self._note = text
        self._maybe_draw()

    def rate(self) -> float:
        """Units per second since the start of this run."""
        elapsed_s = time.monotonic() - self._start_s
        return (self.done - self._start_done) / elapsed_s if elapsed_s > 0 else 0.0

    def line(self) -> str:
        """The plain line: label, count, share, rate, time used and left, note."""
        parts = [self.label]
        if self.total:
            share = min(1.0, self.done / self.total)
            parts.append(f"{human_count(self.done)}/{human_count(self.total)} {share:4.0%}")
        else:
            parts.append(human_count(self.done))
        rate = self.rate()
        parts.append(f"{human_count(rate)} {self.unit}/s")
        parts.append(human_time(time.monotonic() - self._start_s))
        if self.total and rate > 0 and self.done < self.total:
            parts.append(f"{human_time((self.total - self.done) / rate)} left")
        if self._note:
            parts.append(self._note)
        return "  ".join(parts)

    def _maybe_draw(self) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s >= (0.1 if self._bar is not None else PLAIN_INTERVAL_S):
            self._last_s = now_s
            self._draw()

    def _draw(self) -> None:
        if self._bar is None:
            say(self.line())
        else:
            self._bar.update(self._task, total=self.total, completed=self.done, text=self.line())


def _terminal_bar() -> rich.progress.Progress:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        BarColumn(bar_width=24),
        TextColumn("{task.fields[text]}", markup=False),
        console=Console(stderr=True),
        refresh_per_second=5,
    )
