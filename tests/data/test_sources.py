"""Readers: kinds, compression, document separation, bad rows, damaged and hostile files."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import tempfile
import tracemalloc
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from cerne.data.config import DataConfig
from cerne.data.report import RowReport
from cerne.data.sources import find_sources, kind_of, read_documents
from cerne.errors import DataError, EnvironmentLack

TEXTS = ["First: é, 漢字 and 🙂.", "Second\nof two lines.", "Third."]


def documents(path: str | Path | tuple[str, ...], **options: object) -> tuple[list[str], RowReport]:
    """All documents of the sources, pieces joined, and the report."""
    config = DataConfig(path=path if isinstance(path, tuple) else str(path), **options)
    report = RowReport(config.max_bad_fraction)
    found, parts = [], []
    for source in find_sources(config.paths):
        for piece in read_documents(source, config, report):
            parts.append(piece.text)
            if piece.last:
                found.append("".join(parts))
                parts = []
    assert not parts
    report.check()
    return found, report


def compress(data: bytes, kind: str) -> bytes:
    if kind == "gz":
        return gzip.compress(data)
    if kind == "xz":
        return lzma.compress(data)
    if kind == "zst":
        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    return data


def parquet_bytes(columns: dict[str, list[object]]) -> bytes:
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue().to_pybytes()


def jsonl(rows: list[object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.mark.parametrize("packed", ["", "gz", "xz", "zst"])
@pytest.mark.parametrize("kind", ["txt", "jsonl", "json", "parquet"])
def test_every_kind_reads_the_same_documents_plain_or_compressed(tmp_path, kind, packed) -> None:
    data = {
        "txt": "<|endoftext|>\n".join(TEXTS).encode(),
        "jsonl": jsonl([{"text": t} for t in TEXTS]),
        "json": json.dumps([{"text": t} for t in TEXTS]).encode(),
        "parquet": parquet_bytes({"text": TEXTS, "other": [1, 2, 3]}),
    }[kind]
    path = tmp_path / (f"a.{kind}.{packed}" if packed else f"a.{kind}")
    path.write_bytes(compress(data, packed))
    found, report = documents(path)
    assert found == TEXTS
    assert (report.good, report.bad) == (3, 0)


def test_a_json_file_may_hold_one_object_a_line(tmp_path) -> None:
    (tmp_path / "a.json").write_bytes(jsonl([{"text": t} for t in TEXTS]))
    assert documents(tmp_path / "a.json")[0] == TEXTS


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("file", ["a\n\nb\nc<|endoftext|>\n\n\nd\n"]),
        ("<|endoftext|>", ["a\n\nb\nc", "d"]),
        ("paragraph", ["a", "b\nc<|endoftext|>", "d\n"]),
        ("line", ["a", "b", "c<|endoftext|>", "d"]),
        ("b", ["a", "c<|endoftext|>\n\n\nd"]),
    ],
)
def test_text_is_cut_into_documents_as_chosen(tmp_path, document, expected) -> None:
    (tmp_path / "a.txt").write_text("a\n\nb\nc<|endoftext|>\n\n\nd\n", encoding="utf-8")
    found, _ = documents(tmp_path / "a.txt", document=document)
    if document in ("<|endoftext|>", "b"):
        found = [text.rstrip("\n") for text in found]
    if document == "paragraph":
        expected = [text.rstrip("\n") for text in expected]
        found = [text.rstrip("\n") for text in found]
    assert found == expected


def test_windows_line_ends_separate_paragraphs_too(tmp_path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\n\r\nc\r\n \r\n\r\nd")
    assert documents(tmp_path / "a.txt", document="paragraph")[0] == ["a\r\nb", "c", "d"]


def test_separators_across_block_borders_are_found(tmp_path) -> None:
    rng = random.Random(1)
    texts = ["x" * rng.randint(100, 3000) for _ in range(1500)]
    (tmp_path / "a.txt").write_text("<|endoftext|>".join(texts), encoding="utf-8")
    assert documents(tmp_path / "a.txt")[0] == texts


def test_folder_glob_and_list_give_a_fixed_order(tmp_path) -> None:
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden.txt", "image.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name, encoding="utf-8")
    assert documents(tmp_path)[0] == ["a.txt", "b.txt", "sub/c.txt"]
    assert documents(tmp_path / "*.txt")[0] == ["a.txt", "b.txt"]
    assert documents((str(tmp_path / "b.txt"), str(tmp_path / "a.txt")))[0] == ["b.txt", "a.txt"]
    assert documents(tmp_path / "**/c.txt")[0] == ["sub/c.txt"]


def test_a_missing_path_names_the_nearest_and_an_empty_match_is_an_error(tmp_path) -> None:
    (tmp_path / "shakespeare.txt").write_text("x", encoding="utf-8")
    with pytest.raises(DataError, match=r"did you mean .*shakespeare\.txt"):
        find_sources((str(tmp_path / "shakespear.txt"),))
    with pytest.raises(DataError, match="no file matches"):
        find_sources((str(tmp_path / "*.jsonl"),))
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a.png").write_bytes(b"x")
    with pytest.raises(DataError, match="no text file"):
        find_sources((str(tmp_path / "pictures"),))


def test_kind_is_told_by_name_without_compression() -> None:
    assert kind_of(Path("a.jsonl.xz")) == "jsonl"
    assert kind_of(Path("a.PARQUET")) == "parquet"
    assert kind_of(Path("a.v2.txt.gz")) == "text"
    assert kind_of(Path("README")) == "text"


def test_fields_and_messages(tmp_path) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    (tmp_path / "a.jsonl").write_bytes(jsonl([{"story": "Once.", "messages": messages}]))
    assert documents(tmp_path / "a.jsonl", field="story")[0] == ["Once."]
    expected = ["User: Hi\n\nAssistant: Hello."]
    assert documents(tmp_path / "a.jsonl", field="messages")[0] == expected
    (tmp_path / "a.parquet").write_bytes(parquet_bytes({"messages": [messages]}))
    assert documents(tmp_path / "a.parquet", field="messages")[0] == expected
    with pytest.raises(DataError, match=r"no column 'text'.*messages"):
        documents(tmp_path / "a.parquet")


def test_bad_rows_are_counted_with_file_line_and_reason(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        b'{"text": "good"}',
        b'{"text": "unfinished',
        b"[1, 2]",
        b'{"story": "x"}',
        b'{"text": 5}',
        b'{"text": "  "}',
        b'{"text": "caf\xe9"}',
        b'{"text": "\\ud800"}',
        b"",
        b'{"text": ' + b"[" * 100_000,
        b'{"text": ' + b"1" * 5000 + b"}",
        b'{"text": "x", "messages": [{"content": "\\udead"}]}',
        b'{"text": "also good"}',
    ]
    path.write_bytes(b"\n".join(rows))
    found, report = documents(path, max_bad_fraction=0.9)
    assert found == ["good", "also good"]
    assert report.good == 2
    assert report.bad == 10
    reasons = {int(e.removeprefix(f"{path}:").split(":")[0]): e for e in report.examples}
    assert set(reasons) == {2, 3, 4, 5, 6, 7, 8, 10, 11, 12}
    assert "invalid JSON" in reasons[2] and "column" in reasons[2]
    assert "not an object" in reasons[3]
    assert "no field 'text'" in reasons[4] and "story" in reasons[4]
    assert "not text" in reasons[5] and "int" in reasons[5]
    assert "empty" in reasons[6]
    assert "invalid UTF-8" in reasons[7] and "byte 13" in reasons[7]
    assert "lone surrogate" in reasons[8]
    assert "invalid JSON" in reasons[10]
    assert "invalid JSON" in reasons[11] and "limit" in reasons[11]
    assert "lone surrogate" in reasons[12]
    replaced, report = documents(path, max_bad_fraction=0.9, errors="replace")
    assert replaced == ["good", "caf\ufffd", "\ufffd", "x", "also good"]
    assert report.notes["rows with lone surrogates replaced"] == 2


def test_too_many_bad_rows_are_an_error_that_names_the_first(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl([{"text": "x"}] * 98 + [{"txt": "x"}] * 2))
    with pytest.raises(DataError, match=r"2 of 100 rows.*a\.jsonl:99.*no field 'text'.*txt"):
        documents(path)
    assert len(documents(path, max_bad_fraction=0.02)[0]) == 98


def test_parquet_rows_that_are_null_or_invalid_utf8_are_reported(tmp_path) -> None:
    raw = pyarrow.array([b"good", b"caf\xe9", None], pyarrow.binary())
    strings = pyarrow.StringArray.from_buffers(
        3, raw.buffers()[1], raw.buffers()[2], raw.buffers()[0], raw.null_count
    )
    (tmp_path / "a.parquet").write_bytes(parquet_bytes({"text": strings}))
    found, report = documents(tmp_path / "a.parquet", max_bad_fraction=1.0)
    assert found == ["good"]
    assert [e.split(".parquet:")[1][:16] for e in report.examples] == [
        "2: invalid UTF-8",
        "3: field 'text' ",
    ]
    kept, _ = documents(tmp_path / "a.parquet", max_bad_fraction=1.0, errors="keep-bytes")
    assert kept[1].encode("utf-8", "surrogateescape") == b"caf\xe9"


@pytest.mark.parametrize("offset", [0, 7, (1 << 20) - 1, 1 << 20, (1 << 20) + 5])
def test_invalid_utf8_in_text_follows_the_policy_and_names_the_offset(tmp_path, offset) -> None:
    data = bytearray(b"ab d" * ((1 << 18) + 100))
    data[offset : offset + 1] = b"\xff"
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(DataError, match=f"byte offset {offset};"):
        documents(path)
    replaced, report = documents(path, errors="replace")
    assert replaced == [data.decode("utf-8", "replace")]
    assert report.notes["invalid UTF-8 bytes (replace)"] == 1
    kept, report = documents(path, errors="keep-bytes")
    assert kept[0].encode("utf-8", "surrogateescape") == bytes(data)
    assert report.notes["invalid UTF-8 bytes (keep-bytes)"] == 1


def test_a_character_cut_by_the_end_of_the_file_is_invalid(tmp_path) -> None:
    (tmp_path / "a.txt").write_bytes("abc🙂".encode()[:-1])
    with pytest.raises(DataError, match="byte offset 3"):
        documents(tmp_path / "a.txt")


def test_characters_across_block_borders_survive(tmp_path) -> None:
    text = "é漢🙂a" * 300_000
    (tmp_path / "a.txt").write_text("\ufeff" + text, encoding="utf-8")
    assert documents(tmp_path / "a.txt")[0] == [text]


def test_empty_files_are_reported_and_alone_yield_nothing(tmp_path) -> None:
    for name in ("a.txt", "b.jsonl", "c.json"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "d.parquet").write_bytes(parquet_bytes({"text": pyarrow.array([], "string")}))
    found, report = documents(tmp_path)
    assert found == []
    assert report.notes["empty files"] == 4
    assert len(report.examples) == 4


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.json"])
@pytest.mark.parametrize("errors", ["strict", "replace", "keep-bytes"])
def test_binary_noise_is_refused_whatever_the_policy(tmp_path, name, errors) -> None:
    (tmp_path / name).write_bytes(random.Random(0).randbytes(100_000))
    with pytest.raises(DataError, match="binary"):
        documents(tmp_path / name, errors=errors)


def test_utf16_and_parquet_under_a_text_name_are_named(tmp_path) -> None:
    (tmp_path / "a.txt").write_bytes("hello".encode("utf-16"))
    with pytest.raises(DataError, match=r"UTF-16.*iconv"):
        documents(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_bytes(parquet_bytes({"text": ["x"]}))
    with pytest.raises(DataError, match="Parquet"):
        documents(tmp_path / "b.txt")


@pytest.mark.parametrize(
    ("packed", "fault"),
    [(k, f) for k in ("gz", "xz", "zst") for f in ("truncated", "flipped", "misnamed")],
)
def test_damaged_compressed_files_are_errors_never_shorter_text(tmp_path, packed, fault) -> None:
    text = " ".join(str(i * i) for i in range(30_000)).encode()
    data = bytearray(compress(text, packed))
    if (packed, fault) == ("zst", "flipped"):
        # A zstd frame need not carry a checksum; a broken header is what can be seen.
        data[4] ^= 0xFF
        fault = ""
    if fault == "truncated":
        data = data[: len(data) * 2 // 3]
    elif fault == "flipped":
        data[len(data) // 2] ^= 0xFF
    elif fault == "misnamed":
        data = bytearray(text)
    path = tmp_path / f"a.txt.{packed}"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"truncated or damaged|not .* data|invalid UTF-8|binary"):
        documents(path)


def test_damaged_parquet_is_an_error(tmp_path) -> None:
    data = parquet_bytes({"text": [f"row {i}" for i in range(5000)]})
    for number, bad in enumerate(
        [data[: len(data) // 2], data[:8], b"PAR1" + bytes(100) + b"PAR1"]
    ):
        path = tmp_path / f"{number}.parquet"
        path.write_bytes(bad)
        with pytest.raises(DataError, match=r"truncated or damaged"):
            documents(path)


@pytest.mark.parametrize("rows", [1, 200_000])
def test_a_full_temporary_disk_is_not_called_a_damaged_file(tmp_path, monkeypatch, rows) -> None:
    path = tmp_path / "a.parquet.gz"
    path.write_bytes(gzip.compress(parquet_bytes({"text": [f"row {i}" for i in range(rows)]})))
    assert len(documents(path, dedup="none")[0]) == rows
    full_disk = open("/dev/full", "wb")  # noqa: SIM115 - closed by the reader
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: full_disk)
    with pytest.raises(EnvironmentLack, match="cannot write: No space left on device"):
        documents(path)
    assert full_disk.closed


def test_the_first_bad_row_is_a_row_and_no_empty_file(tmp_path) -> None:
    _written(tmp_path / "a.jsonl", b"")
    _written(tmp_path / "b.jsonl", b'{"text": "good"}\n[1]\n{"text": 5}\n')
    with pytest.raises(DataError, match=r"2 of 3 rows cannot be used, first .*b\.jsonl:2: not an"):
        documents((str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")))


def test_unreadable_files_are_data_errors(tmp_path) -> None:
    source = find_sources((str(_written(tmp_path / "a.txt", b"x")),))[0]
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DataError, match="cannot read"):
        source.digest()
    with pytest.raises(DataError, match="cannot read"):
        list(read_documents(source, DataConfig(path="a.txt"), RowReport()))


def test_long_lines_and_an_expansion_bomb_are_read_in_bounded_memory(tmp_path) -> None:
    line = _written(tmp_path / "line.txt", b"word and " * (2 << 20))
    spaceless = _written(tmp_path / "spaceless.txt", b"x" * (12 << 20))
    bomb = _written(tmp_path / "bomb.txt.gz", gzip.compress(b"a" * (64 << 20), 6))
    for path, size_bytes in ((line, line.stat().st_size), (spaceless, 12 << 20), (bomb, 64 << 20)):
        config, report, total = DataConfig(path=str(path)), RowReport(), 0
        tracemalloc.start()
        for piece in read_documents(find_sources(config.paths)[0], config, report):
            total += len(piece.text)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert total == size_bytes
        assert report.good == 1
        assert peak_bytes < 28 << 20


def test_the_built_in_world_is_a_source() -> None:
    found, _ = documents("world:en?documents=3&seed=5")
    assert len(found) == 3 and len(set(found)) == 3
    assert found == documents("world:en?documents=4&seed=5")[0][:3]
    assert found != documents("world:en?documents=3&seed=6")[0]
    first, second = find_sources(("world:en?documents=3", "world:en?documents=3&seed=1"))
    assert first.digest() != second.digest()
    for bad in ("world:xx", "world:en?documents=0", "world:en?sead=1", "world:en?seed=x"):
        with pytest.raises(DataError, match="address of the built-in world"):
            find_sources((bad,))


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
