"""Token shards: round trip, dtype by vocabulary, damage of every kind is found."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from data_tools import ByteTokenizer

from cerne.data.shards import index_digest, open_shards, token_dtype, write_shards
from cerne.errors import DataError, EnvironmentLack

DOCUMENTS = [[1, 2, 3], [], [257], list(range(200)), [7, 8]]


def test_documents_come_back_whatever_the_shard_size(tmp_path) -> None:
    for shard_tokens in (1, 4, 1000):
        folder = tmp_path / str(shard_tokens)
        shards = write_shards(
            folder, DOCUMENTS, ByteTokenizer(), 9, {"k": 1}, shard_tokens=shard_tokens
        )
        assert [shards.document(i).tolist() for i in range(5)] == DOCUMENTS
        assert shards.num_documents == 5
        assert (shards.num_tokens, shards.num_bytes, shards.meta) == (206, 9, {"k": 1})
        stream = [token for document in DOCUMENTS for token in document]
        for start in (0, 2, 3, 4, 150, 206):
            for stop in (start, start + 1, 204, 206):
                assert shards.read(start, stop).tolist() == stream[start:stop]
    assert len(list((tmp_path / "1").glob("tokens-*.bin"))) == 4


def test_the_digest_names_the_content_not_the_place_or_the_report(tmp_path) -> None:
    first = write_shards(tmp_path / "a", DOCUMENTS, ByteTokenizer(), 9, {"path": "x"})
    second = write_shards(tmp_path / "b", DOCUMENTS, ByteTokenizer(), 9, {"path": "y"})
    other = write_shards(tmp_path / "c", DOCUMENTS[::-1], ByteTokenizer(), 9)
    assert first.digest == second.digest != other.digest


def test_an_id_outside_the_vocabulary_is_refused_on_writing(tmp_path) -> None:
    for bad in (258, -1, 1 << 40):
        with pytest.raises(DataError, match=f"outside the vocabulary; got {bad}"):
            write_shards(tmp_path / "a", [[1, bad]], ByteTokenizer(), 1)
    assert not (tmp_path / "a").exists()


def test_a_tokenizer_without_end_of_document_is_refused(tmp_path) -> None:
    facts = SimpleNamespace(vocab_size=10, eos_token_id=None, pad_token_id=0, digest="x")
    with pytest.raises(DataError, match="end-of-document"):
        write_shards(tmp_path / "a", [[1]], facts, 1)


def test_documents_outside_the_range_are_errors(tmp_path) -> None:
    shards = write_shards(tmp_path / "a", DOCUMENTS, ByteTokenizer(), 9)
    for index in (-1, 5):
        with pytest.raises(DataError, match="no such document"):
            shards.document(index)


@pytest.mark.parametrize("name", ["tokens-00000.bin", "offsets.bin"])
@pytest.mark.parametrize("fault", ["truncated", "longer", "missing", "flipped"])
def test_damaged_files_are_found_on_opening(tmp_path, name, fault) -> None:
    write_shards(tmp_path / "a", DOCUMENTS, ByteTokenizer(), 9)
    path = tmp_path / "a" / name
    data = bytearray(path.read_bytes())
    if fault == "truncated":
        path.write_bytes(data[:-2])
    elif fault == "longer":
        path.write_bytes(data + b"\0\0")
    elif fault == "missing":
        path.unlink()
    else:
        data[10] ^= 1
        path.write_bytes(data)
    with pytest.raises(DataError, match=rf"damaged.*{name}|changed or damaged"):
        open_shards(tmp_path / "a")


def test_large_shards_are_verified_only_when_asked(tmp_path, monkeypatch) -> None:
    write_shards(tmp_path / "a", DOCUMENTS, ByteTokenizer(), 9)
    path = tmp_path / "a" / "tokens-00000.bin"
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    monkeypatch.setattr("cerne.data.shards.VERIFY_BYTES", 10)
    shards = open_shards(tmp_path / "a")
    with pytest.raises(DataError, match="SHA-256"):
        shards.verify()
    with pytest.raises(DataError, match="SHA-256"):
        open_shards(tmp_path / "a", verify=True)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"num_tokens": 207},
        {"num_tokens": -1},
        {"num_documents": 6},
        {"num_bytes": "9"},
        {"vocab_size": 70_000},
        {"dtype": "uint8"},
        {"shards": []},
        {"shards": [{"file": "../x", "num_tokens": 206, "sha256": ""}]},
        {"shards": [{"file": "tokens-00000.bin", "num_tokens": 206}]},
        {"shards": "x"},
        {"offsets": None},
        {"meta": None},
        {"tokenizer_digest": 5},
    ],
)
def test_a_wrong_index_is_an_error_even_with_a_fitting_hash(tmp_path, change) -> None:
    write_shards(tmp_path / "a", DOCUMENTS, ByteTokenizer(), 9)
    path = tmp_path / "a" / "index.json"
    index = {**json.loads(path.read_text(encoding="utf-8")), **change}
    sealed = {**index, "self_sha256": index_digest(index)}
    path.write_text(json.dumps(sealed), encoding="utf-8")
    with pytest.raises(DataError) as raised:
        open_shards(tmp_path / "a")
    assert "it was changed" not in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        {"num_bytes": 10},
        {"eos_token_id": 3},
        {"pad_token_id": 3},
        {"tokenizer_digest": "other"},
        {"meta": {"bad_rows": 0}},
        {"self_sha256": None},
        {"new": 1},
    ],
)
def test_a_plausible_change_of_the_index_is_found(tmp_path, change) -> None:
    write_shards(
        tmp_path / "a", DOCUMENTS, ByteTokenizer(), 9, {"bad_rows": 2, "name": "caf\u00e9"}
    )
    open_shards(tmp_path / "a")
    path = tmp_path / "a" / "index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**index, **change}), encoding="utf-8")
    with pytest.raises(DataError, match=r"index.json: it was changed.*data prepare again"):
        open_shards(tmp_path / "a")


def test_offsets_out_of_order_are_an_error_even_with_a_fitting_hash(tmp_path) -> None:
    import hashlib

    write_shards(tmp_path / "a", DOCUMENTS, ByteTokenizer(), 9)
    payload = np.array([0, 3, 1, 4, 204, 206], "<i8").tobytes()
    (tmp_path / "a" / "offsets.bin").write_bytes(payload)
    path = tmp_path / "a" / "index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    index["offsets"]["sha256"] = hashlib.sha256(payload).hexdigest()
    index["self_sha256"] = index_digest(index)
    path.write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(DataError, match="not in order"):
        open_shards(tmp_path / "a")


def test_folders_that_are_no_shards_say_so(tmp_path) -> None:
    with pytest.raises(DataError, match="not a shard folder"):
        open_shards(tmp_path)
    write_shards(tmp_path / "train", DOCUMENTS, ByteTokenizer(), 9)
    with pytest.raises(DataError, match=f"try: {tmp_path / 'train'}"):
        open_shards(tmp_path)
    (tmp_path / "index.json").write_bytes(b"\xff{")
    with pytest.raises(DataError, match="not valid JSON"):
        open_shards(tmp_path)


def test_a_full_disk_leaves_nothing_and_says_so(tmp_path, monkeypatch) -> None:
    from cerne.data import shards as module

    def full(*args: object, **options: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "open", full, raising=False)
    with pytest.raises(EnvironmentLack, match="No space left"):
        write_shards(tmp_path / "a", DOCUMENTS, ByteTokenizer(), 9)
    assert list(tmp_path.iterdir()) == []


def test_dtype_follows_the_vocabulary() -> None:
    assert token_dtype(1 << 16).str == "<u2"
    assert token_dtype((1 << 16) + 1).str == "<u4"
