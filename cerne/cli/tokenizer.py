"""`cerne tokenizer`: train, encode and inspect a byte-level BPE tokenizer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cerne.cli.app import print_json
from cerne.errors import InputError
from cerne.progress import Progress

if TYPE_CHECKING:
    from cerne.data.sources import Source
    from cerne.tokenizer.bpe import Tokenizer

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="Train a byte-level BPE tokenizer, encode text with one, look inside one.",
)
JSON_OPTION = typer.Option(False, "--json", help="Print one JSON object on the last line.")
MODEL_ARGUMENT = typer.Argument(help="A folder with tokenizer.json, or the file itself.")


@app.command()
def train(
    files: list[str] = typer.Argument(
        help="Text, JSONL or Parquet files (also .gz, .xz, .zst), folders, globs, or world:en."
    ),
    vocab_size: int = typer.Option(
        4096, "--vocab-size", "-v", help="Number of ids, the special tokens included."
    ),
    pattern: str = typer.Option(
        "qwen2", "--pattern", help="How text is split first: gpt2, gpt4, llama3, qwen2, smollm."
    ),
    out: Path = typer.Option(..., "--out", "-o", help="Folder for tokenizer.json."),
    threads: int = typer.Option(0, "--threads", help="Threads that count words; 0: one per core."),
    field: str = typer.Option("text", "--field", help="Field of JSONL and Parquet rows."),
    allow_fewer: bool = typer.Option(
        False, "--allow-fewer", help="Take a smaller vocabulary when the text supports no more."
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Learn a vocabulary from text and write it as a Hugging Face tokenizer folder.

    The result does not depend on the number of threads. Larger vocabularies make shorter token
    sequences but larger models: 1k to 8k suits models of a few million parameters.

    Memory does not grow with the text: 1.5 GB at most, and about 90 bytes a pair of tokens.

    Example: cerne tokenizer train books.txt --vocab-size 4096 --out runs/tok
    """
    from cerne.tokenizer.bpe import Tokenizer
    from cerne.tokenizer.inspect import describe
    from cerne.tokenizer.training import VocabularyTrainer

    if threads < 0:
        raise InputError("--threads is negative", value=threads, allowed="0 or more")
    trainer = VocabularyTrainer(vocab_size, pattern, threads=None if threads == 0 else threads)
    sources = _sources(files)
    # A world's size is counted in documents; then there is no total in bytes.
    sized = all(source.kind != "world" for source in sources)
    total = sum(source.size_bytes for source in sources) if sized else None
    with Progress("reading", total=total, unit="B") as bar:
        for source in sources:
            for text, last in _texts(source, field, bar.advance):
                trainer.feed(text)
                if last:
                    trainer.end_document()
    tokenizer = Tokenizer(trainer.train(progress=True, allow_fewer=allow_fewer))
    tokenizer.save(out)
    print(f"wrote {out}: {tokenizer.vocab_size} ids, digest {tokenizer.digest[:16]}")
    print(f"next: cerne tokenizer encode {out} 'some text' --pieces")
    if as_json:
        print_json({"folder": str(out), **describe(tokenizer)})


