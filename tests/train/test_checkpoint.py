"""Checkpoint files: layout, digests, size, pruning, and what a failed write leaves behind."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from train_tools import tiny_model, train_config, trainer_in

from cerne.errors import CheckpointError, EnvironmentLack
from cerne.runs import RunDirectory
from cerne.train.checkpoint import load_weights, newest_intact, read_checkpoint
from cerne.train.loop import Trainer


def saved(folder: Path, step: int = 4) -> tuple[Trainer, Path]:
    trainer = trainer_in(folder, train_config(steps=step))
    return trainer, trainer.train().checkpoint


def test_layout_and_master_dtype(tmp_path: Path) -> None:
    trainer, checkpoint = saved(tmp_path)
    assert checkpoint == tmp_path / "checkpoints" / "step-000004"
    assert (tmp_path / "latest").read_text(encoding="utf-8") == "step-000004\n"
    tensors = safetensors.torch.load_file(checkpoint / "model.safetensors")
    for name, value in trainer.model.state_dict().items():
        assert tensors[name].dtype == torch.float32
        assert torch.equal(tensors[name], value)
    state = read_checkpoint(checkpoint)
    assert state["step"] == 4
    assert state["rng"] == {"kind": "counter", "seed": 0, "step": 4}


def test_case22_checkpoint_size_is_the_sum_of_its_tensors(tmp_path: Path) -> None:
    trainer = trainer_in(
        tmp_path, train_config(steps=1, optimizer="muon"), model=tiny_model(vocab_size=4000)
    )
    checkpoint = trainer.train().checkpoint
    weights = sum(p.nbytes for p in trainer.model.parameters())
    moments = sum(t.nbytes for t in trainer.optimizer.state_tensors().values())
    assert (checkpoint / "model.safetensors").stat().st_size == pytest.approx(weights, rel=0.01)
    size = (checkpoint / "trainer" / "optimizer.safetensors").stat().st_size
    assert size == pytest.approx(moments, rel=0.01)


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "config.json", "trainer/optimizer.safetensors", "trainer/state.json"],
)
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damage_is_found_and_named(tmp_path: Path, name: str, damage: str) -> None:
    _, checkpoint = saved(tmp_path)
    path = checkpoint / name
    data = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[len(data) * 2 // 3] ^= 0x04
        path.write_bytes(data)
    else:
        path.unlink()
    word = "trainer/state.json" if name == "trainer/state.json" else Path(name).name
    with pytest.raises(CheckpointError, match=word):
        trainer_in(tmp_path).restore(checkpoint)


def test_fallback_finds_the_newest_intact_checkpoint(tmp_path: Path) -> None:
    trainer_in(tmp_path, train_config(steps=6, save_every=2, keep_last=0)).train()
    run = RunDirectory(tmp_path)
    assert newest_intact(run) == run.checkpoint_path(6)
    (run.checkpoint_path(6) / "model.safetensors").write_bytes(b"x")
    (run.checkpoint_path(4) / "trainer" / "state.json").write_text("{}", encoding="utf-8")
    assert newest_intact(run) == run.checkpoint_path(2)


def test_case20_stray_files_are_ignored_and_old_checkpoints_go(tmp_path: Path) -> None:
    stray = tmp_path / "checkpoints" / "step_last_000009_old"
    stray.mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-notes.txt").write_text("x", encoding="utf-8")
    trainer_in(tmp_path, train_config(steps=8, save_every=2, keep_last=2)).train()
    names = {p.name for p in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-000006", "step-000008", "step_last_000009_old", "step-notes.txt"}


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    _, checkpoint = saved(tmp_path)
    with pytest.raises(CheckpointError, match=r"another architecture.*mlp"):
        load_weights(checkpoint, tiny_model(intermediate_size=44))
    with pytest.raises(CheckpointError, match=r"another architecture.*layers\.2"):
        load_weights(checkpoint, tiny_model(num_hidden_layers=3))


def test_a_model_without_trainer_state_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="--init-from"):
        read_checkpoint(tmp_path)


def test_full_disk_is_a_clear_error_and_the_last_checkpoint_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, checkpoint = saved(tmp_path)

    def full(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    trainer.step = 5
    with pytest.raises(EnvironmentLack, match="No space left on device"):
        trainer.save()
    assert RunDirectory(tmp_path).latest() == checkpoint
    assert read_checkpoint(checkpoint)["step"] == 4
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-000004"]


LIMITED = """
import resource, sys
from train_tools import tiny_model, train_config, trainer_in
from cerne.errors import EnvironmentLack
trainer = trainer_in(sys.argv[1], train_config(steps=1), model=tiny_model(vocab_size=3000))
trainer.train()
for limit in (50_000, 250_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    trainer.step = 2
    try:
        trainer.save()
    except EnvironmentLack as error:
        print(error)
"""


def test_real_write_failure_in_weights_and_in_optimizer(tmp_path: Path) -> None:
    """50 kB is too little for the weights (200 kB); 250 kB for the two moments."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("cannot write: " in line and "File too large" in line for line in lines)
    assert "model.safetensors" in lines[0]
    run = RunDirectory(tmp_path)
    latest = run.latest()
    assert latest == run.checkpoint_path(1)
    assert read_checkpoint(latest)["step"] == 1
    assert [p.name for p in run.checkpoints.iterdir()] == ["step-000001"]


def test_state_is_plain_json(tmp_path: Path) -> None:
    _, checkpoint = saved(tmp_path)
    content = json.loads((checkpoint / "trainer" / "state.json").read_text(encoding="utf-8"))
    assert set(content) == {"format", "state", "sha256", "self_sha256"}
    assert "model.safetensors" in content["sha256"]
    assert not list(checkpoint.rglob("*.pt")) and not list(checkpoint.rglob("*.bin"))
