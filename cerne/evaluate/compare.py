"""Two scorecards side by side: differences with paired intervals, wins and losses per task.

Tasks are compared item by item, so both cards must have been made from the same items; a task or
text of only one card, or of other items, is listed as not comparable and left out of the average.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cerne.config import Config
from cerne.evaluate.bootstrap import macro_interval, paired_interval
from cerne.evaluate.scorecard import Scorecard, keep_whole
from cerne.evaluate.tasks import TaskResult

if TYPE_CHECKING:
    from rich.table import Table


class TaskDifference(Config):
    """Accuracy of a minus accuracy of b on the same items; `wins`: a right and b wrong."""

    name: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    wins: int
    losses: int
    clear: bool


class TextDifference(Config):
    """Bits per byte of a minus those of b: negative is better for a."""

    name: str
    a: float
    b: float
    difference: float


class Comparison(Config):
    """What differs between two models."""

    a: str
    b: str
    tasks: tuple[TaskDifference, ...]
    average: TaskDifference | None
    texts: tuple[TextDifference, ...]
    not_comparable: tuple[str, ...]

    def tables(self) -> list[Table]:
        """Rich tables for a terminal."""
        from rich.table import Table

        table = Table("task", "a", "b", "a - b", "95 % interval", "a only", "b only", "clear")
        for task in (*self.tasks, *((self.average,) if self.average is not None else ())):
            table.add_row(
                task.name,
                f"{task.a:.1%}",
                f"{task.b:.1%}",
                f"{task.difference:+.1%}",
                f"{task.low:+.1%} to {task.high:+.1%}",
                str(task.wins),
                str(task.losses),
                "yes" if task.clear else "no",
            )
        texts = Table("text", "a bits/byte", "b bits/byte", "a - b")
        for text in self.texts:
            texts.add_row(text.name, f"{text.a:.4f}", f"{text.b:.4f}", f"{text.difference:+.4f}")
        found = [shown for shown in (table, texts) if shown.row_count]
        for shown in found:
            keep_whole(shown)
        return found


def compare(a: Scorecard, b: Scorecard, seed: int = 0) -> Comparison:
    """Compare two cards; `a - b` above 0 with an interval above 0 means a is clearly better."""
    others = {task.name: task for task in b.tasks}
    pairs: list[tuple[TaskResult, TaskResult]] = []
    skipped = [name for name in others if name not in {task.name for task in a.tasks}]
    for task in a.tasks:
        other = others.get(task.name)
        if other is None or other.items_digest != task.items_digest:
            skipped.append(task.name)
        else:
            pairs.append((task, other))
    differences = [_difference(left, right, seed) for left, right in pairs]
    texts_b = {text.name: text for text in b.texts}
    skipped += [name for name in texts_b if name not in {text.name for text in a.texts}]
    texts: list[TextDifference] = []
    for text in a.texts:
        twin = texts_b.get(text.name)
        # Another window policy gives another figure for the same model.
        if twin is None or _policy(text) != _policy(twin):
            skipped.append(text.name)
            continue
        texts.append(
            TextDifference(
                name=text.name,
                a=text.bits_per_byte,
                b=twin.bits_per_byte,
                difference=text.bits_per_byte - twin.bits_per_byte,
            )
        )
    return Comparison(
        a=a.model,
        b=b.model,
        tasks=tuple(differences),
        average=_average(pairs, differences, seed) if pairs else None,
        texts=tuple(texts),
        not_comparable=tuple(skipped),
    )


def _policy(text: object) -> tuple[object, ...]:
    return tuple(getattr(text, name) for name in ("num_bytes", "seq_len", "stride"))


def _difference(left: TaskResult, right: TaskResult, seed: int) -> TaskDifference:
    bounds = paired_interval(left.values(), right.values(), seed)
    both = list(zip(left.right, right.right, strict=True))
    return TaskDifference(
        name=left.name,
        a=left.accuracy,
        b=right.accuracy,
        difference=bounds.mean,
        low=bounds.low,
        high=bounds.high,
        wins=both.count(("1", "0")),
        losses=both.count(("0", "1")),
        clear=bounds.low > 0 or bounds.high < 0,
    )


def _average(
    pairs: list[tuple[TaskResult, TaskResult]], differences: list[TaskDifference], seed: int
) -> TaskDifference:
    groups = [np.subtract(left.values(), right.values()) for left, right in pairs]
    bounds = macro_interval(groups, seed)
    return TaskDifference(
        name="average",
        a=float(np.mean([d.a for d in differences])),
        b=float(np.mean([d.b for d in differences])),
        difference=bounds.mean,
        low=bounds.low,
        high=bounds.high,
        wins=sum(d.wins for d in differences),
        losses=sum(d.losses for d in differences),
        clear=bounds.low > 0 or bounds.high < 0,
    )
