"""The three attention paths agree with each other and with a loop that is obviously right."""

from __future__ import annotations

import math
from typing import Literal, get_args

import pytest
import torch
from torch import Tensor

from cerne.model.attention import AttentionPath, attend, choose_path
from cerne.model.mask import AttentionMask

PATHS = [path for path in get_args(AttentionPath) if path != "auto"]
Documents = Literal["none", "packed", "padded"]


def loop_attention(
    q: Tensor, k: Tensor, v: Tensor, past: int, documents: Tensor | None, window: int | None
) -> Tensor:
    """One query at a time, over the list of keys it may see."""
    out = torch.zeros_like(q)
    groups = q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for t in range(q.shape[2]):
                at = past + t
                seen = [
                    s
                    for s in range(at + 1)
                    if (window is None or at - s < window)
                    and (documents is None or documents[b, s] == documents[b, at])
                ]
                scores = k[b, h // groups, seen] @ q[b, h, t] / math.sqrt(q.shape[3])
                out[b, h, t] = torch.softmax(scores, 0) @ v[b, h // groups, seen]
    return out


def inputs(
    heads: int, kv_heads: int, queries: int, past: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(heads * 100 + queries)
    shapes = [(2, heads, queries, 8)] + [(2, kv_heads, past + queries, 8)] * 2
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def documents_of(kind: Documents, keys: int) -> Tensor | None:
    if kind == "none":
        return None
    documents = torch.arange(keys) // 7
    if kind == "padded":
        documents[-5:] = -1
    return torch.stack((documents, torch.zeros(keys, dtype=torch.int64)))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("documents_kind", get_args(Documents))
@pytest.mark.parametrize("window", [None, 4, 1000])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (3, 1)])
@pytest.mark.parametrize(("queries", "past"), [(23, 0), (9, 6), (1, 12)])
def test_paths_equal_the_loop(
    path: AttentionPath,
    documents_kind: Documents,
    window: int | None,
    heads: int,
    kv_heads: int,
    queries: int,
    past: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Small blocks, so that these short rows cross several of them.
    monkeypatch.setattr("cerne.model.attention.BLOCK_QUERIES", 8)
    documents = documents_of(documents_kind, past + queries)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        q, k, v = inputs(heads, kv_heads, queries, past, dtype)
        mask = AttentionMask(
            queries,
            past,
            q.device,
            dtype,
            None if documents is None else documents[:, past:],
            documents,
        )
        result = attend(path, q, k, v, mask, window)
        expected = loop_attention(q, k, v, past, documents, window)
        assert (result - expected).abs().max() < tolerance


@pytest.mark.parametrize("path", ["blocks", "sdpa"])
@pytest.mark.parametrize(("tokens", "kv_heads"), [(300, 2), (128, 4), (129, 1)])
def test_gradients_equal_the_plain_path(path: AttentionPath, tokens: int, kv_heads: int) -> None:
    documents = (torch.arange(tokens) // 50).repeat(2, 1)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        results = []
        for each in ("plain", path):
            leaves = [t.requires_grad_() for t in inputs(4, kv_heads, tokens, 0, dtype)]
            mask = AttentionMask(tokens, 0, leaves[0].device, dtype, documents, documents)
            out = attend(each, *leaves, mask, None)
            upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).to(dtype)
            results.append((out, *torch.autograd.grad(out, leaves, upstream)))
        for ours, plain in zip(results[1], results[0], strict=True):
            assert (ours - plain).abs().max() < tolerance


def test_block_attention_passes_gradcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerne.model.attention.BLOCK_QUERIES", 3)
    leaves = [t.requires_grad_() for t in inputs(2, 1, 7, 0, torch.float64)]
    mask = AttentionMask(7, 0, leaves[0].device, torch.float64)
    assert torch.autograd.gradcheck(
        lambda q, k, v: attend("blocks", q, k, v, mask, 4), leaves, atol=1e-7
    )


@pytest.mark.parametrize("path", PATHS)
def test_dropout_on_the_weights_keeps_the_mean(path: AttentionPath) -> None:
    torch.manual_seed(0)
    q, k, _ = inputs(4, 2, 40, 0, torch.float32)
    ones = torch.ones_like(k)
    mask = AttentionMask(40, 0, q.device, torch.float32)
    dropped = torch.stack([attend(path, q, k, ones, mask, None, 0.25) for _ in range(30)])
    assert dropped.std() > 0.05
    assert dropped.mean() == pytest.approx(1.0, abs=0.03)


def test_auto_follows_the_stated_rule() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert choose_path("auto", 512, 512, cpu) == "blocks"
    assert choose_path("auto", 513, 513, cpu) == "sdpa"
    assert choose_path("auto", 16, 600, cpu) == "sdpa"
    assert choose_path("auto", 1, 4096, cpu) == "plain"
    assert choose_path("auto", 128, 128, gpu) == "sdpa"
    assert choose_path("plain", 4096, 4096, gpu) == "plain"
