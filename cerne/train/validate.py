"""Bits per byte on held-out documents.

Window policy. A document of n tokens is scored as n targets; the first is predicted from the
document-end token alone. Window k scores targets k * stride onwards, `stride` of them, and sees
seq_len - stride tokens more before them. With stride = seq_len (the default, and what training
logs) windows do not overlap and a target sees between 1 and seq_len tokens; a smaller stride gives
targets more context and a lower figure, so a result must say its stride. Each byte is counted once:
bpb = sum of -log2 p over all targets / bytes of the text. Special tokens are neither scored nor
counted (they carry no bytes).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from cerne.model.loss import IGNORE, token_logprobs
from cerne.model.transformer import Transformer

ROW_TOKENS = 8192
# Windows of so many tokens are held at a time (16 bytes each), so that like lengths meet in a row.
HELD_TOKENS = 1 << 20


@dataclass(frozen=True)
class TextScore:
    """A summed log-loss and what it is a sum over."""

    nats: float
    targets: int
    num_bytes: int

    @property
    def bits_per_byte(self) -> float:
        """NaN when there is no byte."""
        return self.nats / math.log(2) / self.num_bytes if self.num_bytes else math.nan

    @property
    def nats_per_token(self) -> float:
        """NaN when there is no target."""
        return self.nats / self.targets if self.targets else math.nan


@dataclass(frozen=True)
class Window:
    """Inputs and the labels of their last `scored` positions."""

    ids_T: NDArray[np.int64]
    labels_T: NDArray[np.int64]


def windows(
    document_T: NDArray[np.integer], start_token: int, seq_len: int, stride: int
) -> Iterator[Window]:
    """Cut one document into scoring windows by the policy above."""
    targets = len(document_T)
    for first in range(0, targets, stride):
        last = min(first + stride, targets)
        begin = max(0, first + stride - seq_len)
        labels_T = document_T[begin:last].astype(np.int64)
        before = [start_token] if begin == 0 else document_T[begin - 1 : begin]
        ids_T = np.concatenate((before, labels_T[:-1])).astype(np.int64)
        labels_T[: first - begin] = IGNORE
        yield Window(ids_T, labels_T)


@torch.no_grad()
def score_documents(
    model: Transformer,
    documents: Iterable[NDArray[np.integer]],
    num_bytes: int,
    *,
    start_token: int,
    seq_len: int,
    stride: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> TextScore:
    """Score documents by the window policy above.

    Args:
        documents: token ids without special tokens.
        num_bytes: bytes of the text of all documents.
        start_token: the document-end token, the context of each first token.
        seq_len: most tokens of context.
        stride: targets scored per window, at most seq_len; None means seq_len.
        dtype: bfloat16 computes under autocast.
    """
    step = seq_len if stride is None else stride
    found = (w for d in documents for w in windows(d, start_token, seq_len, step))
    rows = max(1, ROW_TOKENS // seq_len)
    held = rows * max(1, HELD_TOKENS // (rows * seq_len))
    was_training = model.training
    model.eval()
    nats, targets = 0.0, 0
    try:
        while group := sorted(islice(found, held), key=lambda w: len(w.ids_T)):
            for begin in range(0, len(group), rows):
                sums = _score_rows(model, group[begin : begin + rows], dtype)
                nats, targets = nats + sums[0], targets + sums[1]
    finally:
        model.train(was_training)
    return TextScore(nats, targets, num_bytes)


def _score_rows(
    model: Transformer, rows: Sequence[Window], dtype: torch.dtype
) -> tuple[float, int]:
    width = max(len(w.ids_T) for w in rows)
    ids_BT = np.zeros((len(rows), width), dtype=np.int64)
    labels_BT = np.full((len(rows), width), IGNORE, dtype=np.int64)
    for row, window in enumerate(rows):
        ids_BT[row, : len(window.ids_T)] = window.ids_T
        labels_BT[row, : len(window.ids_T)] = window.labels_T
    device = next(model.parameters()).device
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        hidden_BTD = model(torch.from_numpy(ids_BT).to(device))
        logprobs_BT = token_logprobs(model, hidden_BTD, torch.from_numpy(labels_BT).to(device))
    return -float(logprobs_BT.double().sum()), int((labels_BT != IGNORE).sum())
