"""Muon: orthogonalisation against the singular value decomposition, stacking, orientation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import Parameter

from cerne.train.muon import QUINTIC, Muon, orthogonalize
from cerne.train.workers import core_pool


def by_svd(matrix: torch.Tensor, steps: int = 5) -> np.ndarray:
    """The iteration applied to the singular values alone, in float64: exact by construction."""
    u, s, v = np.linalg.svd(matrix.double().numpy(), full_matrices=False)
    s = s / np.linalg.norm(s)
    a, b, c = QUINTIC
    for _ in range(steps):
        s = a * s + b * s**3 + c * s**5
    return (u * s) @ v


@pytest.mark.parametrize("shape", [(8, 8), (8, 24), (1, 5), (32, 33)])
def test_orthogonalize_acts_on_singular_values_only(shape: tuple[int, int]) -> None:
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))
    found = orthogonalize(x)
    for index in range(3):
        np.testing.assert_allclose(found[index].numpy(), by_svd(x[index]), atol=3e-5)
    singular = torch.linalg.svdvals(orthogonalize(x[:, :1, :]))
    assert ((singular > 0.6) & (singular < 1.3)).all()


def test_zero_gradient_gives_zero_update_without_nan() -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 4, 6)), torch.zeros(2, 4, 6))


def test_stacked_matrices_of_both_orientations_equal_one_by_one() -> None:
    generator = torch.Generator().manual_seed(2)
    shapes = {"a": (6, 6), "wide": (6, 14), "tall": (14, 6), "b": (6, 6)}
    values = {n: torch.randn(s, generator=generator) for n, s in shapes.items()}
    grads = [{n: torch.randn(s, generator=generator) for n, s in shapes.items()} for _ in range(3)]
    together = {n: Parameter(v.clone()) for n, v in values.items()}
    optimizer = Muon(together, weight_decay=0.1)
    assert len(optimizer.stacks) == 2
    for step in grads:
        for name, parameter in together.items():
            parameter.grad = step[name].clone()
        optimizer.step(0.05, 0.9)
    for name, value in values.items():
        alone, momentum = value.double(), torch.zeros(shapes[name]).double()
        for step in grads:
            momentum = momentum.lerp(step[name].double(), 0.1)
            nesterov = step[name].double().lerp(momentum, 0.9)
            rows, columns = shapes[name]
            wide = nesterov if rows <= columns else nesterov.T
            update = torch.from_numpy(by_svd(wide.float()))
            update = update if rows <= columns else update.T
            alone = alone * (1 - 0.05 * 0.1) - 0.05 * max(1, rows / columns) ** 0.5 * update
        torch.testing.assert_close(together[name].double(), alone, atol=1e-5, rtol=0)
        state = optimizer.state_tensors()[name]
        torch.testing.assert_close(state.double(), momentum, atol=1e-6, rtol=0)


def test_shares_in_a_pool_equal_one_stack() -> None:
    generator = torch.Generator().manual_seed(3)
    shapes = {"a": (6, 6), "b": (6, 6), "c": (6, 6), "tall": (14, 6), "wide": (6, 14)}
    values = {n: torch.randn(s, generator=generator) for n, s in shapes.items()}
    grads = {n: torch.randn(s, generator=generator) for n, s in shapes.items()}
    results = []
    for shares in (1, 2):
        named = {n: Parameter(v.clone()) for n, v in values.items()}
        optimizer = Muon(named, weight_decay=0.1, shares=shares)
        assert len(optimizer.stacks) == 2 * shares
        for _ in range(3):
            for name, parameter in named.items():
                parameter.grad = grads[name].clone()
            optimizer.step(0.05, 0.9, core_pool(2) if shares == 2 else None)
        results.append((named, optimizer.state_tensors()))
    for name in shapes:
        torch.testing.assert_close(results[0][0][name], results[1][0][name], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(results[0][1][name], results[1][1][name])


def test_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match=r"norm has shape \(3,\)"):
        Muon({"norm": Parameter(torch.ones(3))})
