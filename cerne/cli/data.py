"""`cerne data`: prepare text as token shards, and inspect text or shards."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cerne.cli.app import print_json
from cerne.errors import DataError

if TYPE_CHECKING:
    from cerne.data.config import DataConfig

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="Prepare text as token shards; inspect text and shards.",
)
_OVERRIDE = re.compile(r"(?:data\.)?[a-z_]+=")
JSON_OPTION = typer.Option(False, "--json", help="Print one JSON object on the last line.")


@app.command()
def prepare(
    sources: list[str] = typer.Argument(
        help="Files, folders, globs or world:en, and key=value options of [data]."
    ),
    tokenizer: Path = typer.Option(..., "--tokenizer", "-t", help="Folder or tokenizer.json."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder for the shards."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Read, clean, deduplicate and encode text; hold a part out; write token shards.

    Example: cerne data prepare books.jsonl.xz -t runs/demo/tokenizer -o shards dedup=near
    """
    from cerne.data.inspect import describe_shards
    from cerne.data.prepare import prepare as run
    from cerne.tokenizer.bpe import Tokenizer

    config = _config(sources)
    prepared = run(config, Tokenizer.load(tokenizer), out)
    result: dict[str, Any] = {"folder": str(out), "reused": prepared.reused}
    result["train"] = describe_shards(prepared.train)
    if prepared.val is not None:
        result["val"] = describe_shards(prepared.val)
    result["report"] = prepared.report
    print(f"{'found' if prepared.reused else 'wrote'} {out}")
    for part in ("train", "val"):
        if part in result:
            facts = result[part]
            print(
                f"  {part:<5} {facts['documents']:,} documents, {facts['tokens']:,} tokens, "
                f"{facts['bytes']:,} bytes, {facts['bytes_per_token']:.3f} bytes/token"
            )
    if prepared.val is None:
        print("  val   none: nothing is held out")
    if as_json:
        print_json(result)


@app.command()
def inspect(
    sources: list[str] = typer.Argument(
        help="A folder of shards, or text sources and key=value options of [data]."
    ),
    tokenizer: Path | None = typer.Option(
        None, "--tokenizer", "-t", help="Decode a sample with this tokenizer."
    ),
    verify: bool = typer.Option(False, "--verify", help="Compare SHA-256 of every shard."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show documents, tokens, bytes, lengths, bad rows and duplicates of text or shards.

    Example: cerne data inspect shards --verify
    """
    from cerne.data.prepare import read_prepared

    folder = Path(sources[0])
    prepared = len(sources) == 1 and read_prepared(folder) is not None
    if prepared or (len(sources) == 1 and (folder / "index.json").is_file()):
        result = _inspect_shards(folder, prepared, tokenizer, verify)
    else:
        if tokenizer is not None or verify:
            raise DataError(
                "--tokenizer and --verify are for a folder of shards",
                value=sources,
                hint="cerne data prepare",
            )
        result = _inspect_text(_config(sources))
    for part, facts in result["parts"].items():
        _print_part(part, facts)
    _print_report(result["report"])
    if verify:
        print("verified: every file has the SHA-256 of its index")
    if as_json:
        print_json(result)


def _inspect_shards(
    folder: Path, prepared: bool, tokenizer: Path | None, verify: bool
) -> dict[str, Any]:
    from cerne.data.inspect import describe_shards
    from cerne.data.prepare import open_prepared
    from cerne.data.shards import open_shards

    decoder = None
    if tokenizer is not None:
        from cerne.tokenizer.bpe import Tokenizer

        decoder = Tokenizer.load(tokenizer)
    check = True if verify else None
    if prepared:
        found = open_prepared(folder, verify=check)
        parts = {"train": found.train} | ({} if found.val is None else {"val": found.val})
        report = found.report
    else:
        shards = open_shards(folder, check)
        parts, report = {folder.name: shards}, shards.meta.get("report", {})
    facts = {name: describe_shards(part, decoder) for name, part in parts.items()}
    return {"folder": str(folder), "parts": facts, "report": report, "verified": verify}


def _inspect_text(config: DataConfig) -> dict[str, Any]:
    from cerne.data.collect import collect
    from cerne.data.corpus import PARTS
    from cerne.data.inspect import describe_corpus

    with tempfile.TemporaryDirectory(prefix="cerne-inspect-") as folder:
        corpus = collect(config, Path(folder) / "text", progress=False)
        parts = {p: describe_corpus(corpus, p) for p in PARTS if corpus.num_documents(p)}
        return {"parts": parts, "report": corpus.report}


def _config(arguments: list[str]) -> DataConfig:
    """Positional arguments: key=value sets an option of [data], anything else is a source."""
    from cerne.config import load_recipe
    from cerne.data.config import DataConfig

    paths = [a for a in arguments if not _is_override(a)]
    overrides = [a.removeprefix("data.") for a in arguments if _is_override(a)]
    config = load_recipe(DataConfig, None, overrides)
    if not paths:
        raise DataError(
            "no text to read", value=arguments, allowed="a file, a folder, a glob, or world:en"
        )
    return config.model_copy(update={"path": tuple(paths)})


def _is_override(argument: str) -> bool:
    return _OVERRIDE.match(argument) is not None and not Path(argument).exists()


def _print_part(part: str, facts: dict[str, Any]) -> None:
    from cerne.data.inspect import histogram_lines

    unit = "tokens" if "tokens" in facts else "bytes"
    print(f"{part}: {facts['documents']:,} documents, {facts['bytes']:,} bytes", end="")
    if unit == "tokens":
        print(f", {facts['tokens']:,} tokens, {facts['bytes_per_token']:.3f} bytes/token", end="")
    print(
        f"\n  length in {unit}: shortest {facts[f'shortest_{unit}']:,}, "
        f"median {facts[f'median_{unit}']:,.0f}, mean {facts[f'mean_{unit}']:,.1f}, "
        f"longest {facts[f'longest_{unit}']:,}"
    )
    for line in histogram_lines([tuple(bar) for bar in facts["histogram"]], unit):
        print(line)
    if "sample" in facts:
        print(f"  sample: {facts['sample'][:240]!r}")


def _print_report(report: dict[str, Any]) -> None:
    from cerne.data.collect import report_lines

    if not report:
        return
    print(
        f"rows: {report['good_rows']:,} good, {report['bad_rows']:,} bad; "
        f"duplicates removed: {sum(report['duplicates'].values()):,}"
    )
    for line in report_lines(report):
        print(line)
