"""From text to token shards: collect the text, encode it, write train and held-out shards.

`prepare` returns opened shards and reuses an earlier result when sources, options and tokenizer are
the same. A folder holds train/, val/ (when something is held out) and prepared.json.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cerne.data.collect import collect
from cerne.data.config import DataConfig
from cerne.data.corpus import Corpus, Part
from cerne.data.shards import Shards, ShardWriter, TokenizerFacts, open_shards
from cerne.errors import DataError
from cerne.progress import Progress
from cerne.runs import atomic_directory, atomic_write, cannot_write

FORMAT = "cerne-prepared"
VERSION = 1
BATCH_BYTES = 8 << 20


class Encoder(TokenizerFacts, Protocol):
    """The part of a tokenizer that preparation needs."""

    def encode_batch(self, texts: Sequence[str | bytes]) -> Sequence[npt.NDArray[Any]]: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """What prepare() made or found.

    Attributes:
        train: the training shards.
        val: the held-out shards, or None when nothing is held out.
        report: counts of rows, bad rows, duplicates and changes.
        reused: True when the folder already held this result.
    """

    train: Shards
    val: Shards | None
    report: dict[str, Any]
    reused: bool


def prepare(
    config: DataConfig,
    tokenizer: Encoder,
    out_folder: str | Path,
    progress: bool = True,
    corpus: Corpus | None = None,
) -> Prepared:
    """Make token shards of the text that `config` names.

    Args:
        tokenizer: encodes; text never yields special tokens, each document ends with eos.
        out_folder: replaced when it holds the result of other text or another tokenizer.
        progress: show progress on standard error.
        corpus: the text when collect() was already called; else it is collected into a
            temporary folder beside `out_folder`.
    Raises:
        DataError: see collect(); or out_folder holds something else.
        EnvironmentLack: the disk is full or the folder is not writable.
    """
    out = Path(out_folder)
    if corpus is None:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            scratch = tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.text.")
        except OSError as error:
            raise cannot_write(out, error) from error
        with scratch as folder:
            corpus = collect(config, Path(folder) / "text", progress)
            return prepare(config, tokenizer, out, progress, corpus)
    digest = _digest(corpus, tokenizer)
    found = read_prepared(out)
    if found is not None and found["digest"] == digest:
        return open_prepared(out, reused=True)
    if found is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(
            "the output folder holds something else",
            value=str(out),
            hint="choose a new folder",
        )
    with atomic_directory(out) as temporary:
        parts: list[Part] = ["train", "val"] if corpus.num_bytes("val") else ["train"]
        total = sum(corpus.num_bytes(part) for part in parts)
        if progress:
            with Progress("encode", total=total, unit="B") as bar:
                for part in parts:
                    _encode(corpus, part, tokenizer, temporary / part, bar)
        else:
            for part in parts:
                _encode(corpus, part, tokenizer, temporary / part, None)
        body = {
            "format": FORMAT,
            "version": VERSION,
            "digest": digest,
            "parts": parts,
            "sources": corpus.manifest["sources"],
            "report": corpus.report,
        }
        text = json.dumps(body, ensure_ascii=False, indent=1) + "\n"
        atomic_write(temporary / "prepared.json", text)
    return open_prepared(out, reused=False)


def read_prepared(folder: str | Path) -> dict[str, Any] | None:
    """prepared.json of a folder, or None when it is not a result of prepare()."""
    try:
        found = json.loads((Path(folder) / "prepared.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(found, dict) and found.get("format") == FORMAT
    return found if known and found.get("version") == VERSION else None


def open_prepared(folder: str | Path, reused: bool = True, verify: bool | None = None) -> Prepared:
    """Open a folder that prepare() wrote.

    Args:
        verify: as in open_shards.
    Raises:
        DataError: not such a folder, or damaged.
    """
    folder = Path(folder)
    found = read_prepared(folder)
    if found is None:
        raise DataError(
            "not a folder of prepared data", value=str(folder), hint="cerne data prepare"
        )
    train = open_shards(folder / "train", verify)
    val = open_shards(folder / "val", verify) if "val" in found["parts"] else None
    return Prepared(train, val, found["report"], reused)


def _digest(corpus: Corpus, tokenizer: TokenizerFacts) -> str:
    key = f"{FORMAT} {VERSION} {corpus.digest} {tokenizer.digest} {tokenizer.vocab_size}"
    return hashlib.sha256(key.encode()).hexdigest()


def _encode(
    corpus: Corpus, part: Part, tokenizer: Encoder, folder: Path, bar: Progress | None
) -> None:
    folder.mkdir()
    writer = ShardWriter(folder, tokenizer)
    end = np.array([writer.eos_token_id])
    for pieces, ends in _batches(corpus.pieces(part)):
        for ids, is_end in zip(tokenizer.encode_batch(pieces), ends, strict=True):
            writer.append(ids, end_document=False)
            if is_end:
                writer.append(end)
        if bar is not None:
            bar.advance(sum(len(piece) for piece in pieces))
    sources = [source["sha256"] for source in corpus.manifest["sources"]]
    meta = {
        "part": part,
        "corpus_digest": corpus.digest,
        "source_sha256": sources,
        "report": corpus.report,
    }
    writer.finish(corpus.num_bytes(part), meta)


def _batches(pieces: Iterator[tuple[bytes, bool]]) -> Iterator[tuple[list[bytes], list[bool]]]:
    texts: list[bytes] = []
    ends: list[bool] = []
    size_bytes = 0
    for piece, is_end in pieces:
        texts.append(piece)
        ends.append(is_end)
        size_bytes += len(piece)
        if size_bytes >= BATCH_BYTES:
            yield texts, ends
            texts, ends, size_bytes = [], [], 0
    if texts:
        yield texts, ends