@app.command()
def encode(
    model: Path = MODEL_ARGUMENT,
    text: str | None = typer.Argument(None, help="The text; without it, --file or standard input."),
    file: Path | None = typer.Option(None, "--file", "-f", help="Encode the bytes of this file."),
    ids: bool = typer.Option(False, "--ids", help="Print the ids on one line (the default)."),
    pieces: bool = typer.Option(False, "--pieces", help="Print each id with its text."),
    offsets: bool = typer.Option(False, "--offsets", help="Print each id with its byte range."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show the tokens of a text. Text never becomes a special token.

    Example: cerne tokenizer encode runs/tok 'Hello world' --pieces
    """
    from cerne.tokenizer.bpe import Tokenizer
    from cerne.tokenizer.inspect import readable

    if ids + pieces + offsets > 1:
        raise InputError("choose one of --ids, --pieces and --offsets")
    data = _input_bytes(text, file)
    tokenizer = Tokenizer.load(model)
    found, ranges = tokenizer.encode_with_offsets(data)
    if pieces or offsets:
        for token, (begin, end) in zip(found, ranges.tolist(), strict=True):
            place = f"{begin:>8} {end:>8}  " if offsets else ""
            print(f"{token:>8}  {place}'{readable(tokenizer.token_bytes(token))}'")
    elif not as_json or ids:
        print(" ".join(map(str, found)))
    if as_json:
        result: dict[str, Any] = {"ids": found, "bytes": len(data), "tokens": len(found)}
        if pieces:
            result["pieces"] = [readable(tokenizer.token_bytes(token)) for token in found]
        if offsets:
            result["offsets"] = ranges.tolist()
        print_json(result)


@app.command()
def inspect(
    model: Path = MODEL_ARGUMENT,
    files: list[str] = typer.Argument(None, help="Texts to measure the tokenizer on."),
    field: str = typer.Option("text", "--field", help="Field of JSONL and Parquet rows."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show what a tokenizer holds and, given files, how well it fits them.

    Fertility is tokens per word: 1.0 means every word is one token.

    Example: cerne tokenizer inspect runs/tok books.txt
    """
    from cerne.tokenizer.bpe import Tokenizer
    from cerne.tokenizer.inspect import TextMeasure, describe

    tokenizer = Tokenizer.load(model)
    result = describe(tokenizer)
    _print_description(result)
    if files:
        measure = TextMeasure(tokenizer)
        sources = _sources(files)
        with Progress("encoding", unit="B") as bar:
            for source in sources:
                texts = (piece for piece, _ in _texts(source, field, bar.advance))
                measure.add(source.name, texts)
        measured = measure.result()
        _print_measure(measured, tokenizer)
        result.update(measured)
    if as_json:
        print_json(result)


def _sources(files: list[str]) -> list[Source]:
    from cerne.data.sources import find_sources

    return find_sources(tuple(files))


def _texts(
    source: Source, field: str, on_bytes: Callable[[int], None]
) -> Iterator[tuple[bytes, bool]]:
    """The text of a source in pieces of UTF-8; True ends a document."""
    from cerne.data.config import DataConfig
    from cerne.data.report import RowReport
    from cerne.data.sources import read_documents

    report = RowReport(hint="correct the rows, or --field")
    for piece in read_documents(source, DataConfig(field=field), report, on_bytes):
        yield piece.text.encode("utf-8", "surrogateescape"), piece.last
    report.check()
    for example in report.examples:
        print(f"warning: {example}", file=sys.stderr)


def _input_bytes(text: str | None, file: Path | None) -> bytes:
    if text is not None and file is not None:
        raise InputError("give a text or --file, not both")
    if text is not None:
        return text.encode("utf-8", "surrogateescape")
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read the file: {error.strerror}", value=str(file)) from error
    if sys.stdin.isatty():
        raise InputError("there is no text", allowed="an argument, --file or standard input")
    return sys.stdin.buffer.read()


def _print_description(facts: dict[str, Any]) -> None:
    print(f"vocabulary   {facts['vocab_size']} ids, {facts['merges']} merges")
    kind = facts["pattern"] if facts["pattern"] else "none (SentencePiece)"
    print(f"pattern      {kind}, normalizer {facts['normalizer'] or 'none'}")
    if facts["missing_bytes"]:
        print(f"left out     {facts['missing_bytes']} of the 256 bytes, which no token holds")
    print(f"digest       {facts['digest']}")
    for name, token in facts["special_tokens"].items():
        roles = [r for r in ("pad", "eos", "bos") if facts[f"{r}_token_id"] == token]
        roles += ["end of turn"] if facts["end_of_turn_id"] == token else []
        print(f"special      {token:>8}  {name}{'  (' + ', '.join(roles) + ')' if roles else ''}")
    for name, token in list(facts["added_tokens"].items())[:20]:
        print(f"added        {token:>8}  {name}")
    for token, text in facts["longest_tokens"]:
        print(f"longest      {token:>8}  '{text}'")


def _print_measure(measured: dict[str, Any], tokenizer: Tokenizer) -> None:
    print(f"{'bytes':>12} {'tokens':>12} {'bytes/token':>12}  file")
    for row in measured["files"]:
        rate = "-" if row["bytes_per_token"] is None else f"{row['bytes_per_token']:.3f}"
        print(f"{row['bytes']:>12} {row['tokens']:>12} {rate:>12}  {row['file']}")
    print(f"{'words':>12} {'tokens/word':>12} {'bytes/token':>12}  script")
    for row in measured["scripts"]:
        print(
            f"{row['words']:>12} {row['tokens_per_word']:>12.3f} {row['bytes_per_token']:>12.3f}"
            f"  {row['script']}"
        )
    examples = ", ".join(repr(text) for _, text in measured["unused_examples"])
    print(f"unused       {measured['unused_tokens']} of {tokenizer.vocab_size} ids: {examples}")
