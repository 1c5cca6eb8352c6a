"""What every benchmark shares: timing in alternated order, medians with their spread, tables, and
result files that say date, commit, machine and command.
"""

from __future__ import annotations

import gc
import json
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cerne.device import machine_facts
from cerne.runs import atomic_write


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one thing.

    Attributes:
        median, low, high: of the repetitions, in the unit of the measurement.
        repetitions: how many there were.
    """

    median: float
    low: float
    high: float
    repetitions: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def to_json(self) -> dict[str, float]:
        """For result files, rounded to five digits."""
        return {
            "median": _rounded(self.median),
            "low": _rounded(self.low),
            "high": _rounded(self.high),
            "repetitions": self.repetitions,
        }

    def text(self, digits: int = 1) -> str:
        """For tables: median (low-high)."""
        return f"{self.median:.{digits}f} ({self.low:.{digits}f}-{self.high:.{digits}f})"


def alternate(
    contenders: Mapping[str, Callable[[], float]], repetitions: int
) -> dict[str, list[float]]:
    """Runs every contender `repetitions` times, in rotated order, so that a slow moment of the
    machine hits all alike.

    Args:
        contenders: name -> a function that does one run and returns its measurement.
    """
    names = list(contenders)
    measured: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repetitions):
        start = turn % len(names) if names else 0
        for name in names[start:] + names[:start]:
            measured[name].append(contenders[name]())
    return measured


def timed_s(work: Callable[[], object]) -> float:
    """Seconds that `work` takes, with the garbage collector held off."""
    gc.collect()
    gc.disable()
    try:
        begin_s = time.perf_counter()
        work()
        return time.perf_counter() - begin_s
    finally:
        gc.enable()


@contextmanager
def pinned_to_one_core() -> Iterator[int | None]:
    """Keeps this process on one core (the last it may use), where the system can; yields which."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def silenced() -> Iterator[None]:
    """Drops what native code of a peer prints while it works."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        for target, original in zip((1, 2), kept, strict=True):
            os.dup2(original, target)
            os.close(original)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in aligned columns; the first row is the heading, the first column a name."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def with_circumstances(results: Mapping[str, Any]) -> dict[str, Any]:
    """The results with the machine, the commit, the date and the command that made them."""
    arguments = [Path(sys.argv[0]).name, *(_without_folders(a) for a in sys.argv[1:])]
    return {"command": shlex.join(arguments), "machine": machine_facts(), **results}


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Writes a result file of docs/results."""
    text = json.dumps(results, ensure_ascii=False, indent=1, allow_nan=False)
    atomic_write(path, text + "\n")


def _without_folders(argument: str) -> str:
    # A result file must not tell where someone keeps their files.
    name, separator, value = argument.rpartition("=")
    return name + separator + Path(value).name if Path(value).is_absolute() else argument


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
