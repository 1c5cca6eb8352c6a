"""The loss of a micro-batch: plain rows, seeds, recomputation, compilation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from train_tools import ragged_batch, tiny_loader, tiny_model

from cerne.model.loss import cross_entropy_sum
from cerne.train import objective
from cerne.train.objective import Objective, expected_seconds, is_plain, seed_step, worth_compiling

CPU = torch.device("cpu")


def test_plain_rows_are_recognised() -> None:
    batch = ragged_batch([16, 7], 16)
    assert is_plain(batch)
    second = batch.documents_BT.copy()
    second[0, 9:] = 1
    assert not is_plain(dataclasses.replace(batch, documents_BT=second))
    moved = batch.positions_BT.copy()
    moved[0] += 1
    assert not is_plain(dataclasses.replace(batch, positions_BT=moved))
    front = batch.documents_BT.copy()
    front[0, 0] = -1
    assert not is_plain(dataclasses.replace(batch, documents_BT=front))


def test_plain_path_equals_the_masked_path() -> None:
    model = tiny_model(dropout=0.0)
    batch = ragged_batch([16, 7, 1], 16)
    plain = Objective(model, CPU, torch.float32).forward(batch)
    hidden_BTD = model(
        torch.from_numpy(batch.ids_BT),
        torch.from_numpy(batch.positions_BT),
        torch.from_numpy(batch.documents_BT),
    )
    masked, count = cross_entropy_sum(model, hidden_BTD, torch.from_numpy(batch.labels_BT))
    assert count == batch.num_valid == 24
    assert plain.item() == pytest.approx(masked.item(), rel=1e-6)


def test_randomness_depends_on_counters_alone() -> None:
    def draw(*counters: int) -> float:
        seed_step(CPU, *counters)
        return float(torch.rand(()))

    first = draw(1, 2, 3, 4)
    torch.rand(100)
    assert draw(1, 2, 3, 4) == first
    others = {draw(0, 2, 3, 4), draw(1, 0, 3, 4), draw(1, 2, 0, 4), draw(1, 2, 3, 0), first}
    assert len(others) == 5


def test_recomputation_gives_the_same_gradients_with_dropout() -> None:
    # Workers seed dropout by their chunk, recomputation by the batch: compare on one thread.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    batch = tiny_loader().next()
    grads = []
    for checkpointing in (False, True):
        model = tiny_model().train()
        run = Objective(model, CPU, torch.float32, checkpointing=checkpointing)
        seed_step(CPU, 0, 0, 0, 0)
        run.backward(batch, 0.1)
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    torch.set_num_threads(threads)
    assert len(grads[0]) == len(list(tiny_model().parameters()))
    for plain, recomputed in zip(*grads, strict=True):
        torch.testing.assert_close(plain, recomputed, atol=1e-7, rtol=1e-6)


def test_bf16_autocast_is_near_float32_and_keeps_master_weights() -> None:
    model = tiny_model(dropout=0.0)
    batch = tiny_loader().next()
    full = Objective(model, CPU, torch.float32).backward(batch, 1.0)
    half = Objective(model, CPU, torch.bfloat16).backward(batch, 1.0)
    assert half == pytest.approx(full, rel=0.02)
    assert half != full
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.float32}


def test_no_compiler_is_a_notice_not_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(objective.shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    run = Objective(tiny_model(), CPU, torch.float32, compiled=True)
    assert not run.compiled
    assert "no C++ compiler (g++, clang++)" in capsys.readouterr().err
    assert np.isfinite(run.backward(tiny_loader().next(), 1.0))


def test_a_failing_compiler_is_a_notice_not_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*inputs: object) -> torch.Tensor:
        raise objective._compile_errors()[0](torch.compile, RuntimeError("cc1plus: killed"), None)

    run = Objective(tiny_model(), CPU, torch.float32)
    run.compiled, run._hidden = True, broken
    assert np.isfinite(run.backward(tiny_loader().next(), 1.0))
    assert not run.compiled
    assert "goes on without it" in capsys.readouterr().err


def test_auto_compiles_long_runs_on_a_cpu_only() -> None:
    assert expected_seconds(50e9 * 2 * 120, threads=2) == 120
    assert not worth_compiling("auto", 120.0, on_gpu=False)
    assert worth_compiling("auto", 121.0, on_gpu=False)
    assert not worth_compiling("auto", 1e9, on_gpu=True)
    assert worth_compiling("on", 0.0, on_gpu=True)
    assert not worth_compiling("off", 1e9, on_gpu=False)
