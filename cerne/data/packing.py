"""Packing: how documents become rows of T tokens, and rows become a Batch.

The unit is a *pair*: an input token and its target, the next token. A row holds at most T pairs, in
*spans* of consecutive targets of one token stream, so no cell is an input without a target, and a
token that ends one row still predicts the first token of the next.
- best-fit: each document is cut into spans of T pairs and a rest, and spans are placed by best fit
  decreasing (Ding et al. 2024, "Fewer Truncations Improve Language Modeling").
- stream: consecutive windows of T pairs over the whole token stream, with no padding.
In both, positions restart at 0 and the document number changes at each span and document begin, so
a span continues a cut document without its earlier context.

The first token of a document has nothing before it. A store with a start token (shards: the
end-of-document token) lets it be predicted from that; without one (conversations) it is only input.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cerne.errors import DataError

IGNORE = -100

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one step; labels are already shifted.

    Attributes:
        ids_BT: int64 input ids, padded with the pad id.
        labels_BT: int64, the target after each position, or IGNORE (-100).
        positions_BT: int64, restarting at 0 in each document.
        documents_BT: int64, 0, 1, 2, ... within a row; -1 is padding.
    """

    ids_BT: Int64
    labels_BT: Int64
    positions_BT: Int64
    documents_BT: Int64

    @property
    def num_valid(self) -> int:
        """Supervised targets."""
        return int((self.labels_BT != IGNORE).sum())

    @property
    def num_tokens(self) -> int:
        """Input tokens that are not padding."""
        return int((self.documents_BT >= 0).sum())

    @property
    def padding_share(self) -> float:
        """Share of cells that are padding, 0 to 1."""
        return 1.0 - self.num_tokens / max(1, self.ids_BT.size)


class TokenStore(Protocol):
    """Tokens of many documents one after the other: Shards, or lists in memory.

    `offsets` is int64 [num_documents + 1]; `read_mask` says which tokens may be targets, or None
    when all may. `start_token_id` is the input before a document's first token, or None.
    """

    offsets: Int64
    num_tokens: int
    vocab_size: int
    pad_token_id: int
    start_token_id: int | None
    digest: str

    def read(self, start: int, stop: int) -> npt.NDArray[Any]: ...


@dataclass(frozen=True, slots=True)
class Rows:
    """A plan of rows: spans of pairs, row after row.

    Row r holds spans splits[r]..splits[r+1]; span s is the pairs whose targets are the tokens
    starts[s]..stops[s] of the store (inputs: one earlier).
    """

    splits: Int64
    starts: Int64
    stops: Int64

    @property
    def num_rows(self) -> int:
        """Rows in the plan."""
        return len(self.splits) - 1

    def select(self, order: Int64) -> Rows:
        """The rows in another order (or some of them)."""
        counts = np.diff(self.splits)[order]
        splits = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        index = np.repeat(self.splits[order] - splits[:-1], counts) + np.arange(splits[-1])
        return Rows(splits, self.starts[index], self.stops[index])

    def slice(self, first: int, stop: int) -> Rows:
        """Rows first..stop."""
        low, high = self.splits[first], self.splits[stop]
        splits = self.splits[first : stop + 1] - low
        return Rows(splits, self.starts[low:high], self.stops[low:high])


