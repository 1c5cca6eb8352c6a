"""The scorecard of a model: what was measured, on which machine, as JSON and as a table.

`evaluate` runs texts and tasks on a loaded model; `Scorecard` is the result, which reads back from
its own JSON. Every figure stands beside its baseline. Comparing two cards is in compare.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import Field

from cerne.config import Config, build
from cerne.device import machine_facts, peak_rss_bytes
from cerne.errors import DataError, InputError
from cerne.evaluate.bootstrap import macro_interval
from cerne.evaluate.bpb import TextResult, read_text_file, score_text
from cerne.evaluate.multiple_choice import choice_name, read_choices, score_choices
from cerne.evaluate.tasks import TaskResult, ask, world_tasks
from cerne.progress import Progress
from cerne.runs import atomic_write, sha256_file

if TYPE_CHECKING:
    from rich.table import Table

    from cerne.engine.session import LanguageModel

FORMAT_VERSION = 1
WORLD = "world"


@dataclass(frozen=True)
class EvaluateOptions:
    """What to measure.

    Attributes:
        tasks: "world", or paths of multiple-choice files.
        texts: paths for bits per byte.
        limit: items per task.
        language: of the world's questions.
        max_tokens: longest answer.
        seq_len, stride: window policy of bits per byte; None: see bpb.score_text.
        dtype: bfloat16 scores texts and choices under autocast.
    """

    tasks: tuple[str, ...] = (WORLD,)
    texts: tuple[str, ...] = ()
    limit: int = 100
    language: Literal["en", "pt", "mix"] = "mix"
    max_tokens: int = 64
    seq_len: int | None = None
    stride: int | None = None
    dtype: torch.dtype = torch.float32


class Average(Config):
    """Mean of the tasks' accuracies, with its 95 % interval, and of their best baselines."""

    accuracy: float
    low: float
    high: float
    majority: float
    guess: float


class Scorecard(Config):
    """Everything measured of one model."""

    format_version: int = FORMAT_VERSION
    model: str
    weights_sha256: str | None = None
    parameters: int
    texts: tuple[TextResult, ...] = ()
    tasks: tuple[TaskResult, ...] = ()
    average: Average | None = None
    command: str = ""
    machine: dict[str, Any] = Field(default_factory=dict)
    peak_rss_bytes: int = 0

    def to_json(self) -> str:
        """The card as JSON text."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n"

    def save(self, path: str | Path) -> None:
        """Write the card as JSON, wholly or not at all."""
        atomic_write(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Scorecard:
        """Read a card back.

        Raises:
            DataError: unreadable, or not a scorecard of this version.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read the scorecard: {error}", value=str(path)) from None
        version = content.get("format_version") if isinstance(content, dict) else None
        if version != FORMAT_VERSION:
            raise DataError(
                "not a scorecard of this version",
                value=version,
                allowed=str(FORMAT_VERSION),
                hint=f"cerne evaluate MODEL --out {path}",
            )
        return build(cls, content, source=str(path))

    def tables(self) -> list[Table]:
        """Rich tables for a terminal."""
        return [*_text_tables(self.texts), *_task_tables(self.tasks, self.average)]


def evaluate(model: LanguageModel, options: EvaluateOptions, command: str = "") -> Scorecard:
    """Measure a model.

    Raises:
        InputError: nothing to measure, or a question beyond the context. DataError: a bad file.
    """
    if not options.tasks and not options.texts:
        raise InputError("nothing to evaluate", hint="--tasks world or --text FILE")
    if options.limit < 1:
        raise InputError("--limit is out of range", value=options.limit, allowed="1 or more")
    texts = [
        score_text(model, read_text_file(path), options.seq_len, options.stride, options.dtype)
        for path in options.texts
    ]
    tasks: list[TaskResult] = []
    for name in options.tasks:
        tasks.extend(_run(model, name, options))
    network = model.network
    folder = model.folder
    return Scorecard(
        model=_model_name(folder),
        weights_sha256=_weights_digest(folder),
        parameters=network.config.num_parameters(),
        texts=tuple(texts),
        tasks=tuple(tasks),
        average=average_of(tasks),
        command=command,
        machine=machine_facts(),
        peak_rss_bytes=peak_rss_bytes(),
    )


def keep_whole(table: Table) -> None:
    """No cell is folded: figures stay readable in a narrow terminal and in files."""
    for column in table.columns:
        column.no_wrap = True


def average_of(tasks: Sequence[TaskResult]) -> Average | None:
    """The mean over tasks, each with the same weight; None without tasks."""
    if not tasks:
        return None
    bounds = macro_interval([task.values() for task in tasks])
    return Average(
        accuracy=bounds.mean,
        low=bounds.low,
        high=bounds.high,
        majority=sum(task.majority for task in tasks) / len(tasks),
        guess=sum(task.guess for task in tasks) / len(tasks),
    )


def _run(model: LanguageModel, name: str, options: EvaluateOptions) -> list[TaskResult]:
    if name == WORLD:
        tasks = world_tasks(options.limit, options.language)
        with Progress("world tasks", sum(len(t.items) for t in tasks), "items") as bar:
            return [ask(model, task, options.max_tokens, bar) for task in tasks]
    if not Path(name).exists():
        raise InputError(
            "no such task", value=name, allowed="world, or the path of a multiple-choice file"
        )
    items = read_choices(name, options.limit)
    title = choice_name(name)
    with Progress(title, sum(len(i.choices) for i in items), "choices") as bar:
        return [score_choices(model, title, items, options.dtype, bar)]


def _model_name(folder: Path | None) -> str:
    """The folder's name; for a checkpoint, the run's name and the step."""
    if folder is None:
        return "in memory"
    path = folder.resolve()
    if path.parent.name == "checkpoints":
        return f"{path.parent.parent.name}/{path.name}"
    return path.name


def _weights_digest(folder: Path | None) -> str | None:
    weights = folder / "model.safetensors" if folder is not None else None
    return sha256_file(weights) if weights is not None and weights.is_file() else None


def _text_tables(texts: Sequence[TextResult]) -> list[Table]:
    from rich.table import Table

    if not texts:
        return []
    table = Table("text", "bits/byte", "nats/token", "bytes/token", "bytes", "window", "tok/s")
    keep_whole(table)
    for text in texts:
        table.add_row(
            text.name,
            f"{text.bits_per_byte:.4f}",
            f"{text.nats_per_token:.4f}",
            f"{text.bytes_per_token:.3f}",
            str(text.num_bytes),
            f"{text.seq_len}/{text.stride}",
            f"{text.rate_tok_s:.0f}",
        )
    return [table]


def _task_tables(tasks: Sequence[TaskResult], average: Average | None) -> list[Table]:
    from rich.table import Table

    if not tasks or average is None:
        return []
    table = Table("task", "accuracy", "95 % interval", "majority", "guess", "stopped", "items")
    keep_whole(table)
    for task in tasks:
        accuracy = f"{task.accuracy:.1%}"
        if task.acc_norm is not None:
            accuracy += f" (norm {task.acc_norm:.1%})"
        table.add_row(
            task.name,
            accuracy,
            f"{task.low:.1%} - {task.high:.1%}",
            f"{task.majority:.1%}",
            f"{task.guess:.1%}",
            "" if task.stopped is None else f"{task.stopped:.0%}",
            str(task.items),
        )
    table.add_section()
    table.add_row(
        "average",
        f"{average.accuracy:.1%}",
        f"{average.low:.1%} - {average.high:.1%}",
        f"{average.majority:.1%}",
        f"{average.guess:.1%}",
        "",
        str(sum(task.items for task in tasks)),
    )
    return [table]
