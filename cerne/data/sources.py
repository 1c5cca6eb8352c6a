"""Where text comes from: files, folders, globs and the built-in world, as one stream of documents.

`find_sources` turns the configured paths into a sorted list; `read_documents` streams their
documents. Kinds are told by name: .jsonl/.ndjson, .json, .parquet, anything else is text; each may
be followed by .gz, .xz or .zst. `world:en?documents=2000&seed=0` is the built-in world in one of
en, pt and mix.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs

from cerne.data.config import DataConfig
from cerne.data.report import RowReport
from cerne.data.rows import iterate_rows, row_text
from cerne.data.streams import MAGIC, unreadable
from cerne.data.text import Piece, read_text
from cerne.errors import DataError, nearest
from cerne.runs import sha256_file

WORLD_PREFIX = "world:"
Language = Literal["en", "pt", "mix"]
WORLD_LANGUAGES: tuple[Language, ...] = ("en", "pt", "mix")
WORLD_DOCUMENTS = 2000
KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One file or one built-in world.

    Attributes:
        name: the path or the world's address, for messages.
        kind: "text", "jsonl", "json", "parquet" or "world".
        size_bytes: on disk; for a world, the number of documents.
    """

    name: str
    kind: str
    size_bytes: int

    def digest(self) -> str:
        """Hex SHA-256 of the content (for a world: of its address and its code)."""
        if self.kind == "world":
            return _world_digest(self.name)
        try:
            return sha256_file(self.name)
        except OSError as error:
            raise unreadable(Path(self.name), error) from None


def find_sources(paths: tuple[str, ...]) -> list[Source]:
    """The sources behind paths, folders, globs and world addresses, in a fixed order.

    Raises:
        DataError: nothing there, or a folder without a file of a known kind.
    """
    found: list[Source] = []
    for path in paths:
        if path.startswith(WORLD_PREFIX):
            found.append(Source(path, "world", _parse_world(path)[1]))
            continue
        found.extend(_file_source(file) for file in _expand(path))
    return found


def read_documents(
    source: Source,
    config: DataConfig,
    report: RowReport,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Piece]:
    """Stream the documents of one source; a long text document comes in several pieces.

    Raises:
        DataError: see read_text and iterate_rows.
    """
    if source.kind == "world":
        yield from _world_documents(source.name, report, on_bytes)
    elif source.kind == "text":
        path = Path(source.name)
        for piece in read_text(path, config.document, config.errors, report, on_bytes):
            if piece.last:
                report.add_good()
            yield piece
    else:
        rows = iterate_rows(
            source.name, source.kind, report, config.errors, (config.field,), on_bytes
        )
        for row in rows:
            text = row_text(row, config.field, report)
            if text is not None:
                yield Piece(text, row.source, row.line)


def kind_of(path: Path) -> str:
    """The kind of a file by its name without the compression suffix."""
    return KINDS.get(_inner_suffix(path), "text")


def _inner_suffix(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1].lstrip(".") in MAGIC:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _file_source(path: Path) -> Source:
    return Source(str(path), kind_of(path), path.stat().st_size)


def _expand(path: str) -> list[Path]:
    target = Path(path).expanduser()
    if target.is_file():
        return [target]
    if target.is_dir():
        files = [p for p in sorted(target.rglob("*")) if p.is_file() and _visible(p, target)]
        known = [p for p in files if _inner_suffix(p) in KINDS]
        if not known:
            raise DataError(
                f"the folder holds no text file ({len(files)} other files)",
                value=path,
                allowed=", ".join(KINDS) + ", each also with .gz, .xz or .zst",
                hint="name the files or a glob such as 'FOLDER/*'",
            )
        return known
    if glob.has_magic(path):
        matches = sorted(Path(m) for m in glob.glob(str(target), recursive=True))
        files = [p for p in matches if p.is_file()]
        if files:
            return files
        raise DataError("no file matches the pattern", value=path)
    names = [p.name for p in target.parent.iterdir()] if target.parent.is_dir() else []
    close = nearest(target.name, names)
    raise DataError(
        "no such file or folder",
        value=path,
        allowed="a file, a folder, a glob, or world:en",
        hint=f"did you mean {target.parent / close}?" if close else None,
    )


def _visible(path: Path, root: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def _parse_world(address: str) -> tuple[Language, int, int]:
    """Language, number of documents and seed of `world:LANGUAGE?documents=N&seed=S`."""
    language, _, query = address.removeprefix(WORLD_PREFIX).partition("?")
    values = parse_qs(query, keep_blank_values=True)
    try:
        documents = int(values.pop("documents", [str(WORLD_DOCUMENTS)])[0])
        seed = int(values.pop("seed", ["0"])[0])
    except ValueError:
        documents, seed = 0, 0
    if language not in WORLD_LANGUAGES or documents < 1 or seed < 0 or values:
        raise DataError(
            "not an address of the built-in world",
            value=address,
            allowed=f"world:{'|'.join(WORLD_LANGUAGES)}, then ?documents=N&seed=S if wished",
        )
    return language, documents, seed


def _world_documents(
    address: str, report: RowReport, on_bytes: Callable[[int], None] | None
) -> Iterator[Piece]:
    from cerne.data.world import World

    language, documents, seed = _parse_world(address)
    world = World(seed, language)
    for index in range(documents):
        report.add_good()
        yield Piece(world.story(index), address, index + 1)
        if on_bytes is not None:
            on_bytes(1)


def _world_digest(address: str) -> str:
    language, documents, seed = _parse_world(address)
    digest = hashlib.sha256(f"{language} {documents} {seed}".encode())
    for file in sorted(Path(__file__).parent.glob("world*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
