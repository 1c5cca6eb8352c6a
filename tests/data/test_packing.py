"""Packing: every token is a target exactly once, nothing crosses documents or rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerne.data.loader import iterate_once
from cerne.data.memory import MemoryStore
from cerne.data.packing import IGNORE, Batch, document_spans, pack_best_fit, pack_stream
from cerne.errors import DataError

PAD = 999_999


def store_of(lengths: list[int], start_token_id: int | None = None) -> MemoryStore:
    """Documents with distinct tokens: document d holds 1000 d, 1000 d + 1, ..."""
    examples = [([1000 * d + i for i in range(n)], [True] * n) for d, n in enumerate(lengths)]
    return MemoryStore(examples, PAD, PAD, start_token_id)


def all_batches(
    lengths: list[int], seq_len: int, batch_size: int, packing: str, start: int | None = None
) -> list[Batch]:
    return list(iterate_once(store_of(lengths, start), seq_len, batch_size, packing=packing))


def targets_of(batches: list[Batch]) -> list[int]:
    return sorted(t for b in batches for t in b.labels_BT[b.labels_BT != IGNORE].tolist())


def check(batch: Batch, seq_len: int, start: int | None = None) -> None:
    """What must hold in every batch, cell by cell."""
    assert batch.ids_BT.shape[1] == seq_len
    for array in (batch.ids_BT, batch.labels_BT, batch.positions_BT, batch.documents_BT):
        assert array.dtype == np.int64 and array.shape == batch.ids_BT.shape
    for ids, labels, positions, documents in zip(
        batch.ids_BT, batch.labels_BT, batch.positions_BT, batch.documents_BT, strict=True
    ):
        used = documents >= 0
        length = int(used.sum())
        assert used[:length].all()
        assert (ids[~used] == PAD).all() and (labels[~used] == IGNORE).all()
        assert (positions[~used] == 0).all()
        for t in range(length):
            new = t == 0 or documents[t] != documents[t - 1]
            assert documents[t] == (0 if t == 0 else documents[t - 1] + new)
            assert positions[t] == (0 if new else positions[t - 1] + 1)
            if not new:
                begun = ids[t - 1] == start
                assert ids[t] % 1000 == 0 if begun else ids[t] == ids[t - 1] + 1
            if ids[t] == start:
                assert new and labels[t] % 1000 == 0
            elif labels[t] != IGNORE:
                assert labels[t] == ids[t] + 1


@pytest.mark.parametrize("packing", ["best-fit", "stream"])
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    seq_len=st.integers(1, 17),
    batch_size=st.integers(1, 5),
    start=st.sampled_from([None, 900_000]),
)
@settings(max_examples=120, deadline=None)
def test_every_token_is_supervised_exactly_once(
    packing, lengths, seq_len, batch_size, start
) -> None:
    first = 1 if start is None else 0
    expected = [1000 * d + i for d, n in enumerate(lengths) for i in range(first, n)]
    if not expected:
        with pytest.raises(DataError, match="nothing to learn"):
            all_batches(lengths, seq_len, batch_size, packing, start)
        return
    batches = all_batches(lengths, seq_len, batch_size, packing, start)
    for batch in batches:
        check(batch, seq_len, start)
    assert targets_of(batches) == expected
    assert sum(batch.num_valid for batch in batches) == len(expected)
    assert all(len(b.ids_BT) == batch_size for b in batches[:-1])
    assert 1 <= len(batches[-1].ids_BT) <= batch_size


def test_best_fit_fills_rows_and_reports_padding() -> None:
    # Pairs 7, 5, 3, 1 fit into two rows of 8 without a gap.
    (batch,) = all_batches([8, 6, 4, 2], 8, 4, "best-fit")
    assert batch.ids_BT.shape == (2, 8)
    assert batch.padding_share == 0.0
    assert batch.documents_BT.tolist() == [[0] * 7 + [1], [0] * 5 + [1] * 3]
    assert batch.positions_BT.tolist() == [[*range(7), 0], [*range(5), *range(3)]]
    (batch,) = all_batches([5], 8, 4, "best-fit")
    assert batch.padding_share == 0.5
    assert (batch.num_tokens, batch.num_valid) == (4, 4)


def test_a_long_document_continues_in_the_next_span_with_no_target_lost() -> None:
    (batch,) = all_batches([10], 4, 8, "best-fit")
    assert batch.ids_BT.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, PAD, PAD, PAD]]
    assert batch.labels_BT.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, IGNORE, IGNORE, IGNORE]]
    assert batch.positions_BT[:, 0].tolist() == [0, 0, 0]


def test_stream_rows_have_no_padding_but_the_last_and_never_cross_documents() -> None:
    batch = next(iter(all_batches([3, 1, 0, 5], 4, 8, "stream")))
    assert batch.ids_BT.tolist() == [[0, 1, 2, 1000], [3000, 3001, 3002, 3003]]
    assert batch.labels_BT.tolist() == [[1, 2, IGNORE, IGNORE], [3001, 3002, 3003, 3004]]
    assert batch.documents_BT.tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert batch.positions_BT.tolist() == [[0, 1, 2, 0], [0, 1, 2, 3]]


@given(st.lists(st.integers(1, 16), min_size=1, max_size=200))
@settings(max_examples=60, deadline=None)
def test_best_fit_opens_a_row_only_when_it_must(lengths: list[int]) -> None:
    stops = np.cumsum(lengths).astype(np.int64)
    rows = pack_best_fit(stops - np.array(lengths), stops, 16)
    loads = np.add.reduceat(rows.stops - rows.starts, rows.splits[:-1])
    assert loads.max() <= 16 and loads.sum() == sum(lengths)
    assert sorted(rows.starts.tolist()) == (stops - np.array(lengths)).tolist()
    # A new row is opened only when no other has room, so no two rows could be one.
    two = np.sort(loads)[:2]
    assert len(loads) == 1 or two.sum() > 16


def test_stream_windows_tile_all_pairs_for_every_phase() -> None:
    for tokens in range(20):
        for phase in range(4):
            rows = pack_stream(1, max(1, tokens), 4, min(phase, max(0, tokens - 2)))
            cells = [c for a, b in zip(rows.starts, rows.stops, strict=True) for c in range(a, b)]
            assert cells == list(range(1, tokens))
            assert ((rows.stops - rows.starts) > 0).all() and (
                (rows.stops - rows.starts) <= 4
            ).all()


def test_spans_of_documents() -> None:
    offsets, none = np.array([0, 0, 1, 3, 12]), np.zeros(4, bool)
    starts, stops = document_spans(offsets, 4, none)
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == [(2, 3), (4, 8), (8, 12)]
    starts, stops = document_spans(offsets, 4, ~none)
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == [
        (0, 1),
        (1, 3),
        (3, 7),
        (7, 11),
        (11, 12),
    ]


def test_with_a_start_token_the_first_token_is_predicted_from_it() -> None:
    store = store_of([3, 1, 0, 2], start_token_id=77)
    expected = {
        "stream": [[77, 0, 1, 77], [77, 3000]],
        "best-fit": [[77, 0, 1, 77], [77, 3000]],
    }
    for packing, ids in expected.items():
        (batch,) = iterate_once(store, 4, 8, packing=packing)
        check(batch, 4, start=77)
        assert [row[row != PAD].tolist() for row in batch.ids_BT] == ids
        assert targets_of([batch]) == [0, 1, 2, 1000, 3000, 3001]
    # The last tokens of documents are targets only, never inputs.
    assert not set(batch.ids_BT.ravel()) & {2, 1000, 3001}


def test_masked_tokens_are_inputs_but_no_targets() -> None:
    store = MemoryStore([([5, 6, 7, 8], [True, False, True, False])], 0, 10)
    (batch,) = iterate_once(store, 3, 1, packing="best-fit")
    assert batch.ids_BT.tolist() == [[5, 6, 7]]
    assert batch.labels_BT.tolist() == [[IGNORE, 7, IGNORE]]


def test_an_id_outside_the_vocabulary_is_an_error_not_an_index_fault() -> None:
    store = MemoryStore([([5, 6, 7, 8], [True] * 4)], 0, 9)
    store.vocab_size = 8
    with pytest.raises(DataError, match="outside the vocabulary; got 8"):
        list(iterate_once(store, 4, 1))
