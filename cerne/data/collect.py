"""From sources to a corpus folder: read, clean, remove duplicates, hold a part out.

`collect` streams every document once. The held-out text (`val_path`) is read first, so that a
training document that repeats a held-out one is removed too. The folder is written atomically and
reused while its digest (sources and options) stays the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.data.clean import Cleaner
from cerne.data.config import DataConfig
from cerne.data.corpus import Corpus, CorpusWriter, read_manifest, write_manifest, write_ranges
from cerne.data.dedup import Deduplicator
from cerne.data.report import RowReport
from cerne.data.sources import Source, find_sources, read_documents
from cerne.errors import DataError
from cerne.progress import Progress, say
from cerne.runs import atomic_directory

# Below this number of documents a split by hash is too coarse, so the text's end is held out.
MIN_DOCUMENTS_FOR_HASH = 200
# A held-out part smaller than this says nothing; it stays in training.
MIN_VAL_BYTES = 2
# Options that do not change the text.
_NOT_TEXT = {"path", "val_path", "packing"}

Ranges = npt.NDArray[np.int64]


def collect(config: DataConfig, folder: str | Path, progress: bool = True) -> Corpus:
    """Read everything that `config` names into a corpus folder, or reuse the folder.

    Args:
        folder: replaced when it is a corpus of other sources or options.
        progress: show progress and a summary on standard error.
    Raises:
        DataError: no usable text, too many bad rows, a damaged file; see the readers.
    """
    folder = Path(folder)
    train, val = find_sources(config.paths), find_sources(config.val_paths)
    digests = {source.name: source.digest() for source in (*val, *train)}
    digest = corpus_digest(config, train, val, digests)
    manifest = read_manifest(folder)
    if manifest is not None and manifest["digest"] == digest:
        return Corpus(folder)
    if manifest is None and folder.exists() and any(folder.iterdir()):
        raise DataError("the folder for the text holds something else", value=str(folder))
    with atomic_directory(folder) as temporary:
        collector = _Collector(config, temporary)
        total = sum(source.size_bytes for source in (*val, *train))
        unit = "doc" if all(s.kind == "world" for s in (*val, *train)) else "B"
        if progress:
            with Progress("read", total=total, unit=unit) as bar:
                collector.read(val, train, bar.advance)
        else:
            collector.read(val, train, None)
        ranges, cut = collector.split()
        for part, values in ranges.items():
            write_ranges(temporary, part, values)  # type: ignore[arg-type]
        report = collector.summary()
        sources = [{"name": s.name, "sha256": digests[s.name]} for s in (*val, *train)]
        write_manifest(
            temporary, {"digest": digest, "cut": cut, "sources": sources, "report": report}
        )
    corpus = Corpus(folder)
    if progress:
        for line in report_lines(report):
            say(line)
    return corpus


def corpus_digest(
    config: DataConfig, train: list[Source], val: list[Source], digests: dict[str, str]
) -> str:
    """Hex SHA-256 over the contents of the sources and the options that shape the text."""
    options = config.model_dump(mode="json", exclude=_NOT_TEXT)
    key = {
        "train": [[source.kind, digests[source.name]] for source in train],
        "val": [[source.kind, digests[source.name]] for source in val],
        "options": options,
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def report_lines(report: dict[str, Any]) -> list[str]:
    """What a person must know: bad rows, duplicates and changes, one line each."""
    lines = []
    if report["bad_rows"]:
        lines.append(f"  {report['bad_rows']} rows left out: {_counts(report['bad_reasons'])}")
    lines += [f"    {example}" for example in report["bad_examples"][:3]]
    removed = {name: count for name, count in report["duplicates"].items() if count}
    if removed:
        lines.append(f"  duplicate documents removed: {_counts(removed)}")
    noted = {k: v for k, v in {**report["cleaned"], **report["notes"]}.items() if v}
    if noted:
        lines.append(f"  noted: {_counts(noted)}")
    return lines


def _counts(values: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in values.items())


class _Collector:
    def __init__(self, config: DataConfig, folder: Path) -> None:
        self._config = config
        self._report = RowReport(config.max_bad_fraction)
        self._clean = Cleaner(config.normalise)
        self._dedup = Deduplicator(config.dedup, config.dedup_threshold)
        self._writer = CorpusWriter(folder)
        self._num_val = 0

    def read(
        self, val: list[Source], train: list[Source], advance: Callable[[int], None] | None
    ) -> None:
        try:
            self._read_all(val, advance)
            self._num_val = len(self._writer.starts)
            self._read_all(train, advance)
        finally:
            self._writer.close()
        self._report.check()
        if len(self._writer.starts) == self._num_val:
            raise self._no_text(train)

    def _read_all(self, sources: list[Source], advance: Callable[[int], None] | None) -> None:
        for source in sources:
            sketch = self._dedup.start()
            blank = True
            for piece in read_documents(source, self._config, self._report, advance):
                text = self._clean(piece.text)
                self._writer.write(text.encode("utf-8", "surrogateescape"))
                sketch.update(text)
                blank = blank and not text.strip()
                if piece.last:
                    if blank or self._dedup.admit(sketch) != "kept":
                        self._writer.drop()
                    else:
                        self._writer.keep(int.from_bytes(sketch.digest()[:8], "little"))
                    sketch = self._dedup.start()
                    blank = True
            self._report.check()

    def split(self) -> tuple[dict[str, Ranges], dict[str, bool]]:
        """Ranges of both parts, and whether the last train range ends inside a document."""
        ranges = np.stack(
            [np.array(self._writer.starts, np.int64), np.array(self._writer.stops, np.int64)], 1
        )
        if self._config.val_path is not None or self._config.val_fraction == 0.0:
            val, train, cut = ranges[: self._num_val], ranges[self._num_val :], False
        elif self._split_by_document(len(ranges)):
            train, val = self._by_hash(ranges)
            cut = False
        else:
            train, val, cut = self._by_tail(ranges)
        return {"train": train, "val": val}, {"train": cut, "val": False}

    def _split_by_document(self, num_documents: int) -> bool:
        if self._config.split == "auto":
            return num_documents >= MIN_DOCUMENTS_FOR_HASH
        return self._config.split == "documents"

    def _by_hash(self, ranges: Ranges) -> tuple[Ranges, Ranges]:
        hashes = np.array(self._writer.hashes, np.uint64)
        held = hashes < np.uint64(min(self._config.val_fraction * 2.0**64, 2.0**64 - 2048))
        if not held.any() and len(ranges) > 1:
            held[np.argmin(hashes)] = True
        if held.all():
            held[np.argmax(hashes)] = False
        return ranges[~held], ranges[held]

    def _by_tail(self, ranges: Ranges) -> tuple[Ranges, Ranges, bool]:
        """Cut the text at the byte where the held-out share begins (a character's start)."""
        total = int((ranges[:, 1] - ranges[:, 0]).sum())
        cut = int(total * (1.0 - self._config.val_fraction))
        if total - cut < MIN_VAL_BYTES or cut < MIN_VAL_BYTES:
            return ranges, ranges[:0], False
        before = np.cumsum(ranges[:, 1] - ranges[:, 0])
        index = int(np.searchsorted(before, cut, side="right"))
        start = int(ranges[index, 0])
        at = start + cut - int(before[index - 1] if index else 0)
        at = self._writer.character_start(at)
        train, val = ranges[:index], ranges[index:].copy()
        if at == start:
            return train, val, False
        val[0, 0] = at
        head = np.array([[start, at]], np.int64)
        return np.concatenate([train, head]), val, True

    def summary(self) -> dict[str, Any]:
        return {
            **self._report.to_json(),
            "duplicates": dict(self._dedup.removed),
            "cleaned": dict(self._clean.counts),
        }

    def _no_text(self, train: list[Source]) -> DataError:
        names = ", ".join(source.name for source in train[:3])
        if sum(self._dedup.removed.values()):
            return DataError(
                "no training text is left: every document also occurs in val_path",
                value=names,
                hint="give another data.val_path, or data.dedup=none",
            )
        return DataError(
            "the text is empty", value=names, allowed="at least one document with visible text"
        )
