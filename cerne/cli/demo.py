"""`cerne demo`: the whole path in about five minutes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cerne.cli.app import print_json
from cerne.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from cerne.demo.pipeline import DemoResult

app = typer.Typer(rich_markup_mode=None, add_completion=False)
RESULTS = Path("docs") / "results" / "demo.json"


@app.command()
def demo(
    resume: bool = typer.Option(False, "--resume", help="Continue the demo in --dir."),
    folder: str = typer.Option("runs/demo", "--dir", help="Where everything is written."),
    seed: int = typer.Option(0, "--seed", min=0, help="Of text, weights and data order."),
    minutes: float = typer.Option(5.0, "--minutes", help="About how long it may take."),
    threads: int = typer.Option(None, "--threads", min=1, help="CPU threads; default all cores."),
    no_chat: bool = typer.Option(False, "--no-chat", help="Do not open a chat at the end."),
    write_results: bool = typer.Option(
        False, "--write-results", help=f"Also write the numbers to {RESULTS}."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Text, tokenizer, pre-training, fine-tuning, exam, chat: all of it, here, from nothing.

    A small built-in world writes stories and questions in English and Portuguese; the exam asks
    about combinations and wordings that training never contained. Ctrl-C saves a checkpoint;
    cerne demo --resume goes on. Afterwards: cerne chat runs/demo
    """
    from cerne.device import reexec_with_allocator

    reexec_with_allocator()
    from cerne.demo.pipeline import run_demo
    from cerne.demo.plan import DemoPlan
    from cerne.demo.report import summary, write_report
    from cerne.demo.smaller import quantized_path
    from cerne.progress import say

    plan = DemoPlan(folder=Path(folder), seed=seed, minutes=minutes, threads=threads)
    try:
        result = run_demo(plan, resume=resume)
    except KeyboardInterrupt as event:
        again = "" if folder == "runs/demo" else f" --dir {folder}"
        again += "" if seed == 0 else f" --seed {seed}"
        again += "" if minutes == 5.0 else f" --minutes {minutes:g}"
        say(f"{event or 'interrupted'}\nto go on: cerne demo --resume{again}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    report = write_report(result)
    numbers = summary(result)
    _print(result, numbers)
    smaller = quantized_path(plan.folder)
    print(f"\nreport: {report}\nchat:   cerne chat {folder}\nor:     cerne chat {smaller}")
    if write_results:
        _write_results(numbers)
    if as_json:
        print_json(numbers)
    elif not no_chat and sys.stdin.isatty() and sys.stdout.isatty():
        _chat(folder, threads)


def _print(result: DemoResult, numbers: dict[str, Any]) -> None:
    """The score table and the six questions."""
    from rich.console import Console
    from rich.table import Table

    table = Table("task", "after pre-training", "after fine-tuning", "95 % interval", "baseline")
    exams = zip(result.exam("pretrain exam"), result.exam("sft exam"), strict=True)
    for before, after in exams:
        table.add_row(
            after.name.removeprefix("world/"),
            f"{before.accuracy:.1%}",
            f"{after.accuracy:.1%}",
            f"{after.low:.1%} - {after.high:.1%}",
            f"{max(after.majority, after.guess):.1%}",
        )
    average = numbers["average"]
    table.add_section()
    bounds = f"{average['low']:.1%} - {average['high']:.1%}"
    table.add_row("average", "", f"{average['accuracy']:.1%}", bounds, "")
    console = Console()
    console.print("\nHeld-out questions, answered right:")
    console.print(table)
    for shown in result.stages["questions"]:
        console.print(f"\n{shown['prompt']}", markup=False, highlight=False)
        mark = "right" if shown["right"] else f"wrong, expected {shown['expected']}"
        console.print(f"  > {shown['answer']}  ({mark})", markup=False, highlight=False)


def _write_results(numbers: dict[str, Any]) -> None:
    import json

    from cerne.progress import say
    from cerne.runs import atomic_write

    atomic_write(RESULTS, json.dumps(numbers, ensure_ascii=False, indent=1) + "\n")
    say(f"wrote {RESULTS}")


def _chat(folder: str, threads: int | None) -> None:
    from cerne.engine.chat_loop import chat_loop
    from cerne.engine.interface import SamplingParams
    from cerne.engine.session import load
    from cerne.progress import say

    say("\nNow ask it yourself: tell a short story in its words, then a question about it.")
    chat_loop(load(folder, device="cpu", threads=threads), SamplingParams(temperature=0.0))
