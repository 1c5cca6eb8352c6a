"""KVCache: hard capacity, truncation and row selection."""

from __future__ import annotations

import pytest
import torch
from model_tools import near, random_ids, small_config, small_model

from cerne.errors import EngineError
from cerne.model.cache import KVCache


def test_the_end_of_the_context_names_both_numbers() -> None:
    model = small_model()
    cache = KVCache(model.config, 1, 10)
    with torch.no_grad():
        model(random_ids(1, 8), cache=cache)
        kept = [keys.clone() for keys in cache.keys]
        with pytest.raises(EngineError, match=r"8 cached \+ 3 new = 11.*at most 10"):
            model(random_ids(1, 3), cache=cache)
    assert cache.length == 8
    assert all(torch.equal(a, b) for a, b in zip(kept, cache.keys, strict=True))


def test_capacity_beyond_the_context_is_refused() -> None:
    with pytest.raises(EngineError, match=r"1025.*max_position_embeddings=1024"):
        KVCache(small_config(), 1, 1025)


def test_truncate_then_continue_equals_a_fresh_start() -> None:
    model = small_model()
    ids = random_ids(1, 12)
    cache = KVCache(model.config, 1, 12)
    with torch.no_grad():
        model(random_ids(1, 12, seed=9)[:, :5], cache=cache)
        cache.truncate(0)
        model(ids[:, :9], cache=cache)
        cache.truncate(6)
        rest = model(ids[:, 6:], cache=cache)
        assert near(rest, model(ids)[:, 6:])
    with pytest.raises(EngineError, match="truncate"):
        cache.truncate(13)


def test_select_rows_reorders_and_resizes() -> None:
    model = small_model()
    ids = random_ids(3, 7)
    documents = torch.tensor([[0] * 6, [-1] * 2 + [0] * 4, [0] * 6])
    cache = KVCache(model.config, 3, 7)
    rows = torch.tensor([2, 1, 1, 0])
    with torch.no_grad():
        model(ids[:, :6], None, documents, cache)
        cache.select_rows(rows)
        after = model(ids[rows, 6:], cache=cache)
        whole = model(ids, None, torch.cat((documents, torch.zeros(3, 1, dtype=torch.int64)), 1))
    assert cache.batch == 4
    assert near(after[:, 0], whole[rows, 6])
