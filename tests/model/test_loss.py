"""The loss: equal to the naive one, in chunks, with nothing from ignored positions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cerne.model.loss import CHUNK_BYTES, IGNORE, chunk_rows, cross_entropy_sum, token_logprobs


class Head:
    """A bare output projection."""

    def __init__(self, weight: Tensor) -> None:
        self.output_weight = weight


def problem(dtype: torch.dtype, ignored: bool) -> tuple[Tensor, Head, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 17, 12, generator=generator, dtype=torch.float64)
    weight = torch.randn(50, 12, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 50, (3, 17), generator=generator)
    if ignored:
        labels[0, 3:9] = IGNORE
        labels[2] = IGNORE
    return hidden.to(dtype).requires_grad_(), Head(weight.to(dtype).requires_grad_()), labels


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("chunk", [None, 1, 7, 51])
def test_loss_and_gradients_equal_the_naive_ones(
    dtype: torch.dtype, tolerance: float, ignored: bool, chunk: int | None
) -> None:
    hidden, head, labels = problem(dtype, ignored)
    logits = F.linear(hidden, head.output_weight).flatten(0, 1)
    naive = F.cross_entropy(logits, labels.flatten(), ignore_index=IGNORE, reduction="sum")
    expected = torch.autograd.grad(naive * 0.3, (hidden, head.output_weight))
    loss, num_valid = cross_entropy_sum(head, hidden, labels, chunk)
    from_logprobs = -token_logprobs(head, hidden, labels, chunk).sum()
    assert num_valid == int((labels != IGNORE).sum())
    for ours in (loss, from_logprobs):
        assert abs(ours - naive) < tolerance
        grads = torch.autograd.grad(ours * 0.3, (hidden, head.output_weight))
        for grad, wanted in zip(grads, expected, strict=True):
            assert (grad - wanted).abs().max() < tolerance


def test_logprobs_take_any_upstream_gradient() -> None:
    hidden, head, labels = problem(torch.float64, ignored=True)
    upstream = torch.randn(labels.shape, generator=torch.Generator().manual_seed(3)).double()
    ours = token_logprobs(head, hidden, labels, 5)
    full = torch.log_softmax(F.linear(hidden, head.output_weight), -1)
    naive = full.gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1) * (labels != IGNORE)
    assert torch.equal(ours == 0, labels == IGNORE)
    assert (ours - naive).abs().max() < 1e-12
    ours_grads = torch.autograd.grad(ours, (hidden, head.output_weight), upstream)
    for grad, wanted in zip(
        ours_grads, torch.autograd.grad(naive, (hidden, head.output_weight), upstream), strict=True
    ):
        assert (grad - wanted).abs().max() < 1e-12


def test_case48_all_ignored_gives_zero_loss_and_zero_gradient() -> None:
    hidden, head, labels = problem(torch.float32, ignored=False)
    labels[:] = IGNORE
    loss, num_valid = cross_entropy_sum(head, hidden, labels)
    logprobs = token_logprobs(head, hidden, labels)
    assert (loss.item(), num_valid, logprobs.abs().sum().item()) == (0.0, 0, 0.0)
    for value in (loss, logprobs.sum()):
        for grad in torch.autograd.grad(value, (hidden, head.output_weight)):
            assert torch.equal(grad, torch.zeros_like(grad))


def test_case46_ignored_rows_get_no_gradient() -> None:
    hidden, head, labels = problem(torch.float32, ignored=True)
    loss, _ = cross_entropy_sum(head, hidden, labels)
    (grad,) = torch.autograd.grad(loss, (hidden,))
    assert torch.equal(grad.abs().sum(-1) == 0, labels == IGNORE)


def test_extreme_logits_stay_finite() -> None:
    hidden = torch.tensor([[[1.0], [-1.0]]], requires_grad=True)
    head = Head(torch.tensor([[1e4], [-1e4]], requires_grad=True))
    loss, _ = cross_entropy_sum(head, hidden, torch.tensor([[1, 1]]))
    loss.backward()
    assert loss.item() == 2e4
    assert torch.isfinite(hidden.grad).all()


def test_autocast_products_are_bfloat16_and_the_softmax_is_not() -> None:
    hidden, head, labels = problem(torch.float32, ignored=False)
    exact, _ = cross_entropy_sum(head, hidden, labels)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = cross_entropy_sum(head, hidden, labels)
        logprobs = token_logprobs(head, hidden, labels)
    assert loss.dtype == logprobs.dtype == torch.float32
    assert loss.item() == pytest.approx(exact.item(), rel=1e-2)
    assert loss.item() != exact.item()
    assert loss.item() == pytest.approx(-logprobs.sum().item(), rel=1e-6)
    grads = torch.autograd.grad(loss, (hidden, head.output_weight))
    wanted = torch.autograd.grad(exact, (hidden, head.output_weight))
    assert all(grad.dtype == torch.float32 for grad in grads)
    for grad, want in zip(grads, wanted, strict=True):
        assert (grad - want).abs().max() < 0.02 * want.abs().max()


def test_case9_no_tensor_of_all_logits_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest tensor made in the loss holds one chunk, forward and backward."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        """Remembers the largest result of any operation."""

        numel = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                Largest.numel = max(Largest.numel, result.numel())
            return result

    hidden, head, labels = problem(torch.float32, ignored=False)
    for function in (cross_entropy_sum, lambda *args: (token_logprobs(*args).sum(), 0)):
        Largest.numel = 0
        with Largest():
            loss, _ = function(head, hidden, labels, 13)
            loss.backward()
        assert Largest.numel == max(13 * 50, 3 * 17 * 12)


def test_chunk_size_follows_the_vocabulary() -> None:
    assert chunk_rows(torch.empty(32_768, 1)) == CHUNK_BYTES // (4 * 32_768)
    assert chunk_rows(torch.empty(4096, 1)) >= 8192
    assert chunk_rows(torch.empty(10**7, 1)) == 256
