"""`cerne evaluate`: bits per byte, tasks with intervals, comparison of two models."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cerne.cli.app import print_json

if TYPE_CHECKING:
    from cerne.evaluate.scorecard import EvaluateOptions, Scorecard

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="A model directory or a run directory.")],
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks",
            metavar="NAME,...",
            help="world, or paths of multiple-choice files; without --text the default is world.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="FILE", help="Bits per byte of this text. Repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Items of each task.")] = 100,
    language: Annotated[str, typer.Option("--language", help="World: en, pt or mix.")] = "mix",
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Longest answer.")] = 64,
    seq_len: Annotated[
        int | None,
        typer.Option("--seq-len", help="Context of bits per byte (none: as in training)."),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option("--stride", help="Targets per window (none: seq-len, no overlap)."),
    ] = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            "--baselines", metavar="TRAIN", help="With --text: bz2, xz and n-gram after this text."
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="OTHER", help="A second model, or its scorecard.json."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the scorecard as JSON.")
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[
        int | None, typer.Option("--threads", help="Compute threads (none: all).")
    ] = None,
    precision: Annotated[str, typer.Option("--precision", help="fp32, bf16 or auto.")] = "fp32",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on the last line.")
    ] = False,
) -> None:
    """Score a model: bits per byte of texts, and tasks whose answers can be checked.

    World questions use entities, numbers and wordings that training never saw. Each figure stands
    beside what the commonest answer and a guess among the plausible ones would reach.

    Example: cerne evaluate runs/sft --text book.txt --compare runs/pretrain
    """
    from rich.console import Console

    from cerne.device import reexec_with_allocator
    from cerne.errors import ConfigError

    if language not in ("en", "pt", "mix"):
        raise ConfigError("unknown world language", value=language, allowed="en, pt, mix")
    if baselines is not None and not text:
        raise ConfigError("--baselines needs --text", value=baselines)
    reexec_with_allocator()
    from cerne.evaluate.scorecard import WORLD, EvaluateOptions

    texts = tuple(text) if text is not None else ()
    if tasks is None:
        names: tuple[str, ...] = () if texts else (WORLD,)
    else:
        names = tuple(name for name in tasks.split(",") if name)
    options = EvaluateOptions(
        tasks=names,
        texts=texts,
        limit=limit,
        language=language,  # type: ignore[arg-type]
        max_tokens=max_tokens,
        seq_len=seq_len,
        stride=stride,
    )
    place = {"device": device, "threads": threads, "precision": precision}
    card = _card(model, options, place)
    shown: dict[str, Any] = card.model_dump(mode="json")
    # A pipe has no width of its own.
    console = Console(width=None if sys.stdout.isatty() else 110)
    for table in card.tables():
        console.print(table)
    if texts:
        shown["baselines"] = _baselines(texts, baselines)
        for line in _baseline_lines(shown["baselines"]):
            print(line)
    if out is not None:
        card.save(out)
    if compare is not None:
        from cerne.evaluate.compare import compare as compare_cards
        from cerne.evaluate.scorecard import Scorecard

        other = Scorecard.load(compare) if compare.endswith(".json") else None
        found = compare_cards(card, other if other is not None else _card(compare, options, place))
        print(f"a = {model}, b = {compare}")
        for table in found.tables():
            console.print(table)
        for name in found.not_comparable:
            print(f"not comparable (other items or window): {name}")
        shown["comparison"] = found.model_dump(mode="json")
    if as_json:
        print_json(shown)


def _card(model: str, options: EvaluateOptions, place: dict[str, Any]) -> Scorecard:
    import dataclasses

    import torch

    from cerne.engine.session import load
    from cerne.evaluate.scorecard import evaluate as run

    loaded = load(model, **place)
    if next(loaded.network.parameters()).dtype == torch.bfloat16:
        options = dataclasses.replace(options, dtype=torch.bfloat16)
    return run(loaded, options, command=shlex.join(["cerne", *sys.argv[1:]]))


def _baselines(texts: tuple[str, ...], train: str | None) -> dict[str, Any]:
    from cerne.evaluate.baselines import baselines
    from cerne.evaluate.bpb import read_text_file

    seen = read_text_file(train).joined() if train is not None else None
    return {path: baselines(read_text_file(path).joined(), seen).to_json() for path in texts}


def _baseline_lines(found: dict[str, Any]) -> list[str]:
    lines = []
    for path, values in found.items():
        figures = ", ".join(
            f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value}"
            for name, value in values.items()
            if value is not None
        )
        lines.append(f"{path}: bits per byte without a model: {figures}")
    return lines
