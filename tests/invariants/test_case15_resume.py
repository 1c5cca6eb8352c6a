"""Cases 15 to 19: a killed and resumed run equals the uninterrupted one, bit for bit."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from train_tools import tiny_loader, tiny_model, trainer_in

from cerne.runs import RunDirectory, sha256_file
from cerne.train.loop import TIME_FIELDS
from cerne.train.objective import Objective

DRIVER = Path(__file__).parent / "resume_driver.py"


def drive(folder: Path, optimizer: str, compiled: str, histories: dict[str, Any]) -> dict[str, Any]:
    tools = str(Path(__file__).parent.parent)
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=tools)
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(folder), optimizer, compiled, json.dumps(histories)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome


def same_run(folder: Path, name: str) -> None:
    """Weights, optimizer state and metrics equal those of the uninterrupted run."""
    whole, other = folder / "whole", folder / name
    for step in (5, 10, 15, 20, 23):
        for file in ("model.safetensors", "trainer/optimizer.safetensors"):
            place = Path("checkpoints") / f"step-{step:06d}" / file
            assert sha256_file(whole / place) == sha256_file(other / place), (name, step, file)
    assert timeless(whole) == timeless(other), name


def timeless(folder: Path) -> list[dict[str, Any]]:
    found = RunDirectory(folder).read_metrics()
    return [{k: v for k, v in r.items() if k not in TIME_FIELDS} for r in found]


def test_case15_kill_at_random_steps_and_while_writing(tmp_path: Path) -> None:
    steps = sorted(random.Random(15).sample([6, 9, 12, 16, 18, 21], 3))
    histories = {
        "random steps": [["logged", step] for step in steps],
        "while writing": [["writing", 3], ["logged", 12], ["writing", 2]],
    }
    outcome = drive(tmp_path, "adamw", "off", histories)
    assert outcome["signals"]["whole"] == [0]
    assert len(outcome["epoch_ends"]) >= 2
    for name, events in histories.items():
        assert outcome["signals"][name] == [9] * len(events) + [0], name
        same_run(tmp_path, name)


def test_case17_kill_exactly_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    histories = {"epoch ends": [["saved", 5], ["saved", 10], ["logged", 15]]}
    outcome = drive(tmp_path, "muon", "off", histories)
    assert outcome["epoch_ends"] == [5, 10, 15, 20]
    assert outcome["signals"] == {"whole": [0], "epoch ends": [9, 9, 9, 0]}
    same_run(tmp_path, "epoch ends")


@pytest.mark.slow
def test_case15_compiled_resume_is_exact(tmp_path: Path) -> None:
    histories = {"random steps": [["logged", 9], ["logged", 18]]}
    outcome = drive(tmp_path, "muon", "on", histories)
    assert outcome["signals"] == {"whole": [0], "random steps": [9, 9, 0]}
    same_run(tmp_path, "random steps")


@pytest.mark.slow
def test_case18_names_are_the_same_compiled_or_not() -> None:
    model = tiny_model()
    before = list(model.state_dict())
    run = Objective(model, torch.device("cpu"), torch.float32, compiled=True)
    run.backward(tiny_loader().next(), 1.0)
    assert run.compiled
    assert list(model.state_dict()) == before
    assert not any("_orig_mod" in name for name, _ in model.named_parameters())


def test_case19_saved_weights_round_trip_in_their_master_dtype(tmp_path: Path) -> None:
    trainer = trainer_in(tmp_path)
    checkpoint = trainer.train().checkpoint
    saved = safetensors.torch.load_file(checkpoint / "model.safetensors")
    for name, parameter in trainer.model.named_parameters():
        assert saved[name].dtype == parameter.dtype == torch.float32
        assert torch.equal(saved[name], parameter)
