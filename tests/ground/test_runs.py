"""Safe writing and run directories: a failed write loses nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cerne.errors import CheckpointError, EnvironmentLack, InputError
from cerne.runs import RunDirectory, atomic_directory, atomic_write, sha256_file


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    atomic_write(path, "old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(EnvironmentLack, match="No space left") as caught:
        atomic_write(path, "new")
    assert caught.value.exit_code == 3
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_full_disk_keeps_the_old_directory(tmp_path: Path) -> None:
    target = tmp_path / "step-000001"
    with atomic_directory(target) as folder:
        (folder / "x").write_text("old", encoding="utf-8")
    with pytest.raises(EnvironmentLack), atomic_directory(target) as folder:
        (folder / "x").write_text("new", encoding="utf-8")
        full_disk()
    assert (target / "x").read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["step-000001"]


def test_a_real_file_size_limit(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from cerne.runs import atomic_write; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
        "atomic_write(sys.argv[1], b'x' * 5000)"
    )
    path = tmp_path / "file"
    atomic_write(path, "old")
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode != 0
    assert "EnvironmentLack" in done.stderr
    assert path.read_text(encoding="utf-8") == "old"


def test_directory_replaces_the_old_one(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with atomic_directory(tmp_path / "d") as folder:
            (folder / text).write_text(text, encoding="utf-8")
    assert [p.name for p in (tmp_path / "d").iterdir()] == ["two"]
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_metrics_survive_a_torn_line_and_truncate(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    for step in (1, 2, 3):
        run.metrics({"step": step, "loss": float("nan") if step == 3 else 1.5})
    with open(run.metrics_path, "a", encoding="utf-8") as handle:
        handle.write('{"step": 4, "lo')
    assert [r["step"] for r in run.read_metrics()] == [1, 2, 3]
    assert run.read_metrics()[-1]["loss"] == "nan"
    run.truncate_metrics(2)
    assert [r["step"] for r in run.read_metrics()] == [1, 2]


def test_case20_stray_files_are_ignored(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    assert run.latest() is None
    for name in ("step-000010", "step-000200", "step_extra_1", "step-abc", ".step-000300.x"):
        (run.checkpoints / name).mkdir()
    (run.checkpoints / "step-000400").write_text("a file", encoding="utf-8")
    run.set_latest("step-000200")
    assert run.latest() == run.checkpoint_path(200)
    assert [p.name for p in run.saved()] == ["step-000010", "step-000200"]


def test_a_run_killed_before_its_first_pointer_has_its_checkpoint(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    for name in ("step-000010", "step-000200", ".step-000300.x"):
        (run.checkpoints / name).mkdir()
    assert run.latest() == run.checkpoint_path(200)


def test_metrics_keep_text_with_unicode_line_separators(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.metrics({"step": 1, "stopped": "one\u2028two\x85three"})
    assert run.read_metrics() == [{"step": 1, "stopped": "one\u2028two\x85three"}]


@pytest.mark.parametrize("name", ["../../etc", "step-000999", "", "step-000010/../x"])
def test_latest_never_leaves_the_run(tmp_path: Path, name: str) -> None:
    run = RunDirectory(tmp_path / "run")
    run.checkpoint_path(10).mkdir()
    run.set_latest(name)
    with pytest.raises(CheckpointError, match="step-000010"):
        run.latest()


def test_run_dir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("", encoding="utf-8")
    with pytest.raises(InputError):
        RunDirectory(tmp_path / "f")


def test_sha256(tmp_path: Path) -> None:
    atomic_write(tmp_path / "f", b"abc")
    assert sha256_file(tmp_path / "f").startswith("ba7816bf8f01cfea414140de5dae2223")
