"""`cerne quantize MODEL OUT.gguf`: a model with smaller weights as one GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from cerne.cli.app import print_json
from cerne.errors import InputError

app = typer.Typer(rich_markup_mode=None, add_completion=False)

THREADS_OPTION = typer.Option(None, "--threads", min=1, help="CPU threads; default all cores.")
FORCE_OPTION = typer.Option(False, "--force", help="Write over OUT.gguf when it is there.")


@app.command()
def quantize(
    model: str = typer.Argument(
        ..., help="A model directory, a run directory, a GGUF file or an installed model package."
    ),
    out: Path = typer.Argument(..., metavar="OUT.gguf", help="The file to write."),
    to: str = typer.Option(
        "q4_k_m", "--to", help="q8_0, q6_k, q5_k_m, q4_k_m, q4_0 or iq4_nl; see above."
    ),
    calibrate: Path = typer.Option(
        None, "--calibrate", metavar="TEXT", help="A text like those the model will read."
    ),
    calibrate_tokens: int = typer.Option(
        32_768, "--calibrate-tokens", min=512, help="Tokens of TEXT that are read."
    ),
    threads: int = THREADS_OPTION,
    force: bool = FORCE_OPTION,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Make a model smaller and faster: weights of 4 to 8 bits in one GGUF file.

    \b
    q8_0    8.5 bits a weight   no difference that anybody has measured in answers
    q6_k    6.6                 close to it, a quarter smaller
    q5_k_m  5.7                 a good choice where memory allows it
    q4_k_m  4.9                 the usual choice: a third of f16
    q4_0    4.5                 the fastest to compute, the coarsest
    iq4_nl  4.5                 finer than q4_0 in the same space

    Which tensor gets which type follows llama.cpp's mixtures, and llama.cpp, Ollama and LM Studio
    read the file. The K types need rows of a multiple of 256 values; other rows get a larger type,
    which is told, and so are the real bits per weight.

    With --calibrate, columns of the matrices that the text uses most get the smallest errors. Give
    some ten thousand words of the kind the model is for. Start from the original weights: what an
    earlier quantization lost does not come back.

    Example: cerne quantize runs/demo demo-q4.gguf --to q4_k_m --calibrate books.txt
    """
    from cerne.quantize.run import quantize as run

    if calibrate is not None and not calibrate.is_file():
        raise InputError("there is no such text", value=str(calibrate), allowed="a file of text")
    report = run(
        model,
        out,
        to,
        calibrate=calibrate,
        calibrate_tokens=calibrate_tokens,
        force=force,
        threads=threads,
    )
    print_report(report)
    if as_json:
        print_json(report)


def print_report(report: dict[str, Any]) -> None:
    """What a file holds, by type, and the line to try next."""
    for kind, group in report["types"].items():
        bits = 8 * group["bytes"] / group["weights"]
        print(
            f"{kind:<7} {group['tensors']:>4} tensors {group['weights']:>15,} weights"
            f" {group['bytes'] / 1e6:>10,.2f} MB  {bits:.2f} bits a weight"
        )
    replaced = sum(entry["tensors"] for entry in report["fallbacks"])
    print(
        f"wrote {report['file']}: {report['file_bytes'] / 1e6:,.1f} MB, "
        f"{report['bits_per_weight']:.2f} bits per weight"
        + (f" (rows of {replaced} tensors needed a larger type)" if replaced else "")
    )
    print(f"next: cerne generate {report['file']} 'Once upon a time'")
