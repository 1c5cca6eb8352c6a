"""CASES.md section 4, and the data side of sections 2 and 3: how others' loaders fail."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cerne.data.config import DataConfig
from cerne.data.loader import ConversationLoader, PackedLoader, iterate_once
from cerne.data.memory import MemoryStore
from cerne.data.packing import IGNORE, Batch
from cerne.data.prepare import prepare
from cerne.data.shards import ShardWriter, write_shards
from cerne.errors import DataError
from cerne.tokenizer.bpe import Tokenizer


def store_of(lengths: list[int]) -> MemoryStore:
    starts = np.cumsum([0, *lengths[:-1]])
    examples = [
        (list(range(1 + int(s), 1 + int(s) + n)), [True] * n)
        for s, n in zip(starts, lengths, strict=True)
    ]
    return MemoryStore(examples, pad_token_id=0)


LENGTHS = [3 + (i * 7) % 23 for i in range(60)]


def flat(batch: Batch) -> tuple[bytes, ...]:
    arrays = (batch.ids_BT, batch.labels_BT, batch.positions_BT, batch.documents_BT)
    return tuple(a.tobytes() for a in arrays)


def targets(batches: list[Batch]) -> list[int]:
    return sorted(int(t) for b in batches for t in b.labels_BT.ravel() if t != IGNORE)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["one two three four five " * 20], vocab_size=280)


@pytest.mark.parametrize("packing", ["best-fit", "stream"])
@pytest.mark.parametrize("batch_size", [1, 3, 7, 64])
def test_case11_last_partial_batch_has_the_right_shape(packing, batch_size) -> None:
    store = store_of(LENGTHS)
    batches = list(iterate_once(store, 16, batch_size, packing=packing))
    assert all(b.ids_BT.shape == (batch_size, 16) for b in batches[:-1])
    assert batches[-1].ids_BT.shape[0] in range(1, batch_size + 1)
    loader = PackedLoader(store, 16, batch_size, packing=packing)
    assert {loader.next().ids_BT.shape for _ in range(50)} == {(batch_size, 16)}


@pytest.mark.parametrize("packing", ["best-fit", "stream"])
@pytest.mark.parametrize("world_size", [1, 2])
def test_case15_resume_at_every_step_gives_the_uninterrupted_stream(packing, world_size) -> None:
    store = store_of(LENGTHS)

    def fresh() -> PackedLoader:
        return PackedLoader(store, 16, 3, seed=5, rank=world_size - 1, world_size=world_size,
                            packing=packing)  # fmt: skip

    loader, whole, states = fresh(), [], []
    while loader.epoch < 3:
        states.append(json.dumps(loader.state()))
        whole.append(flat(loader.next()))
    assert len(set(whole)) == len(whole)
    for step in range(len(whole)):
        resumed = fresh()
        resumed.load_state(json.loads(states[step]))
        rest = [flat(resumed.next()) for _ in range(min(6, len(whole) - step))]
        assert rest == whole[step : step + len(rest)]
    # A loader that was used before is set back just as well.
    loader.load_state(json.loads(states[2]))
    assert flat(loader.next()) == whole[2]


@pytest.mark.parametrize("packing", ["best-fit", "stream"])
def test_case16_and_17_the_epoch_boundary_neither_skips_nor_repeats(packing) -> None:
    # Documents of equal length give rows that divide into batches exactly: the boundary case.
    store = store_of([17] * 12)
    loader = PackedLoader(store, 16, 4, packing=packing)
    epochs: list[list[Batch]] = []
    for epoch in range(3):
        batches = []
        while loader.epoch == epoch:
            batches.append(loader.next())
        state = json.loads(json.dumps(loader.state()))
        assert state["position"] == [0, 0] or packing == "stream"
        again = PackedLoader(store, 16, 4, packing=packing)
        again.load_state(state)
        expected = PackedLoader(store, 16, 4, packing=packing)
        for _ in range(sum(map(len, epochs)) + len(batches)):
            expected.next()
        assert flat(again.next()) == flat(expected.next())
        epochs.append(batches)
    if packing == "best-fit":
        for batches in epochs:
            assert targets(batches) == [t for t in range(1, 12 * 17 + 1) if t % 17 != 1]
    assert len({flat(batches[0]) for batches in epochs}) == 3


def test_case21_epochs_count_from_zero_and_advance_by_one() -> None:
    loader = PackedLoader(store_of([9] * 4), 8, 4, packing="best-fit")
    seen = []
    for _ in range(4):
        seen.append(loader.epoch)
        loader.next()
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("packing", ["best-fit", "stream"])
@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_case24_ranks_are_disjoint_and_their_union_is_the_whole_stream(packing, world_size) -> None:
    store = store_of(LENGTHS)
    one = PackedLoader(store, 16, 2 * world_size, packing=packing)
    ranks = [
        PackedLoader(store, 16, 2, rank=r, world_size=world_size, packing=packing)
        for r in range(world_size)
    ]
    for _ in range(12):
        whole = one.next()
        parts = [loader.next() for loader in ranks]
        assert np.array_equal(np.concatenate([p.ids_BT for p in parts]), whole.ids_BT)
        assert np.array_equal(np.concatenate([p.labels_BT for p in parts]), whole.labels_BT)
        assert len({json.dumps(loader.state()) for loader in ranks}) == 1


@pytest.mark.parametrize("accumulate", [1, 2, 4])
def test_case25_steps_times_batch_is_what_is_consumed(accumulate) -> None:
    store = store_of([17] * 32)
    loader = PackedLoader(store, 16, 8 // accumulate, packing="best-fit")
    for _ in range(3):
        for _ in range(accumulate):
            loader.next()
    assert (loader.epoch, loader.state()["position"]) == (0, [0, 24])


def test_case26_dtype_follows_the_vocabulary_and_the_largest_id_is_checked(tmp_path) -> None:
    class Facts:
        pad_token_id, eos_token_id, digest = 0, 1, "x"

        def __init__(self, vocab_size: int) -> None:
            self.vocab_size = vocab_size

    for vocab_size, dtype in ((65_536, "uint16"), (65_537, "uint32"), (128_256, "uint32")):
        folder = tmp_path / str(vocab_size)
        shards = write_shards(folder, [[0, vocab_size - 1]], Facts(vocab_size), 2)
        assert shards.index["dtype"] == dtype
        assert shards.document(0).tolist() == [0, vocab_size - 1]
        with pytest.raises(DataError, match="outside the vocabulary"):
            ShardWriter(tmp_path, Facts(vocab_size)).append([vocab_size])


def test_case26_a_marker_typed_in_the_text_never_becomes_the_end_of_document_token(
    tmp_path, tokenizer
) -> None:
    text = "one <|endoftext|> two <|user|> three <|pad|>"
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}) + "\n", encoding="utf-8")
    config = DataConfig(path=str(tmp_path / "a.jsonl"), val_fraction=0)
    train = prepare(config, tokenizer, tmp_path / "out", progress=False).train
    special = set(tokenizer.special_tokens.values())
    ids = train.document(0).tolist()
    assert [i for i in ids if i in special] == [tokenizer.eos_token_id]
    assert tokenizer.decode(ids[:-1]) == text


@pytest.mark.parametrize("packing", ["best-fit", "stream"])
@pytest.mark.parametrize("seq_len", [1, 8, 64])
def test_case27_lengths_at_and_around_the_row_length(packing, seq_len) -> None:
    T = seq_len
    lengths = [0, 1, T - 1, T, T + 1, T + 2, 2 * T, 2 * T + 1, 2 * T + 2, 5 * T + 3]
    for length in lengths:
        if length > 1:
            assert targets_once([length], T, packing) == expected_targets([length])
    assert targets_once(lengths, T, packing) == expected_targets(lengths)


def targets_once(lengths: list[int], seq_len: int, packing: str) -> list[int]:
    """The targets of one pass; every batch must keep to the row length."""
    store = store_of(lengths)
    batches = list(iterate_once(store, seq_len, 2, packing=packing))
    assert all(b.ids_BT.shape[1] == seq_len for b in batches)
    assert all(int(b.positions_BT.max()) < seq_len for b in batches)
    return targets(batches)


def expected_targets(lengths: list[int]) -> list[int]:
    """Every token but the first of each document."""
    store = store_of(lengths)
    first = set((store.offsets[:-1] + 1).tolist())
    return [t for t in range(1, store.num_tokens + 1) if t not in first]


@pytest.mark.parametrize("kind", ["jsonl", "txt"])
def test_case28_one_file_without_a_validation_set_works(tmp_path, tokenizer, kind) -> None:
    path = tmp_path / f"a.{kind}"
    line = json.dumps({"text": "one two three"}) if kind == "jsonl" else "one two three"
    path.write_text(line + "\n", encoding="utf-8")
    for number, val_fraction in enumerate((0.0, 0.1)):
        config = DataConfig(path=str(path), val_fraction=val_fraction)
        done = prepare(config, tokenizer, tmp_path / f"out{number}", progress=False)
        assert PackedLoader(done.train, 4, 2).next().num_valid > 0
        # A tenth of 13 bytes is one byte: too little to hold out.
        assert done.val is None or val_fraction > 0


def test_case29_three_rows_train(tmp_path, tokenizer) -> None:
    rows = [{"text": t} for t in ("one two", "three", "four five one")]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    config = DataConfig(path=str(path), val_fraction=0)
    train = prepare(config, tokenizer, tmp_path / "out", progress=False).train
    loader = PackedLoader(train, 32, 8)
    batch = loader.next()
    assert batch.ids_BT.shape == (8, 32)
    # Eight rounds of all tokens; the first of a document is a target in about half of them.
    assert 8 * (train.num_tokens - 3) < batch.num_valid < 8 * train.num_tokens
    assert loader.epoch == 8
    (once,) = iterate_once(train, 32, 8)
    assert once.num_valid == train.num_tokens
    conversation = ConversationLoader([([1, 2, 3], [False, True, True])], 16, 8, 0)
    assert conversation.next().num_valid == 16


def test_case49_the_number_of_supervised_tokens_is_the_number_of_labels() -> None:
    store = store_of(LENGTHS)
    expected = sum(n - 1 for n in LENGTHS)
    for packing in ("best-fit", "stream"):
        batches = list(iterate_once(store, 16, 4, packing=packing))
        assert sum(b.num_valid for b in batches) == expected
        for batch in batches:
            # No target on padding, and none from padding (the off-by-one of others).
            assert (batch.labels_BT[batch.documents_BT < 0] == IGNORE).all()
            assert not (batch.labels_BT == store.pad_token_id).any()
    rng = np.random.default_rng(0)
    examples = [(rng.integers(1, 50, n).tolist(), (rng.random(n) < 0.4).tolist()) for n in LENGTHS]
    loader = ConversationLoader(examples, 32, 4, pad_token_id=0)
    batches = list(iterate_once(loader.store, 32, 4, packing="best-fit"))
    counted = sum(sum(mask[1:]) for _, mask in examples)
    assert sum(b.num_valid for b in batches) == loader.num_supervised == counted
