"""CASES.md section 9: packed rows give the loss and the logits of documents taken one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cerne.data.loader import ConversationLoader, iterate_once
from cerne.data.memory import MemoryStore
from cerne.data.packing import IGNORE, Batch
from cerne.model.loss import cross_entropy_sum
from cerne.model.presets import preset
from cerne.model.transformer import Transformer

VOCAB = 64
DOCUMENTS = [5, 9, 2, 14, 7, 3]


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(preset("nano", vocab_size=VOCAB)).eval()


def examples() -> list[tuple[list[int], list[bool]]]:
    rng = np.random.default_rng(1)
    return [(rng.integers(1, VOCAB, n).tolist(), [True] * n) for n in DOCUMENTS]


def run(model: Transformer, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [B, T, V] and the summed loss."""
    ids, positions, documents, labels = (
        torch.from_numpy(a)
        for a in (batch.ids_BT, batch.positions_BT, batch.documents_BT, batch.labels_BT)
    )
    with torch.no_grad():
        hidden = model(ids, positions_BT=positions, documents_BT=documents)
        total, count = cross_entropy_sum(model, hidden, labels)
    assert int(count) == batch.num_valid
    return model.project(hidden).detach(), total


@pytest.mark.parametrize("packing", ["best-fit", "stream"])
def test_case47_packed_loss_and_logits_equal_those_of_single_documents(model, packing) -> None:
    rows = examples()
    store = MemoryStore(rows, 0, VOCAB)
    packed_loss, logits_of = 0.0, {}
    # In `stream` a row holds the whole text, so that no document is cut.
    seq_len = 16 if packing == "best-fit" else sum(DOCUMENTS)
    for batch in iterate_once(store, seq_len, 2, packing=packing):
        logits, total = run(model, batch)
        packed_loss += float(total)
        for b in range(len(batch.ids_BT)):
            for d in range(int(batch.documents_BT[b].max()) + 1):
                cells = np.flatnonzero(batch.documents_BT[b] == d)
                ids = tuple(batch.ids_BT[b, cells].tolist())
                logits_of[ids] = logits[b, cells]
    single_loss = 0.0
    for ids, mask in rows:
        (batch,) = iterate_once(MemoryStore([(ids, mask)], 0, VOCAB), len(ids) - 1, 1)
        logits, total = run(model, batch)
        single_loss += float(total)
        key = next(k for k in logits_of if k[: len(ids) - 1] == tuple(ids[:-1]))
        assert torch.allclose(logits_of[key][: len(ids) - 1], logits[0], atol=1e-5)
    count = sum(n - 1 for n in DOCUMENTS)
    assert packed_loss / count == pytest.approx(single_loss / count, abs=1e-6)


def test_case47_the_neighbours_of_a_document_do_not_matter(model) -> None:
    rows = examples()
    store = MemoryStore(rows, 0, VOCAB)
    changed = MemoryStore([rows[0], *[([1] * len(i), m) for i, m in rows[1:]]], 0, VOCAB)
    (a,), (b,) = (iterate_once(s, 64, 4, packing="best-fit") for s in (store, changed))
    where = [
        (r, t)
        for r, t in np.argwhere(a.documents_BT >= 0).tolist()
        if a.documents_BT[r, t] == _document_of(a, r, rows[0][0][:-1])
    ]
    assert len(where) == 4
    left, right = run(model, a)[0], run(model, b)[0]
    for r, t in where:
        assert torch.allclose(left[r, t], right[r, t], atol=1e-6)


def _document_of(batch: Batch, row: int, ids: list[int]) -> int:
    for d in range(int(batch.documents_BT[row].max()) + 1):
        if batch.ids_BT[row, batch.documents_BT[row] == d].tolist() == ids:
            return d
    return -2


def test_case46_prompt_tokens_are_not_trained(model) -> None:
    prompt, answer = [3, 9, 4, 8], [7, 2, 6]
    loader = ConversationLoader([(prompt + answer, [False] * 4 + [True] * 3)], 8, 1, 0)
    batch = loader.next()
    assert batch.labels_BT[0].tolist() == [IGNORE] * 3 + answer + [IGNORE] * 2
    loss = run(model, batch)[1]
    # Other wishes for the prompt's own targets change nothing: they are not in the loss.
    arrays = (batch.ids_BT, batch.positions_BT, batch.documents_BT)
    ids, positions, documents = map(torch.from_numpy, arrays)
    hidden = model(ids, positions_BT=positions, documents_BT=documents)
    hidden.retain_grad()
    total, _ = cross_entropy_sum(model, hidden, torch.from_numpy(batch.labels_BT))
    total.backward()
    assert float(total.detach()) == pytest.approx(float(loss), abs=1e-5)
    norms = hidden.grad[0].norm(dim=-1)
    assert (norms[:3] == 0).all() and (norms[6:] == 0).all() and (norms[3:6] > 0).all()


def test_case48_a_row_without_targets_has_zero_loss_and_no_nan(model) -> None:
    store = MemoryStore([([5, 6, 7], [False] * 3), ([8, 9, 10], [True] * 3)], 0, VOCAB)
    (batch,) = iterate_once(store, 2, 2, packing="best-fit")
    masked = int(np.flatnonzero(batch.ids_BT[:, 0] == 5)[0])
    assert (batch.labels_BT[masked] == IGNORE).all()
    names = ("ids_BT", "labels_BT", "positions_BT", "documents_BT")
    alone = Batch(*(getattr(batch, name)[masked : masked + 1] for name in names))
    logits, total = run(model, alone)
    assert float(total) == 0.0 and torch.isfinite(logits).all()
    # A row of nothing but padding is as harmless.
    padding = Batch(
        np.zeros((1, 4), np.int64),
        np.full((1, 4), IGNORE),
        np.zeros((1, 4), np.int64),
        np.full((1, 4), -1),
    )
    logits, total = run(model, padding)
    assert float(total) == 0.0 and torch.isfinite(logits).all()


def test_case48_positions_restart_at_every_span_and_never_reach_the_row_length() -> None:
    store = MemoryStore([([1] * n, [True] * n) for n in (40, 3, 17, 16, 33)], 0, VOCAB)
    for batch in iterate_once(store, 16, 3, packing="best-fit"):
        for positions, documents in zip(batch.positions_BT, batch.documents_BT, strict=True):
            for d in range(int(documents.max()) + 1):
                run_of = positions[documents == d]
                assert run_of.tolist() == list(range(len(run_of)))


def test_case50_documents_in_a_row_are_told_apart() -> None:
    store = MemoryStore(examples(), 0, VOCAB)
    found = list(iterate_once(store, 64, 4, packing="best-fit"))
    assert sum(int((b.documents_BT.max(axis=1) + 1).sum()) for b in found) == len(DOCUMENTS)
