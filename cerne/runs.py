"""Run directories and safe writing: nothing that was saved is lost to a kill or a full disk.

Files are written to a temporary name in the same folder, synced and renamed. `RunDirectory` is
`runs/NAME/` of the design: recipe.toml, metrics.jsonl, checkpoints/step-000500, latest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cerne.errors import CheckpointError, EnvironmentLack, InputError

_STEP_NAME = re.compile(r"step-(\d{6,})")


def atomic_write(path: str | Path, data: str | bytes) -> None:
    """Replace `path` by `data` (text as UTF-8) or leave it untouched.

    Raises:
        EnvironmentLack: the disk is full or the folder is not writable.
    """
    target = Path(path)
    payload = data.encode("utf-8") if isinstance(data, str) else data
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(payload)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
        fsync_directory(target.parent)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise cannot_write(target, error) from error


@contextlib.contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` at the end, wholly or not at all.

    An existing `path` is replaced only after the new one is complete.
    Raises:
        EnvironmentLack: the disk is full or the folder is not writable.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        os.chmod(temporary, 0o777 & ~_umask())
        yield temporary
        for folder, _, names in os.walk(temporary):
            for name in names:
                fsync_file(Path(folder) / name)
            fsync_directory(Path(folder))
        if target.exists():
            old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.old."))
            os.replace(target, old / target.name)
            os.replace(temporary, target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(temporary, target)
        fsync_directory(target.parent)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        if temporary is not None and temporary.exists():
            shutil.rmtree(temporary, ignore_errors=True)


def cannot_write(path: Path, error: OSError) -> EnvironmentLack:
    """The error for a failed write; what was saved before is still there."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return EnvironmentLack(
        f"cannot write: {reason}",
        value=str(path),
        hint="free some space or choose another folder; earlier files are unchanged",
    )


def fsync_file(path: Path) -> None:
    """Flush one file to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_directory(path: Path) -> None:
    """Flush a folder's entries to the disk, so that a rename survives a power cut."""
    fsync_file(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def append_jsonl(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Append one line of JSON per record; NaN and infinity become strings so that it stays valid.

    Raises:
        EnvironmentLack: the disk is full or the folder is not writable.
    """
    lines = [json.dumps(_finite(r), ensure_ascii=False, allow_nan=False) + "\n" for r in records]
    try:
        with open(path, "a", encoding="utf-8") as handle:
            handle.write("".join(lines))
    except OSError as error:
        raise cannot_write(path, error) from error


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """All whole records of a file of append_jsonl(), [] without one; a torn line is left out."""
    records = []
    if path.exists():
        # Only a newline ends a record: a text may hold the other line ends of str.splitlines().
        for line in path.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError):
                records.append(json.loads(line))
    return records


def write_jsonl(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Replace a file of append_jsonl() by these records, atomically."""
    atomic_write(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records))


def sha256_file(path: str | Path) -> str:
    """Hex SHA-256 of a file, read in 1 MiB blocks."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class RunDirectory:
    """One run's folder. Creating the object creates the folder.

    Args:
        path: for example runs/demo.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InputError("run.dir is a file", value=str(path), allowed="a folder")
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.path, error) from error

    @property
    def checkpoints(self) -> Path:
        """The folder of all checkpoints."""
        return self.path / "checkpoints"

    @property
    def metrics_path(self) -> Path:
        """The file with one JSON object per logged step."""
        return self.path / "metrics.jsonl"

    def metrics(self, record: dict[str, Any]) -> None:
        """Append one record; see append_jsonl()."""
        append_jsonl(self.metrics_path, [record])

    def read_metrics(self) -> list[dict[str, Any]]:
        """All whole records; a torn last line is left out."""
        return read_jsonl(self.metrics_path)

    def truncate_metrics(self, step: int) -> None:
        """Drop the records after `step`, so that a resumed run writes each step once."""
        kept = [r for r in self.read_metrics() if int(r.get("step", 0)) <= step]
        write_jsonl(self.metrics_path, kept)

    @property
    def samples_path(self) -> Path:
        """The file with one JSON object per sample written during training."""
        return self.path / "samples.jsonl"

    def checkpoint_path(self, step: int) -> Path:
        """checkpoints/step-000500 for step 500."""
        return self.checkpoints / f"step-{step:06d}"

    def set_latest(self, name: str) -> None:
        """Point `latest` at a checkpoint name such as step-000500."""
        atomic_write(self.path / "latest", name + "\n")

    def latest(self) -> Path | None:
        """The checkpoint that `latest` names, None in a run without one. Stray files are ignored.

        Without the pointer (a kill between the first checkpoint and it) it is the newest one: a
        checkpoint folder appears only when it is whole.

        Raises:
            CheckpointError: `latest` names a folder that is not there.
        """
        pointer = self.path / "latest"
        if not pointer.is_file():
            found = self.saved()
            return found[-1] if found else None
        name = pointer.read_text(encoding="utf-8", errors="replace").strip()
        if not _STEP_NAME.fullmatch(name) or not (self.checkpoints / name).is_dir():
            raise CheckpointError(
                "`latest` does not name a checkpoint of this run",
                value=name,
                allowed=", ".join(p.name for p in self.saved()) or "no checkpoint is left",
                hint=f"write one of these names into {pointer}",
            )
        return self.checkpoints / name

    def remove_partial(self) -> None:
        """Remove what killed saves left behind; only while no other process saves here."""
        for folder in self.checkpoints.glob(".step-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def saved(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        if not self.checkpoints.is_dir():
            return []
        found = [p for p in self.checkpoints.iterdir() if _STEP_NAME.fullmatch(p.name)]
        return sorted((p for p in found if p.is_dir()), key=lambda p: int(p.name[5:]))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
