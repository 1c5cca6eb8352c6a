"""Loaders: order from (seed, epoch), exact resume, ranks, tiny data, flat memory."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from cerne.data.loader import ConversationLoader, PackedLoader, iterate_once
from cerne.data.memory import MemoryStore
from cerne.data.order import shuffled
from cerne.data.packing import IGNORE, Batch
from cerne.errors import DataError


def store_of(lengths: list[int], offset: int = 0) -> MemoryStore:
    examples = [
        ([offset + 100 * d + i for i in range(n)], [True] * n) for d, n in enumerate(lengths)
    ]
    return MemoryStore(examples, pad_token_id=0)


def same(a: Batch, b: Batch) -> bool:
    names = ("ids_BT", "labels_BT", "positions_BT", "documents_BT")
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in names)


def test_the_order_is_a_fixed_function_of_seed_and_epoch() -> None:
    # Golden values: a change here would silently reorder everybody's training data.
    assert shuffled(8, 0, 0).tolist() == [0, 7, 2, 5, 4, 6, 3, 1]
    assert shuffled(8, 1, 0).tolist() == [2, 7, 0, 5, 1, 4, 3, 6]
    assert sorted(shuffled(1000, 3, 4).tolist()) == list(range(1000))
    orders = {tuple(shuffled(20, seed, epoch).tolist()) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


@pytest.mark.parametrize("packing", ["best-fit", "stream"])
def test_same_seed_same_batches_other_seed_other_order(packing) -> None:
    store = store_of([9] * 40)
    loaders = [PackedLoader(store, 16, 2, seed=s, packing=packing) for s in (1, 1, 2)]
    batches = [[loader.next() for _ in range(12)] for loader in loaders]
    assert all(same(a, b) for a, b in zip(batches[0], batches[1], strict=True))
    assert not all(same(a, b) for a, b in zip(batches[0], batches[2], strict=True))


def test_auto_takes_the_stream_for_long_documents_only() -> None:
    assert PackedLoader(store_of([50]), 16, 1).packing == "stream"
    assert PackedLoader(store_of([5, 5, 50]), 32, 1).packing == "best-fit"


def test_stream_windows_move_between_epochs() -> None:
    loader = PackedLoader(store_of([65]), 16, 1, packing="stream")
    seen = {}
    for _ in range(60):
        epoch = loader.epoch
        seen.setdefault(epoch, set()).add(int(loader.next().ids_BT[0, 0]))
    assert len({frozenset(v) for k, v in seen.items() if k < 8}) > 3


def test_half_of_the_documents_begin_with_the_start_token_in_each_epoch() -> None:
    lengths = [1 + i % 9 for i in range(400)]
    examples = [([1000 + i] * n, [True] * n) for i, n in enumerate(lengths)]
    store = MemoryStore(examples, 0, vocab_size=2000, start_token_id=7)
    loader = PackedLoader(store, 16, 1, seed=2, packing="best-fit")
    started: list[set[int]] = []
    for epoch in range(2):
        begun: set[int] = set()
        valid = 0
        while loader.epoch == epoch:
            batch = loader.next()
            begun |= set(batch.labels_BT[batch.ids_BT == 7].tolist())
            valid += batch.num_valid
        assert valid == sum(lengths) - (400 - len(begun))
        assert 160 < len(begun) < 270
        # A document of one token could not be learned at all without its start.
        assert {1000 + i for i, n in enumerate(lengths) if n == 1} <= begun
        started.append(begun)
    assert started[0] != started[1]


def test_without_shuffling_the_text_is_read_in_order() -> None:
    loader = PackedLoader(store_of([33]), 8, 2, shuffle=False, packing="stream")
    for _ in range(2):
        assert loader.next().ids_BT.ravel().tolist() == list(range(16))
        assert loader.next().ids_BT.ravel().tolist() == list(range(16, 32))


def test_state_is_small_json() -> None:
    loader = PackedLoader(store_of([9] * 40), 16, 2, seed=3)
    loader.next()
    state = loader.state()
    assert set(state) == {"epoch", "position", "seed", "digest"}
    assert json.loads(json.dumps(state)) == state
    assert len(json.dumps(state)) < 200


def test_a_state_of_other_data_seed_or_shape_is_refused() -> None:
    state = PackedLoader(store_of([9] * 40), 16, 2).state()
    others = [
        PackedLoader(store_of([9] * 40, offset=1), 16, 2),
        PackedLoader(store_of([9] * 40), 8, 2),
        PackedLoader(store_of([9] * 40), 16, 2, seed=1),
        PackedLoader(store_of([9] * 40), 16, 2, packing="stream"),
        PackedLoader(store_of([9] * 40), 16, 2, shuffle=False),
    ]
    for loader in others:
        with pytest.raises(DataError, match="other data"):
            loader.load_state(state)
    loader = PackedLoader(store_of([9] * 40), 16, 2)
    for change in (
        {"position": [0, 10_000]},
        {"position": [1, 0]},
        {"epoch": -1},
        {"position": 3},
        {"position": [1]},
        {"epoch": "x"},
    ):
        with pytest.raises(DataError, match=r"out of range|malformed"):
            loader.load_state({**state, **change})
    with pytest.raises(DataError, match="malformed"):
        loader.load_state({})


def test_the_state_outlives_another_batch_size_and_number_of_ranks() -> None:
    store = store_of([9] * 40)
    loader = PackedLoader(store, 8, 6)
    loader.next()
    expected = loader.next().ids_BT
    again = PackedLoader(store, 8, 6)
    again.next()
    halves = []
    for rank in range(2):
        half = PackedLoader(store, 8, 3, rank=rank, world_size=2)
        half.load_state(again.state())
        halves.append(half.next().ids_BT)
    assert np.array_equal(np.concatenate(halves), expected)


def test_sizes_out_of_range_are_errors() -> None:
    store = store_of([9])
    for options in ({"seq_len": 0}, {"batch_size": 0}, {"rank": 2, "world_size": 2}, {"seed": -1}):
        with pytest.raises(DataError, match="out of range"):
            PackedLoader(store, **{"seq_len": 4, "batch_size": 1, **options})


def test_windows_of_many_spans_cover_the_epoch(monkeypatch) -> None:
    monkeypatch.setattr("cerne.data.plan.WINDOW_SPANS", 7)
    store = store_of([3 + i % 5 for i in range(50)])
    loader = PackedLoader(store, 8, 3, packing="best-fit")
    targets: list[int] = []
    states = []
    while loader.epoch == 0:
        states.append(loader.state())
        targets += loader.next().labels_BT.ravel().tolist()
    counts = {t: targets.count(t) for t in set(targets) - {IGNORE}}
    assert sum(1 for t in counts) == loader.pairs_per_epoch
    assert len({s["position"][0] for s in states}) == 8
    once = [b.labels_BT.ravel() for b in iterate_once(store, 8, 3, packing="best-fit")]
    flat = [int(t) for t in np.concatenate(once) if t != IGNORE]
    assert len(flat) == len(set(flat)) == loader.pairs_per_epoch


def test_validation_ranks_share_the_batches() -> None:
    store = store_of([9] * 11)
    whole = list(iterate_once(store, 8, 2, packing="best-fit"))
    parts = [list(iterate_once(store, 8, 2, r, 2, "best-fit")) for r in range(2)]
    assert len(parts[0]) == 3 and len(parts[1]) == 3
    for index, batch in enumerate(whole):
        assert same(batch, parts[index % 2][index // 2])


def test_conversations_are_cut_and_counted_and_only_marked_tokens_are_targets() -> None:
    examples = [
        ([1, 2, 3, 4], [False, False, True, True]),
        ([5, 6, 7, 8, 9, 10, 11], [False] * 6 + [True]),
        ([12, 13], [True, False]),
        ([20, 21, 22, 23, 24, 25], [False, True, True, True, True, True]),
    ]
    loader = ConversationLoader(examples, seq_len=4, batch_size=1, pad_token_id=0, vocab_size=30)
    assert (loader.num_truncated, loader.num_unsupervised, loader.num_supervised) == (2, 2, 6)
    targets: list[int] = []
    while loader.epoch == 0:
        batch = loader.next()
        assert batch.ids_BT.shape == (1, 4)
        targets += [t for t in batch.labels_BT.ravel().tolist() if t != IGNORE]
    assert sorted(targets) == [3, 4, 21, 22, 23, 24]


def test_conversations_without_any_target_are_an_error() -> None:
    with pytest.raises(DataError, match="no conversation has a token to learn"):
        ConversationLoader([([1, 2], [True, False])], 4, 1, 0)
    with pytest.raises(DataError, match="different lengths"):
        ConversationLoader([([1, 2, 3], [True, True])], 4, 1, 0)
    with pytest.raises(DataError, match="outside the vocabulary"):
        ConversationLoader([([1, 9], [True, True])], 4, 1, 0, vocab_size=9)


def test_memory_is_flat_over_many_batches() -> None:
    loader = PackedLoader(store_of([30 + i % 50 for i in range(300)]), 64, 4)
    for _ in range(200):
        loader.next()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(2000):
        loader.next()
    grown_bytes = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert loader.epoch > 10
    # One cached plan may differ in size from another; nothing may be kept per batch.
    assert grown_bytes < 100_000
