"""The demo's report: report.html with its figures inside, the figures as files, and the numbers.

Input: a `DemoResult` and the metrics and samples that its runs wrote. Output: report.html and
plots/*.png in the demo's folder; `summary` is the JSON object of `cerne demo --json`, which
`--write-results` stores as docs/results/demo.json.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from cerne.demo.pipeline import STAGES, DemoResult
from cerne.demo.plots import accuracy_png, bits_png, loss_png
from cerne.demo.smaller import TARGET
from cerne.device import machine_facts, peak_rss_bytes
from cerne.engine.locate import find_model
from cerne.evaluate.scorecard import average_of
from cerne.evaluate.tasks import TaskResult
from cerne.model.hf import read_config
from cerne.progress import human_count, human_time
from cerne.runs import RunDirectory, atomic_write, read_jsonl

TEMPLATE = Path(__file__).with_name("report.html.j2")
SAMPLE_STEPS_SHOWN = 4
EXAM_NAMES = {"pretrain exam": "after pre-training", "sft exam": "after fine-tuning"}


def write_report(result: DemoResult) -> Path:
    """Write report.html and the figures; returns the page's path."""
    folder = result.plan.folder
    base = RunDirectory(result.plan.pretrain_dir)
    tuned = RunDirectory(folder)
    exams = {name: result.exam(stage) for stage, name in EXAM_NAMES.items()}
    figures = {
        "loss": loss_png(
            {"pre-training": base.read_metrics(), "fine-tuning": tuned.read_metrics()}
        ),
        "bits": bits_png(base.read_metrics()),
        "accuracy": accuracy_png(exams),
    }
    for name, png in figures.items():
        atomic_write(folder / "plots" / f"{name}.png", png)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    numbers = summary(result)
    page = template.render(
        average=numbers["average"],
        parameters=human_count(numbers["parameters"]),
        total_time=human_time(numbers["time_s"]),
        machine=numbers["machine"],
        exams=list(exams),
        rows=_rows(exams),
        questions=numbers["questions"],
        forms=[(name, numbers["quantized"][name]) for name in ("f32", TARGET)],
        plots={name: base64.b64encode(png).decode("ascii") for name, png in figures.items()},
        stages=_stages(result),
        peak_memory=f"{numbers['peak_rss_bytes'] / 2**20:.0f} MiB",
        samples=[*_samples(base, "pre-training"), *_samples(tuned, "fine-tuning")],
    )
    target = folder / "report.html"
    atomic_write(target, page)
    return target


def summary(result: DemoResult) -> dict[str, Any]:
    """The demo's numbers as one JSON object."""
    tasks = result.exam("sft exam")
    average = average_of(tasks)
    assert average is not None
    runs = (RunDirectory(result.plan.pretrain_dir), RunDirectory(result.plan.folder))
    peaks = [r["peak_rss_bytes"] for run in runs for r in run.read_metrics() if "loss" in r]
    return {
        "command": f"cerne demo --minutes {result.plan.minutes:g} --seed {result.plan.seed}",
        "folder": str(result.plan.folder),
        "parameters": read_config(find_model(result.model)).num_parameters(),
        "average": {**average.model_dump(mode="json"), "items": sum(t.items for t in tasks)},
        "tasks": {
            name: {task.name.removeprefix("world/"): _score(task) for task in result.exam(stage)}
            for stage, name in EXAM_NAMES.items()
        },
        "tokenizer": result.stages["tokenizer"],
        "pretrain": result.stages["pretrain"],
        "sft": result.stages["sft"],
        "questions": result.stages["questions"],
        "quantized": result.stages["quantize"],
        "times_s": {stage: result.times_s[stage] for stage in STAGES},
        "time_s": sum(result.times_s.values()),
        "peak_rss_bytes": max([peak_rss_bytes(), *peaks]),
        "machine": machine_facts(),
    }


def _score(task: TaskResult) -> dict[str, Any]:
    kept = {"accuracy", "low", "high", "items", "majority", "guess"}
    return task.model_dump(mode="json", include=kept)


def _rows(exams: Mapping[str, Sequence[TaskResult]]) -> list[dict[str, Any]]:
    return [
        {
            "task": tasks[0].name.removeprefix("world/"),
            "cells": tasks,
            "majority": tasks[-1].majority,
            "guess": tasks[-1].guess,
        }
        for tasks in zip(*exams.values(), strict=True)
    ]


def _stages(result: DemoResult) -> list[dict[str, str]]:
    rows = []
    for stage in STAGES:
        done = result.stages[stage]
        row = {"name": stage, "time": human_time(result.times_s[stage])}
        if isinstance(done, Mapping) and "steps" in done:
            rate = done["tokens"] / done["time_s"] if done["time_s"] > 0 else 0.0
            numbers = (str(done["steps"]), human_count(done["tokens"]), human_count(rate))
        else:
            numbers = ("", "", "")
        rows.append({**row, **dict(zip(("steps", "tokens", "rate"), numbers, strict=True))})
    return rows


def _samples(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    """The samples of a few steps, from the first to the last."""
    by_step: dict[int, list[dict[str, str]]] = {}
    for sample in read_jsonl(run.samples_path):
        by_step.setdefault(sample["step"], []).append(sample)
    steps = sorted(by_step)
    last = len(steps) - 1
    wanted = min(SAMPLE_STEPS_SHOWN, len(steps))
    chosen = sorted({round(i * last / max(1, wanted - 1)) for i in range(wanted)})
    return [{"name": name, "step": steps[i], "samples": by_step[steps[i]]} for i in chosen]
