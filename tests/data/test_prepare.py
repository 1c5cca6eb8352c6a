"""From text to shards: round trip, held-out part, reuse, duplicates, bounded memory."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from data_tools import ByteTokenizer

from cerne.data.collect import collect
from cerne.data.config import DataConfig
from cerne.data.prepare import open_prepared, prepare
from cerne.data.shards import Shards
from cerne.errors import DataError, EnvironmentLack


def run(tmp_path, **options):
    options.setdefault("path", str(tmp_path / "a.txt"))
    return prepare(DataConfig(**options), ByteTokenizer(), tmp_path / "out", progress=False)


def text_of(shards: Shards) -> bytes:
    return bytes(i for i in shards.read(0, shards.num_tokens).tolist() if i < 256)


def rows(path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), encoding="utf-8")


def test_one_file_is_cut_at_its_last_tenth_in_bytes(tmp_path) -> None:
    text = "".join(f"line {i} é\n" for i in range(1000))
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    done = run(tmp_path)
    raw = text.encode()
    cut = int(len(raw) * 0.9)
    assert abs(done.train.num_bytes - cut) <= 1
    assert text_of(done.train) + text_of(done.val) == raw
    assert done.train.num_bytes + done.val.num_bytes == len(raw)
    # The cut is inside the document: only the held-out part ends with end-of-document.
    assert done.train.document(0)[-1] != ByteTokenizer.eos_token_id
    assert done.val.document(0)[-1] == ByteTokenizer.eos_token_id
    assert done.train.num_documents == done.val.num_documents == 1


@pytest.mark.parametrize("cut", range(5, 12))
def test_the_cut_never_tears_a_character(tmp_path, cut) -> None:
    (tmp_path / "a.txt").write_text("aé漢🙂bbb🙂", encoding="utf-8")
    done = run(tmp_path, val_fraction=1 - cut / 17 + 1e-9)
    sides = [text_of(side).decode("utf-8") for side in (done.train, done.val)]
    assert "".join(sides) == "aé漢🙂bbb🙂"


def test_many_documents_are_split_by_hash_and_stay_on_their_side(tmp_path) -> None:
    texts = [f"document {i} {'x' * (i % 7)}" for i in range(400)]
    rows(tmp_path / "a.jsonl", texts)
    done = run(tmp_path, path=str(tmp_path / "a.jsonl"), val_fraction=0.2)
    val = {bytes(done.val.document(i)[:-1].tolist()) for i in range(done.val.num_documents)}
    train = {bytes(done.train.document(i)[:-1].tolist()) for i in range(done.train.num_documents)}
    assert train | val == {t.encode() for t in texts}
    assert not train & val
    assert 50 < len(val) < 110
    rows(tmp_path / "a.jsonl", [f"new {i}" for i in range(100)] + texts[::-1])
    again = run(tmp_path, path=str(tmp_path / "a.jsonl"), val_fraction=0.2)
    new_val = {bytes(again.val.document(i)[:-1].tolist()) for i in range(again.val.num_documents)}
    assert {t for t in new_val if t.startswith(b"document")} == val


def test_split_by_document_keeps_one_on_each_side(tmp_path) -> None:
    rows(tmp_path / "a.jsonl", ["one", "two"])
    done = run(tmp_path, path=str(tmp_path / "a.jsonl"), split="documents", val_fraction=0.01)
    assert (done.train.num_documents, done.val.num_documents) == (1, 1)


def test_a_held_out_file_is_used_and_its_documents_leave_training(tmp_path) -> None:
    rows(tmp_path / "a.jsonl", ["one", "two", "three"])
    rows(tmp_path / "v.jsonl", ["two"])
    options = {"path": str(tmp_path / "a.jsonl"), "val_path": str(tmp_path / "v.jsonl")}
    done = run(tmp_path, **options)
    assert text_of(done.train) == b"onethree"
    assert text_of(done.val) == b"two"
    assert done.report["duplicates"]["exact"] == 1
    assert text_of(run(tmp_path, **options, dedup="none").train) == b"onetwothree"
    with pytest.raises(DataError, match="also occurs in val_path"):
        run(tmp_path, path=options["val_path"], val_path=options["val_path"])


def test_the_result_is_reused_until_text_options_or_tokenizer_change(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("some text " * 100, encoding="utf-8")
    first = run(tmp_path)
    assert not first.reused
    again = run(tmp_path)
    assert again.reused and again.train.digest == first.train.digest
    # Packing does not change the shards; cleaning might.
    assert run(tmp_path, packing="stream").reused
    assert not run(tmp_path, normalise=("nfc",)).reused
    other = ByteTokenizer()
    other.digest = "other"
    config = DataConfig(path=str(tmp_path / "a.txt"), normalise=("nfc",))
    assert not prepare(config, other, tmp_path / "out", progress=False).reused
    (tmp_path / "a.txt").write_text("other text " * 100, encoding="utf-8")
    assert not run(tmp_path).reused
    assert text_of(run(tmp_path).train).startswith(b"other text")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_folder_that_holds_something_else_is_not_touched(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("some text", encoding="utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(DataError, match="holds something else"):
        run(tmp_path)
    assert (tmp_path / "out" / "thesis.txt").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path) -> None:
    (tmp_path / "file").write_text("one two three", encoding="utf-8")
    config = DataConfig(path=str(tmp_path / "file"), val_fraction=0)
    with pytest.raises(EnvironmentLack, match="cannot write"):
        prepare(config, ByteTokenizer(), tmp_path / "file" / "out", progress=False)


@pytest.mark.parametrize("content", [b"", b" \n \r\n", b"<|endoftext|>\n<|endoftext|>", b"\x00"])
def test_text_without_a_visible_character_is_an_error(tmp_path, content) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=r"empty|binary"):
        run(tmp_path)
    assert not (tmp_path / "out").exists()


def test_blank_documents_are_left_out_and_cleaning_is_counted(tmp_path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\nb<|endoftext|>  \n<|endoftext|>c\x0b")
    done = run(tmp_path, val_fraction=0)
    assert [bytes(done.train.document(i)[:-1].tolist()) for i in range(2)] == [b"a\nb", b"c"]
    assert done.train.num_documents == 2
    assert done.val is None
    assert done.report["cleaned"] == {"newlines": 1, "control": 1}


def test_dropped_long_documents_leave_no_bytes(tmp_path) -> None:
    long = "word and another " * 400_000
    (tmp_path / "a.txt").write_text("<|endoftext|>".join([long, "x", long, "y"]), encoding="utf-8")
    corpus = collect(
        DataConfig(path=str(tmp_path / "a.txt"), val_fraction=0), tmp_path / "c", progress=False
    )
    assert corpus.num_documents("train") == 3
    assert corpus.text("train") == (long + "xy").encode()
    assert corpus.report["duplicates"]["exact"] == 1


def test_keep_bytes_reaches_the_tokens_unchanged(tmp_path) -> None:
    data = b"caf\xe9 and \xff\xfe, then text"
    (tmp_path / "a.txt").write_bytes(data)
    done = run(tmp_path, errors="keep-bytes", val_fraction=0)
    assert text_of(done.train) == data
    assert done.train.num_bytes == len(data)


def test_a_line_of_50_mb_is_prepared_in_bounded_memory(tmp_path) -> None:
    with open(tmp_path / "a.txt", "wb") as handle:
        for _ in range(50):
            handle.write(b"words, words " * ((1 << 20) // 13))
    tracemalloc.start()
    done = run(tmp_path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size_bytes = (tmp_path / "a.txt").stat().st_size
    assert done.train.num_bytes + done.val.num_bytes == size_bytes
    assert done.train.num_documents == 1
    # Byte ids need 4 bytes each in a batch of 8 MiB of text; the text alone has 50 MB.
    assert peak_bytes < 90 << 20


def test_opening_a_damaged_or_foreign_folder_is_an_error(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("some text " * 100, encoding="utf-8")
    run(tmp_path)
    (tmp_path / "out" / "val" / "tokens-00000.bin").write_bytes(b"xx")
    with pytest.raises(DataError, match="damaged"):
        open_prepared(tmp_path / "out")
    with pytest.raises(DataError, match="not a folder of prepared data"):
        open_prepared(tmp_path)


def test_the_same_input_gives_the_same_files(tmp_path) -> None:
    rows(tmp_path / "a.jsonl", [f"text {i * i} {i % 3}" for i in range(300)])
    config = DataConfig(path=str(tmp_path / "a.jsonl"), dedup="near")
    for name in ("one", "two"):
        prepare(config, ByteTokenizer(), tmp_path / name, progress=False)
    for path in sorted((tmp_path / "one").rglob("*.*")):
        other = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert path.read_bytes() == other.read_bytes()