def join_rows(parts: list[Rows]) -> Rows:
    """Several plans as one."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([np.diff(part.splits) for part in parts])
    splits = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    starts = np.concatenate([part.starts for part in parts])
    return Rows(splits, starts, np.concatenate([part.stops for part in parts]))


def document_spans(
    offsets: Int64, seq_len: int, started: npt.NDArray[np.bool_]
) -> tuple[Int64, Int64]:
    """Starts and stops of all documents' spans of at most `seq_len` pairs, in document order.

    Args:
        offsets: int64 [num_documents + 1].
        started: bool [num_documents], whether the document's first token is a target.
    """
    first = np.minimum(offsets[:-1] + ~started, offsets[1:])
    counts = -(-(offsets[1:] - first) // seq_len)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.repeat(first, counts) + within * seq_len
    return starts, np.minimum(starts + seq_len, np.repeat(offsets[1:], counts))


def pack_best_fit(starts: Int64, stops: Int64, seq_len: int) -> Rows:
    """Place spans (each at most `seq_len` pairs) into rows by best fit decreasing.

    Equal lengths keep their order and an equally good row is the one opened last, so the result
    is deterministic. Linear in the spans, times the number of distinct free spaces for inserts.
    """
    lengths = stops - starts
    order = np.argsort(-lengths, kind="stable")
    rows: list[list[int]] = []
    with_space: dict[int, list[int]] = {}
    spaces: list[int] = []
    for span, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        at = bisect_left(spaces, length)
        if at == len(spaces):
            row, space = len(rows), seq_len
            rows.append([])
        else:
            space = spaces[at]
            row = with_space[space].pop()
            if not with_space[space]:
                del with_space[space], spaces[at]
        rows[row].append(span)
        left = space - length
        if left > 0:
            if left not in with_space:
                with_space[left] = []
                insort(spaces, left)
            with_space[left].append(row)
    splits = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    flat = np.array([span for row in rows for span in row], np.int64)
    return Rows(splits, starts[flat], stops[flat])


def pack_stream(first: int, stop: int, seq_len: int, phase: int = 0) -> Rows:
    """Consecutive windows of `seq_len` targets over first..stop.

    The first window has `phase` targets when that is not 0 (and fewer than there are).
    """
    inner = np.arange(first + (phase if phase else seq_len), stop, seq_len, dtype=np.int64)
    ends = [stop] if stop > first else []
    bounds = np.concatenate([[first], inner, ends]).astype(np.int64)
    return Rows(np.arange(len(bounds), dtype=np.int64), bounds[:-1], bounds[1:])


def build_batch(store: TokenStore, rows: Rows, seq_len: int) -> Batch:
    """Read the rows' tokens and lay them out.

    Returns:
        A Batch with B = rows.num_rows and T = seq_len.
    Raises:
        DataError: a token id outside the vocabulary (a damaged file).
    """
    B, T = rows.num_rows, seq_len
    lengths = rows.stops - rows.starts
    ends = np.cumsum(lengths)
    firsts = ends - lengths
    total = int(ends[-1]) if len(ends) else 0
    span_of = np.repeat(np.arange(len(lengths)), lengths)
    cell = np.arange(total)
    tokens = _read_spans(store, rows)
    inputs, labels = tokens[cell + span_of], tokens[cell + span_of + 1]
    labels = _masked(store, rows, labels)

    begins = np.zeros(total + 1, bool)
    begins[firsts] = True
    _begin_documents(store, rows, firsts, inputs, labels, begins)
    begins = begins[:total]
    last_begin = np.maximum.accumulate(np.where(begins, cell, 0))
    document = np.cumsum(begins) - 1

    row_of_span = np.repeat(np.arange(B), np.diff(rows.splits))
    row_first = np.concatenate([firsts, [total]])[rows.splits[:-1]]
    row_of = row_of_span[span_of]
    target = row_of * T + cell - row_first[row_of]
    document -= document[np.minimum(row_first, max(0, total - 1))][row_of] if total else 0
    return Batch(
        _laid_out(inputs, target, B, T, store.pad_token_id),
        _laid_out(labels, target, B, T, IGNORE),
        _laid_out(cell - last_begin, target, B, T, 0),
        _laid_out(document, target, B, T, -1),
    )


def _read_spans(store: TokenStore, rows: Rows) -> Int64:
    """For each span its tokens with the one before; before the very first, a filler."""
    bounds = zip(rows.starts.tolist(), rows.stops.tolist(), strict=True)
    parts = []
    for start, stop in bounds:
        if start == 0:
            parts.append(np.zeros(1, np.int64))
        parts.append(store.read(max(0, start - 1), stop))
    tokens = np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)
    if tokens.size and int(tokens.max()) >= store.vocab_size:
        raise DataError(
            "the data hold a token id outside the vocabulary",
            value=int(tokens.max()),
            allowed=f"0 to {store.vocab_size - 1}",
            hint="cerne data inspect FOLDER --verify",
        )
    return tokens


def _masked(store: TokenStore, rows: Rows, labels: Int64) -> Int64:
    read_mask = getattr(store, "read_mask", None)
    if read_mask is None or not len(rows.starts):
        return labels
    bounds = zip(rows.starts.tolist(), rows.stops.tolist(), strict=True)
    mask = np.concatenate([read_mask(start, stop) for start, stop in bounds])
    return np.where(mask, labels, IGNORE)


def _begin_documents(
    store: TokenStore,
    rows: Rows,
    firsts: Int64,
    inputs: Int64,
    labels: Int64,
    begins: npt.NDArray[np.bool_],
) -> None:
    """Where a span's target is the first token of a document: predict it from the start token, or,
    without one, do not predict it. `begins` has one more entry, for what falls behind the end.
    """
    low = np.searchsorted(store.offsets, rows.starts, side="left")
    high = np.searchsorted(store.offsets, rows.stops, side="left")
    counts = high - low
    total = int(counts.sum())
    if not total:
        return
    span = np.repeat(np.arange(len(counts)), counts)
    index = np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(total)
    cell = firsts[span] + store.offsets[index] - rows.starts[span]
    if store.start_token_id is not None:
        inputs[cell] = store.start_token_id
        begins[cell] = True
    else:
        labels[cell] = IGNORE
        begins[cell + 1] = True


def _laid_out(values: Int64, target: Int64, B: int, T: int, fill: int) -> Int64:
    flat = np.full(B * T, fill, np.int64)
    flat[target] = values
    return flat.reshape(B, T)
