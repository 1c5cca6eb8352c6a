"""`cerne bench`: speed side by side with the peers that are installed."""

from __future__ import annotations

from pathlib import Path

import typer

from cerne.cli.app import print_json

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Measure speed side by side with the peers that are installed: pip install 'cerne[bench]'",
)


@app.callback()
def bench() -> None:
    """Measure speed side by side with the peers that are installed."""


@app.command()
def tokenizer(
    corpus: list[str] = typer.Option(
        [], "--corpus", help="A text file for part of the corpus; may be given more than once."
    ),
    megabytes: float = typer.Option(5.0, "--megabytes", help="Size of the corpus."),
    repetitions: int = typer.Option(5, "--repetitions", help="Runs of every timing."),
    out: Path = typer.Option(
        Path("docs/results/tokenizer.json"), "--out", "-o", help="Where the results are written."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Encode and train on one core, beside gigatoken, fastokens, tiktoken, tokenizers, rustbpe.

    Example: cerne bench tokenizer --corpus books.txt --repetitions 5
    """
    from cerne.bench.report import write_results
    from cerne.bench.tokenizer import run

    results = run(corpus, int(megabytes * 1e6), repetitions)
    write_results(out, results)
    print(f"\nwrote {out}")
    if as_json:
        print_json(results)
