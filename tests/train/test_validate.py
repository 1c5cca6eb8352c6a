"""Bits per byte: every target once, the window policy, special cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from train_tools import VOCAB, tiny_model

from cerne.model.loss import IGNORE
from cerne.train import validate
from cerne.train.validate import TextScore, score_documents, windows


@given(length=st.integers(0, 70), seq_len=st.integers(1, 20), stride=st.integers(1, 20))
def test_windows_score_each_token_once_with_its_own_context(
    length: int, seq_len: int, stride: int
) -> None:
    stride = min(stride, seq_len)
    document = np.arange(100, 100 + length)
    full = [7, *document.tolist()]
    scored = []
    for window in windows(document, 7, seq_len, stride):
        assert 1 <= len(window.ids_T) <= seq_len
        for at, label in enumerate(window.labels_T.tolist()):
            if label != IGNORE:
                scored.append(label)
                place = full.index(label)
                context = full[max(0, place - at - 1) : place]
                assert window.ids_T[: at + 1].tolist() == context
                assert len(context) >= min(place, seq_len - stride + 1)
    assert scored == document.tolist()


def test_score_equals_plain_log_probabilities() -> None:
    model = tiny_model()
    documents = [np.arange(1, 30) % VOCAB, np.array([5]), np.array([], np.int64)]
    score = score_documents(model, documents, 90, start_token=2, seq_len=12)
    model.eval()
    nats = 0.0
    for document in documents:
        full = [2, *document.tolist()]
        for begin in range(0, len(document), 12):
            ids = torch.tensor([full[begin : begin + 12]])[:, : len(full) - 1 - begin]
            logits = model.project(model(ids)).log_softmax(-1)[0].double().detach()
            targets = full[begin + 1 : begin + 13]
            nats -= sum(float(logits[i, t]) for i, t in enumerate(targets))
    assert score.targets == 30
    assert score.nats == pytest.approx(nats, rel=1e-6)
    assert score.bits_per_byte == pytest.approx(nats / math.log(2) / 90)
    assert score.nats_per_token == pytest.approx(nats / 30)


def test_an_untrained_model_costs_about_the_logarithm_of_the_vocabulary() -> None:
    document = np.random.default_rng(0).integers(0, VOCAB, 200)
    score = score_documents(tiny_model(), [document], 200, start_token=0, seq_len=16)
    assert score.nats_per_token == pytest.approx(math.log(VOCAB), rel=0.01)


def test_windows_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "ROW_TOKENS", 8)
    documents = [np.arange(n) % VOCAB for n in (9, 1, 30, 4, 17)]
    plain = score_documents(tiny_model(), documents, 61, start_token=2, seq_len=4)
    monkeypatch.setattr(validate, "HELD_TOKENS", 16)
    taken: list[int] = []
    scored: list[int] = []
    score_rows = validate._score_rows

    def rows(model: Any, group: Any, dtype: Any) -> tuple[float, int]:
        scored.append(len(taken))
        return score_rows(model, group, dtype)

    monkeypatch.setattr(validate, "_score_rows", rows)
    stream = (taken.append(len(d)) or d for d in documents)
    streamed = score_documents(tiny_model(), stream, 61, start_token=2, seq_len=4)
    assert streamed.targets == plain.targets == 61
    assert streamed.nats == pytest.approx(plain.nats, rel=1e-6)
    assert scored[0] == 2  # the first four windows are scored before the third document is read


def test_scoring_leaves_mode_and_gradients_alone() -> None:
    model = tiny_model().train()
    score_documents(model, [np.arange(9)], 9, start_token=0, seq_len=4)
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_no_text_is_nan_not_zero() -> None:
    assert math.isnan(TextScore(0.0, 0, 0).bits_per_byte)
    assert math.isnan(TextScore(0.0, 0, 0).nats_per_token)
