"""Different ways to run the same model agree: packed, cached, chunked, compiled, checkpointed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from model_tools import near, packed, random_ids, small_model

from cerne.model.attention import AttentionPath
from cerne.model.cache import KVCache
from cerne.model.loss import IGNORE, cross_entropy_sum, token_logprobs
from cerne.model.transformer import Transformer

FAMILIES: list[dict[str, Any]] = [
    {},
    {"architecture": "mistral", "sliding_window": 5},
    {"architecture": "qwen2", "tie_word_embeddings": False},
    {"architecture": "qwen3", "num_key_value_heads": 1},
    {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    },
]
IDS = ["llama", "mistral-window", "qwen2-untied", "qwen3-mqa", "llama3-rope"]
LENGTHS = [1, 30, 2, 100, 7]


@pytest.fixture(params=FAMILIES, ids=IDS)
def model(request: pytest.FixtureRequest) -> Transformer:
    return small_model(**request.param)


@pytest.mark.parametrize("path", ["plain", "sdpa", "blocks"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-13)])
def test_case47_packed_equals_unpacked(
    model: Transformer, path: AttentionPath, dtype: torch.dtype, tolerance: float
) -> None:
    model.to(dtype).attention_path = path
    pieces = [random_ids(1, n, seed=n) for n in LENGTHS]
    ids = torch.cat((*pieces, torch.zeros(1, 4, dtype=torch.int64)), dim=1)
    positions, documents = packed(LENGTHS, padding=4)
    labels = torch.full_like(ids, IGNORE)
    starts = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
    for start, n in zip(starts, LENGTHS, strict=True):
        labels[0, start : start + n - 1] = ids[0, start + 1 : start + n]
    hidden = model(ids, positions, documents)
    loss, num_valid = cross_entropy_sum(model, hidden, labels)
    total, count = 0.0, 0
    for start, piece in zip(starts, pieces, strict=True):
        n = piece.shape[1]
        alone = model(piece)
        part = model.project(hidden[:, start : start + n])
        assert near(part, model.project(alone), tolerance)
        loss_of_one, valid = cross_entropy_sum(model, alone, labels[:, start : start + n])
        total, count = total + loss_of_one.item(), count + valid
    assert torch.isfinite(hidden).all()
    assert count == num_valid == sum(LENGTHS) - len(LENGTHS)
    assert loss.item() / count == pytest.approx(total / count, abs=tolerance)


def test_case48_a_row_of_padding_is_finite_and_costs_nothing() -> None:
    model = small_model().train()
    ids, labels = random_ids(2, 12), random_ids(2, 12, seed=1)
    labels[1] = IGNORE
    documents = torch.zeros(2, 12, dtype=torch.int64)
    documents[1] = -1
    hidden = model(ids, None, documents)
    loss, num_valid = cross_entropy_sum(model, hidden, labels)
    loss.backward()
    with torch.no_grad():
        alone, _ = cross_entropy_sum(model, model(ids[:1]), labels[:1])
    assert num_valid == 12
    assert torch.isfinite(hidden).all()
    assert loss.item() == pytest.approx(alone.item(), rel=1e-6)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("sizes", [[40], [1] * 40, [16, 16, 8], [7, 1, 1, 30, 1]])
def test_cached_and_chunked_equal_the_whole(model: Transformer, sizes: list[int]) -> None:
    ids = random_ids(3, 40)
    cache = KVCache(model.config, 3, 40)
    with torch.no_grad():
        whole = model.project(model(ids))
        parts = [model.project(model(part, cache=cache)) for part in ids.split(sizes, dim=1)]
    assert cache.length == 40
    assert near(torch.cat(parts, dim=1), whole)


def test_chunked_prefill_equals_the_whole_across_attention_paths() -> None:
    """700 tokens: blocks below 512 keys, the fused kernel above, the plain path for one token."""
    model = small_model()
    ids = random_ids(1, 700)
    cache = KVCache(model.config, 1, 700)
    with torch.no_grad():
        whole = model(ids)
        parts = [model(part, cache=cache) for part in ids.split([500, 150, 49, 1], dim=1)]
    assert near(torch.cat(parts, dim=1), whole)


def test_left_padded_rows_equal_single_rows() -> None:
    model = small_model()
    lengths = [9, 4, 1]
    rows = [random_ids(1, n + 3, seed=n) for n in lengths]
    ids = torch.zeros(3, 9, dtype=torch.int64)
    documents = torch.full((3, 9), -1)
    positions = torch.zeros(3, 9, dtype=torch.int64)
    for i, (n, row) in enumerate(zip(lengths, rows, strict=True)):
        ids[i, 9 - n :], documents[i, 9 - n :] = row[0, :n], 0
        positions[i, 9 - n :] = torch.arange(n)
    cache = KVCache(model.config, 3, 12)
    with torch.no_grad():
        last = [model(ids, positions, documents, cache)[:, -1]]
        for step in range(3):
            new = torch.stack([row[0, n + step] for n, row in zip(lengths, rows, strict=True)])
            at = torch.tensor(lengths)[:, None] + step
            last.append(model(new[:, None], at, None, cache)[:, -1])
        for i, (n, row) in enumerate(zip(lengths, rows, strict=True)):
            alone = model(row)[0, n - 1 :]
            assert near(torch.stack(last)[:, i], alone)


def test_a_later_token_never_changes_an_earlier_one(model: Transformer) -> None:
    ids = random_ids(1, 20)
    changed = ids.clone()
    changed[0, 12:] = (changed[0, 12:] + 1) % 61
    with torch.no_grad():
        difference = (model(ids) - model(changed)).abs().amax(-1)[0]
    assert difference[:12].max() == 0
    assert difference[12:].min() > 0


def test_every_parameter_gets_a_gradient(model: Transformer) -> None:
    ids = random_ids(2, 61)
    ids[0] = torch.arange(61)  # every row of the embedding is used
    loss, _ = cross_entropy_sum(model.train(), model(ids), ids.roll(-1, 1))
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        rows = parameter.grad.reshape(parameter.shape[0], -1).abs().amax(1)
        # A key bias shifts all scores of a query alike except through the rotation.
        assert (rows > 0).all(), name


@pytest.mark.parametrize("overrides", FAMILIES[:4], ids=IDS[:4])
@pytest.mark.parametrize("path", ["plain", "blocks", "sdpa"])
def test_gradients_agree_with_finite_differences(
    overrides: dict[str, Any], path: AttentionPath
) -> None:
    model = small_model(**overrides).double().train()
    model.attention_path = path
    ids, labels = random_ids(2, 11), random_ids(2, 11, seed=1)
    positions, documents = packed([4, 7])
    positions, documents = positions.repeat(2, 1), documents.repeat(2, 1)

    def loss() -> torch.Tensor:
        return cross_entropy_sum(model, model(ids, positions, documents), labels)[0]

    loss().backward()
    generator, step = torch.Generator().manual_seed(0), 1e-5
    for name, parameter in model.named_parameters():
        flat, grad = parameter.data.view(-1), parameter.grad.view(-1)
        used = torch.nonzero(grad).squeeze(1)
        for at in used[torch.randperm(used.numel(), generator=generator)[:4]].tolist():
            kept = flat[at].item()
            values = []
            for sign in (1, -1):
                flat[at] = kept + sign * step
                with torch.no_grad():
                    values.append(loss().item())
            flat[at] = kept
            numeric = (values[0] - values[1]) / (2 * step)
            assert grad[at].item() == pytest.approx(numeric, rel=1e-5, abs=1e-7), name


def test_activation_checkpointing_changes_no_gradient() -> None:
    ids = random_ids(2, 33)
    grads = []
    for switch in (False, True):
        model = small_model(dropout=0.1).train()
        model.gradient_checkpointing = switch
        torch.manual_seed(5)
        loss, _ = cross_entropy_sum(model, model(ids), ids.roll(-1, 1))
        loss.backward()
        grads.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_dropout_acts_in_training_only() -> None:
    model = small_model(dropout=0.3)
    ids = random_ids(1, 10)
    with torch.no_grad():
        assert torch.equal(model(ids), model(ids))
        model.train()
        assert not torch.equal(model(ids), model(ids))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("cache_dtype", [torch.float32, torch.bfloat16])
def test_case55_every_dtype_runs_with_every_cache(
    dtype: torch.dtype, cache_dtype: torch.dtype
) -> None:
    exact = small_model(architecture="qwen3")
    model = small_model(architecture="qwen3").to(dtype)
    ids = random_ids(2, 9)
    cache = KVCache(model.config, 2, 9, cache_dtype)
    with torch.no_grad():
        first, second = model(ids[:, :6], cache=cache), model(ids[:, 6:], cache=cache)
        logits = model.project(torch.cat((first, second), 1))
        wanted = exact.project(exact(ids))
    assert first.dtype == dtype
    assert logits.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert (logits - wanted).abs().max() < 0.06 * wanted.abs().max()


def test_bfloat16_autocast_stays_near_float32_and_keeps_float32_gradients() -> None:
    model = small_model(architecture="qwen3").train()
    ids = random_ids(2, 140)
    exact, _ = cross_entropy_sum(model, model(ids), ids.roll(-1, 1))
    exact.backward()
    wanted = {name: p.grad for name, p in model.named_parameters()}
    for path in ("blocks", "sdpa", "plain"):
        model.attention_path = path
        model.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = cross_entropy_sum(model, model(ids), ids.roll(-1, 1))
        loss.backward()
        assert loss.item() == pytest.approx(exact.item(), rel=3e-3)
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            assert parameter.grad.dtype == torch.float32
            error = (parameter.grad - wanted[name]).norm() / wanted[name].norm()
            assert error < 0.05, (path, name)


@pytest.mark.slow
def test_compiled_equals_eager() -> None:
    ids, labels = random_ids(2, 150), random_ids(2, 150, seed=1)
    positions, documents = packed([60, 90])
    positions, documents = positions.repeat(2, 1), documents.repeat(2, 1)
    results = []
    for compiled in (False, True):
        model = small_model().train()
        forward = torch.compile(model.forward, dynamic=False) if compiled else model.forward
        loss, _ = cross_entropy_sum(model, forward(ids, positions, documents), labels)
        loss.backward()
        results.append((loss, *(parameter.grad for parameter in model.parameters())))
    for eager, fast in zip(*results, strict=True):
        assert (eager - fast).abs().max() < 1e-4 * max(1.0, float(eager.abs().max()))


def test_logprobs_are_those_of_the_projected_logits() -> None:
    model = small_model(tie_word_embeddings=False)
    ids = random_ids(2, 15)
    with torch.no_grad():
        hidden = model(ids)
        wanted = torch.log_softmax(model.project(hidden), -1).gather(2, ids[..., None])[..., 0]
        assert (token_logprobs(model, hidden, ids) - wanted).abs().max() < 1e-5
