"""`cerne convert MODEL OUT.gguf`: a model as one GGUF file, weights as they are."""

from __future__ import annotations

from pathlib import Path

import typer

from cerne.cli.app import print_json
from cerne.cli.quantize import FORCE_OPTION, THREADS_OPTION, print_report

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def convert(
    model: str = typer.Argument(
        ..., help="A model directory, a run directory, a GGUF file or an installed model package."
    ),
    out: Path = typer.Argument(..., metavar="OUT.gguf", help="The file to write."),
    to: str = typer.Option("f16", "--to", help="f32, f16 or bf16: the type of the matrices."),
    threads: int = THREADS_OPTION,
    force: bool = FORCE_OPTION,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Write a model as one GGUF file, for llama.cpp, Ollama, LM Studio and cerne itself.

    Weights, tokenizer, special tokens and chat template all go into the file. f32 loses nothing,
    bf16 nothing of a model that was trained in it, f16 next to nothing; norms and biases stay f32.
    To make it smaller: cerne quantize. A half-written file never appears under OUT.gguf.

    Example: cerne convert runs/demo demo.gguf --to f16
    """
    from cerne.quantize.run import convert as run

    report = run(model, out, to, force=force, threads=threads)
    print_report(report)
    if as_json:
        print_json(report)
