"""`cerne pretrain` as a user runs it: the nano recipe killed, interrupted and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cerne.runs import RunDirectory, sha256_file
from cerne.train.loop import TIME_FIELDS

SMALL = (
    "data.path=world:en?documents=250", "tokenizer.vocab_size=400", "train.steps=40",
    "train.save_every=4", "train.val_every=20", "train.log_every=2", "train.keep_last=0",
    "model.num_hidden_layers=2", "model.dropout=0.1", "run.threads=1",
)  # fmt: skip


def command(repo: Path, folder: Path, *more: str) -> list[str]:
    recipe = str(repo / "recipes" / "nano.toml")
    return [sys.executable, "-m", "cerne", "pretrain", recipe, *SMALL, f"run.dir={folder}", *more]


def finish(repo: Path, folder: Path, *more: str) -> dict[str, Any]:
    done = subprocess.run(command(repo, folder, *more, "--json"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1500:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def stop_after_a_save(repo: Path, folder: Path, number: int) -> tuple[int, str]:
    """Start a run and send it a signal once its first checkpoint is there."""
    process = subprocess.Popen(
        command(repo, folder), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    limit_s = time.monotonic() + 120
    while not (folder / "latest").exists() and process.poll() is None:
        assert time.monotonic() < limit_s
        time.sleep(0.02)
    process.send_signal(number)
    _, text = process.communicate(timeout=120)
    return process.returncode, text


@pytest.fixture(scope="module")
def whole(repo_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert finish(repo_dir, folder)["step"] == 40
    return folder


def timeless(folder: Path) -> list[dict[str, Any]]:
    records = RunDirectory(folder).read_metrics()
    return [{k: v for k, v in r.items() if k not in TIME_FIELDS} for r in records]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_and_resumed_equals_uninterrupted(
    repo_dir: Path, whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "run"
    status, text = stop_after_a_save(repo_dir, folder, number)
    if number == signal.SIGINT:
        assert status == 130
        assert "is saved in" in text
        assert "to go on: cerne pretrain" in text and "--resume" in text
        assert RunDirectory(folder).latest() is not None
    else:
        assert status == -signal.SIGKILL
    answer = finish(repo_dir, folder, "--resume")
    assert answer["step"] == 40
    for file in ("model.safetensors", "trainer/optimizer.safetensors"):
        place = Path("checkpoints") / "step-000040" / file
        assert sha256_file(whole / place) == sha256_file(folder / place)
    assert timeless(whole) == timeless(folder)


def test_dry_run_reads_and_writes_nothing(repo_dir: Path, tmp_path: Path) -> None:
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        command(repo_dir, tmp_path / "run", "--dry-run", "--json"),
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["training_tokens"] == 40 * 8 * 128
    assert facts["recipe"]["train"]["steps"] == 40
    assert not (tmp_path / "run").exists()


def test_wrong_value_is_exit_code_2_and_one_sentence(repo_dir: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(repo_dir, tmp_path / "run", "train.lr=-3"), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: train.lr in options is not acceptable") or (
        "error: train.lr in" in done.stderr
    )
    assert "Traceback" not in done.stderr
