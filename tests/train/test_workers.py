"""Workers: the same gradients as one pass, in the same bits every time."""

from __future__ import annotations

import re

import pytest
import torch
from train_tools import ragged_batch, tiny_model

from cerne.train.objective import Objective, seed_step
from cerne.train.workers import Workers, chunk_rows

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _restore_threads() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def gradients(threads: int, dropout: float, lengths: list[int]) -> dict[str, torch.Tensor]:
    torch.set_num_threads(threads)
    model = tiny_model(dropout=dropout).train()
    objective = Objective(model, CPU, torch.float32)
    assert (objective._workers is not None) == (threads > 1)
    seed_step(CPU, 0, 5, 0, 0)
    objective.backward(ragged_batch(lengths, 16), 0.01)
    objective.backward(ragged_batch(lengths, 16, seed=1), 0.01)
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("threads", [2, 3])
def test_workers_equal_one_pass(threads: int) -> None:
    lengths = [16, 3, 1, 9, 16, 8]
    one = gradients(1, 0.0, lengths)
    many = gradients(threads, 0.0, lengths)
    assert one.keys() == many.keys()
    for name, grad in one.items():
        torch.testing.assert_close(many[name], grad, atol=1e-7, rtol=1e-4)


def test_workers_with_dropout_give_the_same_bits_every_time() -> None:
    first = gradients(2, 0.3, [16] * 8)
    for _ in range(4):
        again = gradients(2, 0.3, [16] * 8)
        assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_batch_without_equal_shares_is_one_pass() -> None:
    assert chunk_rows(7, 256, 2) is None
    assert chunk_rows(8, 256, 2) == 4
    assert chunk_rows(16, 256, 2) == 4
    assert chunk_rows(12, 256, 2) == 3
    assert chunk_rows(2, 4096, 2) == 1
    one, many = gradients(1, 0.0, [16, 5, 2]), gradients(2, 0.0, [16, 5, 2])
    for name, grad in one.items():
        torch.testing.assert_close(many[name], grad, atol=1e-7, rtol=1e-4)


def test_each_worker_has_one_core_and_the_caller_keeps_its_own() -> None:
    torch.set_num_threads(3)
    workers = Workers[object](2, lambda chunk: torch.zeros(()), [], draws=False)

    def threads() -> list[str]:
        return re.findall(r"_threads\(\) : (\d+)", torch.__config__.parallel_info())

    inside = {workers._pool.submit(threads).result()[0] for _ in range(4)}
    assert inside == {"1"}
    assert torch.get_num_threads() == 3


def test_an_error_in_a_worker_reaches_the_caller() -> None:
    def broken(chunk: object) -> torch.Tensor:
        raise ValueError("no such row")

    workers = Workers[object](2, broken, [], draws=True)
    with pytest.raises(ValueError, match="no such row"):
        workers.add_gradients([1, 2], 1.0)
