"""Two processes train like one (cases 10, 24, 53): same batches, clipping after the sum."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch

from cerne.runs import RunDirectory
from cerne.train import distributed
from cerne.train.distributed import Ranks, fair_threads, join_ranks

DRIVER = Path(__file__).parent / "rank_driver.py"


def launch(folder: Path, size: int, *arguments: str) -> list[dict[str, Any]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = []
    for rank in range(size):
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(DRIVER.parent.parent))
        if size > 1:
            environment |= {
                "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            }  # fmt: skip
        command = [sys.executable, str(DRIVER), str(folder), *arguments]
        processes.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    results = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err[-2000:]
        results.append(json.loads(out.splitlines()[-1]))
    return results


def test_case53_two_ranks_equal_one_process(tmp_path: Path) -> None:
    one = launch(tmp_path / "one", 1)[0]
    first, second = launch(tmp_path / "two", 2)
    assert first["digest"] == second["digest"]
    assert first["tokens"] == one["tokens"]
    np.testing.assert_allclose(first["sums"], one["sums"], atol=1e-5)
    for step in (3, 6):
        place = Path("checkpoints") / f"step-{step:06d}" / "model.safetensors"
        a = safetensors.torch.load_file(tmp_path / "one" / place)
        b = safetensors.torch.load_file(tmp_path / "two" / place)
        for name, value in a.items():
            np.testing.assert_allclose(value.numpy(), b[name].numpy(), atol=1e-6)
    records = [RunDirectory(tmp_path / name).read_metrics() for name in ("one", "two")]
    for left, right in zip(*records, strict=True):
        assert left["tokens"] == right["tokens"]
        assert left["loss"] == pytest.approx(right["loss"], abs=1e-6)
        assert left["grad_norm"] == pytest.approx(right["grad_norm"], rel=1e-5)
        assert left["grad_norm"] > 0.05


@pytest.mark.slow
def test_two_ranks_resume_exactly(tmp_path: Path) -> None:
    whole = launch(tmp_path, 2)[0]
    resumed = launch(tmp_path, 2, "3")
    assert resumed[0]["digest"] == resumed[1]["digest"] == whole["digest"]


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "cpu_count", lambda: 8)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert fair_threads() == 8
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert fair_threads() == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    assert fair_threads() == 1


def test_alone_without_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join_ranks() == Ranks(0, 1)
    assert Ranks().gather({"a": 1}) == [{"a": 1}]
    assert Ranks().sum_number(2.5) == 2.5
