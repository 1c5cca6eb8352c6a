"""`cerne bench`: speed side by side with the peers that are installed."""

from __future__ import annotations

from pathlib import Path

import typer

from cerne.cli.app import print_json
from cerne.errors import InputError

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
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


@app.command()
def train(
    sizes: str = typer.Option("micro,tiny", "--sizes", help="micro (1M) and tiny (25M)."),
    repetitions: int = typer.Option(7, "--repetitions", min=1, help="Turns of each contender."),
    threads: int = typer.Option(None, "--threads", min=1, help="CPU threads; default all cores."),
    out: Path = typer.Option(
        Path("docs/results/train.json"), "--out", "-o", help="Where the results are written."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Training speed beside a nanoGPT-style loop and transformers, on the same batch.

    Example: cerne bench train --sizes micro
    """
    from cerne.bench.report import write_results
    from cerne.bench.train import run

    results = run([size.strip() for size in sizes.split(",") if size.strip()], repetitions, threads)
    write_results(out, results)
    print(f"\nwrote {out}")
    if as_json:
        print_json(results)


@app.command()
def shakespeare(
    text: Path = typer.Argument(..., help="The text of tiny Shakespeare, or any other."),
    recipe: Path = typer.Option(Path("recipes/shakespeare.toml"), "--recipe", help="What to run."),
    seeds: str = typer.Option("0,1,2", "--seeds", help="Seeds, separated by commas."),
    variants: str = typer.Option("recipe", "--variants", help="Of the recipe; `all` for all."),
    time_limit_s: float = typer.Option(None, "--time-limit", help="Seconds instead of steps."),
    overrides: list[str] = typer.Option([], "--set", help="A recipe key for all: KEY=VALUE."),
    jobs: int = typer.Option(1, "--jobs", min=1, help="Trainings at once, sharing the cores."),
    runs: Path = typer.Option(Path("runs"), "--runs", help="Where run directories go."),
    out: Path = typer.Option(
        Path("docs/results/shakespeare.json"), "--out", "-o", help="Where the results are written."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Held-out bits per byte after five minutes of training, over seeds and variants.

    Example: cerne bench shakespeare shakespeare.txt --variants recipe,adamw --time-limit 60
    """
    from cerne.bench.report import write_results
    from cerne.bench.shakespeare import VARIANTS, run

    numbers = seeds.replace(" ", "").split(",")
    if not all(number.isdecimal() for number in numbers):
        raise InputError("a seed is not a whole number", value=seeds, allowed="for example 0,1,2")
    results = run(
        text,
        recipe=recipe,
        runs=runs,
        seeds=[int(number) for number in numbers],
        variants=list(VARIANTS) if variants == "all" else variants.split(","),
        time_limit_s=time_limit_s,
        overrides=overrides,
        jobs=jobs,
    )
    write_results(out, results)
    print(f"\nwrote {out}")
    if as_json:
        print_json(results)


@app.command()
def text(
    folder: Path = typer.Argument(..., help="Holds en_books.jsonl.xz and the like; see above."),
    minutes: float = typer.Option(5.0, "--minutes", help="Training time of each language."),
    only: str = typer.Option(None, "--only", metavar="LANGUAGES", help="For example pt or en,ru."),
    overrides: list[str] = typer.Option([], "--set", help="A recipe key for all: KEY=VALUE."),
    recipe: Path = typer.Option(Path("recipes/books.toml"), "--recipe", help="What to run."),
    runs: Path = typer.Option(Path("runs"), "--runs", help="Where run directories go."),
    out: Path = typer.Option(
        Path("docs/results/real_text.json"), "--out", "-o", help="Where the results are written."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Held-out bits per byte on books in English, Portuguese and Russian, beside compressors.

    Each language trains a model of its own in runs/real-text-LANGUAGE; bz2, xz and a byte 5-gram
    model of the same training text stand beside it. FOLDER holds en_books.jsonl.xz,
    pt_books.jsonl.xz and ru_books.jsonl.xz (a book a row, under "text") and, for English,
    en_wikitext2_test.txt.xz.

    Example: cerne bench text books --minutes 5 --only pt
    """
    from cerne.bench.real_text import run
    from cerne.bench.report import write_results

    results = run(
        folder,
        recipe=recipe,
        runs=runs,
        minutes=minutes,
        languages=only.split(",") if only is not None else None,
        overrides=overrides,
    )
    write_results(out, results)
    print(f"\nwrote {out}")
    if as_json:
        print_json(results)


@app.command()
def determinism(
    models: list[str] = typer.Argument(..., help="Model directories, .gguf files or packages."),
    tokens: int = typer.Option(1000, "--tokens", help="Tokens to generate."),
    out: Path = typer.Option(
        Path("docs/results/determinism.json"), "--out", "-o", help="Where the results are written."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Whether the logits have the same bits for all threads, batches, pieces and instruction sets.

    Example: cerne bench determinism smollm2 runs/demo
    """
    from cerne.bench.determinism import result_table, run
    from cerne.bench.report import with_circumstances, write_results

    results = with_circumstances(run(models, tokens))
    print(result_table(results))
    write_results(out, results)
    print(f"\nwrote {out}")
    if as_json:
        print_json(results)
    if not all(found["all_same"] for found in results["models"].values()):
        raise typer.Exit(1)


@app.command()
def cpu(
    models: list[str] = typer.Option(
        ..., "--model", help="A GGUF file, or smollm2; may be given more than once."
    ),
    peers: list[str] = typer.Option(
        [], "--peer", help="llama.cpp, ik, ctranslate2 or all; default: those installed."
    ),
    peer_pythons: list[str] = typer.Option(
        [],
        "--peer-python",
        metavar="[PEER=]PATH",
        help="The interpreter that has a peer, or all of them; default: this one.",
    ),
    threads: str = typer.Option("1,2", "--threads", help="Thread counts, separated by commas."),
    repetitions: int = typer.Option(5, "--repetitions", min=1, help="Rounds of all engines."),
    tokens: int = typer.Option(32, "--tokens", help="Steps of each decode."),
    long: bool = typer.Option(False, "--long", help="Decode at a context of 4,096 too."),
    out: Path = typer.Option(
        Path("docs/results/cpu.json"), "--out", "-o", help="Where the results are written."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Inference speed and memory beside llama.cpp, ik_llama.cpp and CTranslate2 on the same file.

    Every engine has a process of its own and they take turns; a ratio is the peer's median step
    time over ours within a round. Peers are Python packages: llama-cpp-python,
    ik-llama-cpp-python, ctranslate2 (in int8, random weights of the same shape).

    Example: cerne bench cpu --model smollm2 --peer llama.cpp --peer-python peers/bin/python
    """
    from cerne.bench.cpu import run
    from cerne.bench.report import write_results

    counts = threads.replace(" ", "").split(",")
    if not all(count.isdecimal() and 1 <= int(count) <= 1024 for count in counts):
        raise InputError("a thread count is out of range", value=threads, allowed="1 to 1024")
    results = run(
        models,
        peers=peers,
        peer_pythons=peer_pythons,
        threads=[int(count) for count in counts],
        repetitions=repetitions,
        tokens=tokens,
        long=long,
    )
    write_results(out, results)
    print(f"\nwrote {out}")
    if as_json:
        print_json(results)


@app.command()
def quantize(
    model: str = typer.Option("smollm2", "--model", help="A model directory or a GGUF file."),
    formats: str = typer.Option("all", "--formats", help="For example Q4_K,Q4_0."),
    every: int = typer.Option(1, "--every", help="Only each n-th layer and row of the embedding."),
    peer_python: str = typer.Option(
        None, "--peer-python", metavar="PATH", help="The interpreter that has llama-cpp-python."
    ),
    out: Path = typer.Option(
        Path("docs/results/quantize_error.json"), "--out", "-o", help="Where the results go."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Reconstruction error of every block format on real weights, beside llama.cpp's encoders.

    Example: cerne bench quantize --model smollm2 --peer-python peers/bin/python
    """
    from cerne.bench.quantize import FORMATS, run
    from cerne.bench.report import write_results

    chosen = FORMATS if formats == "all" else formats.replace(" ", "").upper().split(",")
    results = run(model, chosen, every, peer_python)
    write_results(out, results)
    print(f"\nwrote {out}")
    if as_json:
        print_json(results)
