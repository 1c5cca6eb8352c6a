"""The torch engine: cached equals recomputed, ragged equals single, fork, drop, capacity."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cerne.engine.torch_engine import TorchEngine
from cerne.errors import EngineError
from tests.engine.fakes import VOCAB, small_model


@pytest.fixture(scope="module")
def model():
    return small_model()


def full_logits(model, ids):
    with torch.no_grad():
        return model.project(model(torch.tensor([ids])))[0].numpy()


def random_ids(count, seed=0):
    return np.random.default_rng(seed).integers(0, VOCAB, count).tolist()


@pytest.mark.parametrize("chunk", [1, 3, 16, 512])
def test_prefill_in_chunks_equals_one_pass(model, chunk):
    ids = random_ids(50)
    with TorchEngine(model, prefill_chunk=chunk).open(1, 60) as pool:
        got = pool.prefill(pool.start(), ids, "all")
    assert np.abs(got - full_logits(model, ids)).max() < 2e-4


def test_logits_only_where_asked(model):
    ids = random_ids(9)
    with TorchEngine(model).open(3, 20) as pool:
        a, b, c = pool.start(), pool.start(), pool.start()
        assert pool.prefill(a, ids, "none") is None
        last = pool.prefill(b, ids, "last")
        everything = pool.prefill(c, ids, "all")
    assert last.shape == (1, VOCAB)
    assert everything.shape == (9, VOCAB)
    assert np.array_equal(last[0], everything[-1]) or np.abs(last[0] - everything[-1]).max() < 2e-4


def test_ragged_decode_equals_recomputation(model):
    texts = [random_ids(n, seed=n) for n in (3, 17, 1, 9)]
    more = random_ids(12, seed=99)
    with TorchEngine(model).open(4, 40) as pool:
        handles = [pool.start() for _ in texts]
        for handle, ids in zip(handles, texts, strict=True):
            pool.prefill(handle, ids)
        for step, token in enumerate(more):
            got = pool.decode(handles, [token] * 4)
            for row, ids in zip(got, texts, strict=True):
                expected = full_logits(model, ids + more[: step + 1])[-1]
                assert np.abs(row - expected).max() < 2e-4


def test_decode_takes_any_subset_in_any_order(model):
    texts = [random_ids(n, seed=n) for n in (5, 8, 5, 2)]
    with TorchEngine(model).open(4, 40) as pool:
        handles = [pool.start() for _ in texts]
        for handle, ids in zip(handles, texts, strict=True):
            pool.prefill(handle, ids)
        got = pool.decode([handles[3], handles[0], handles[2]], [7, 8, 9])
        assert [pool.length(handle) for handle in handles] == [6, 8, 6, 3]
        same_length = pool.decode([handles[2], handles[0]], [1, 2])
    for row, (i, token) in zip(got, [(3, 7), (0, 8), (2, 9)], strict=True):
        assert np.abs(row - full_logits(model, [*texts[i], token])[-1]).max() < 2e-4
    for row, (i, tail) in zip(same_length, [(2, [9, 1]), (0, [8, 2])], strict=True):
        assert np.abs(row - full_logits(model, [*texts[i], *tail])[-1]).max() < 2e-4


def test_case87_fork_and_drop_leave_neighbours_alone(model):
    texts = [random_ids(n, seed=n) for n in (5, 11, 7)]
    with TorchEngine(model).open(4, 40) as pool:
        handles = [pool.start() for _ in texts]
        for handle, ids in zip(handles, texts, strict=True):
            pool.prefill(handle, ids)
        twin = pool.fork(handles[1])
        pool.decode([handles[1]], [3])
        pool.drop(handles[0])
        got = pool.decode([twin, handles[2]], [4, 5])
        assert np.abs(got[0] - full_logits(model, [*texts[1], 4])[-1]).max() < 2e-4
        assert np.abs(got[1] - full_logits(model, [*texts[2], 5])[-1]).max() < 2e-4
        fresh = pool.start()
        got = pool.prefill(fresh, texts[0])
        assert np.abs(got[0] - full_logits(model, texts[0])[-1]).max() < 2e-4
        # The new row is shorter than what its place held before: old keys must not be seen.
        got = pool.decode([fresh, handles[1]], [6, 7])
        assert np.abs(got[0] - full_logits(model, [*texts[0], 6])[-1]).max() < 2e-4
        assert np.abs(got[1] - full_logits(model, [*texts[1], 3, 7])[-1]).max() < 2e-4


@pytest.mark.parametrize(
    "overrides",
    [
        {"architecture": "mistral", "sliding_window": 6},
        {"architecture": "qwen3", "qk_norm": True},
        {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    ],
    ids=["window", "qk_norm", "dynamic rope"],
)
def test_every_model_kind_decodes_ragged(overrides):
    model = small_model(**overrides)
    texts = [random_ids(n, seed=n) for n in (3, 14)]
    with TorchEngine(model).open(2, 40) as pool:
        handles = [pool.start() for _ in texts]
        for handle, ids in zip(handles, texts, strict=True):
            pool.prefill(handle, ids)
        for step in range(5):
            got = pool.decode(handles, [step, step])
            for row, ids in zip(got, texts, strict=True):
                expected = full_logits(model, [*ids, *range(step + 1)])[-1]
                assert np.abs(row - expected).max() < 2e-4


def test_capacity_is_hard_and_named_with_both_numbers(model):
    with TorchEngine(model).open(1, 10) as pool:
        handle = pool.start()
        with pytest.raises(EngineError, match=r"0 \+ 11 tokens.*at most 10"):
            pool.prefill(handle, random_ids(11))
        pool.prefill(handle, random_ids(10))
        with pytest.raises(EngineError, match=r"10 \+ 1 tokens.*at most 10"):
            pool.decode([handle], [1])
    with pytest.raises(EngineError, match="1 to 256"):
        TorchEngine(model).open(1, 257)
    with pytest.raises(EngineError, match="max_position_embeddings=256"):
        TorchEngine(model, context=300)


def test_wrong_ids_and_handles_are_errors(model):
    with TorchEngine(model).open(1, 10) as pool:
        handle = pool.start()
        with pytest.raises(EngineError, match=f"got {VOCAB}; allowed: 0 to {VOCAB - 1}"):
            pool.prefill(handle, [1, VOCAB])
        with pytest.raises(EngineError, match="no tokens"):
            pool.prefill(handle, [])
        with pytest.raises(EngineError, match="pool of sequences is full"):
            pool.start()
        pool.drop(handle)
        with pytest.raises(EngineError, match="no such sequence"):
            pool.decode([handle], [1])


def test_room_follows_the_memory_budget(model):
    one_bytes = 100 * model.config.kv_bytes_per_token(4)
    assert TorchEngine(model, kv_budget_bytes=10 * one_bytes).room(100) == 10
    assert TorchEngine(model, kv_budget_bytes=1).room(100) == 1


def test_generating_from_a_model_in_training_mode_uses_no_dropout():
    model = small_model(dropout=0.5)
    ids = random_ids(8)
    expected = full_logits(model, ids)[-1]
    model.train()
    with TorchEngine(model).open(1, 10) as pool:
        got = pool.prefill(pool.start(), ids)[0]
    assert model.training
    assert np.abs(got - expected).max() < 2e-4
    model(torch.tensor([ids])).sum().backward()
