"""The demo's figures as PNG bytes: loss over steps, bits per byte, accuracy per task.

Input: metrics records and task results. Output: PNG bytes. Leaves out the page (report.py).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cerne.evaluate.tasks import TaskResult

Records = Sequence[Mapping[str, Any]]
_GREY, _BLUE, _GREEN = "#9aa0a6", "#4878a8", "#3a7d44"


def loss_png(runs: Mapping[str, Records]) -> bytes:
    """Training loss of each run over its steps, side by side."""
    figure, axes = _figure(len(runs))
    for axis, (name, records) in zip(axes, runs.items(), strict=True):
        points = [(r["step"], r["loss"]) for r in records if isinstance(r.get("loss"), float)]
        axis.plot([step for step, _ in points], [loss for _, loss in points], color=_BLUE, lw=1)
        axis.set(title=name, xlabel="step", ylabel="loss (nats per trained token)")
    return _png(figure)


def bits_png(records: Records) -> bytes:
    """Bits per byte of held-out text over the steps of pre-training."""
    figure, axes = _figure(1)
    points = [(r["step"], r["val_bpb"]) for r in records if "val_bpb" in r]
    axes[0].plot(
        [step for step, _ in points], [bits for _, bits in points], color=_GREEN, marker="o", ms=3
    )
    axes[0].set(title="held-out stories", xlabel="step", ylabel="bits per byte", ylim=(0, None))
    return _png(figure)


def accuracy_png(exams: Mapping[str, Sequence[TaskResult]]) -> bytes:
    """Accuracy per task after each stage with 95 % intervals, and the best baseline."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axis = figure.subplots()
    width = 0.8 / (len(exams) + 1)
    last = list(exams.values())[-1]
    baselines = [max(task.majority, task.guess) for task in last]
    axis.bar(range(len(last)), baselines, width, color=_GREY, label="best baseline")
    for number, ((name, tasks), colour) in enumerate(
        zip(exams.items(), (_BLUE, _GREEN), strict=False), start=1
    ):
        heights = [task.accuracy for task in tasks]
        bounds = [
            [max(0.0, task.accuracy - task.low) for task in tasks],
            [max(0.0, task.high - task.accuracy) for task in tasks],
        ]
        places = [index + number * width for index in range(len(tasks))]
        axis.bar(places, heights, width, yerr=bounds, color=colour, label=name, capsize=2)
    axis.set_xticks(
        [index + width * len(exams) / 2 for index in range(len(last))],
        [task.name.removeprefix("world/") for task in last],
    )
    axis.set(ylim=(0, 1.05), ylabel="right answers, held out")
    axis.legend(frameon=False, loc="upper right", ncols=3, bbox_to_anchor=(1, 1.15))
    return _png(figure)


def _figure(columns: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(4.5 * columns, 3), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def _png(figure: Figure) -> bytes:
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=130)
    return target.getvalue()
