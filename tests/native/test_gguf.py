"""The GGUF reader through Python: every value type, and one clear sentence for every damage."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf_tools as make
import numpy as np
import pytest

from cerne.errors import ModelError
from cerne.native.gguf import GgufEntry, GgufFile, GgufTensor
from cerne.native.library import installed_file

F32, F16, Q4_0, Q4_K, Q3_K = 0, 1, 2, 12, 11
ONE = make.tensor("w", [4], F32, 0)


def opened(tmp_path: Path, content: bytes) -> GgufFile:
    """The content as an open file."""
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    return GgufFile(path)


def test_metadata_of_every_type(tmp_path: Path) -> None:
    numbers = {
        "u8": (make.U8, 255),
        "i8": (make.I8, -128),
        "u16": (make.U16, 65535),
        "i16": (make.I16, -32768),
        "u32": (make.U32, 2**32 - 1),
        "i32": (make.I32, -(2**31)),
        "f32": (make.F32, 0.5),
        "bool": (make.BOOL, True),
        "u64": (make.U64, 2**64 - 1),
        "i64": (make.I64, -(2**63)),
        "f64": (make.F64, 0.1),
    }
    entries = [make.entry(key, kind, value) for key, (kind, value) in numbers.items()]
    entries += [make.array(f"{key}s", kind, [value] * 3) for key, (kind, value) in numbers.items()]
    entries += [make.entry("text", make.STRING, "é\n"), make.entry("raw", make.STRING, b"\xff")]
    entries += [make.array("texts", make.STRING, ["a", "", "日本"])]
    entries += [make.array("none", make.STRING, []), make.array("nothing", make.U64, [])]
    with opened(tmp_path, make.gguf_bytes(entries)) as file:
        for key, (_, value) in numbers.items():
            assert file.value(key) == value
            assert type(file.value(key)) is type(value)
            assert file.value(f"{key}s").tolist() == [value] * 3  # type: ignore[union-attr]
        assert file.value("text") == "é\n"
        assert file.value("raw") == "\udcff"
        assert file.value("texts") == ["a", "", "日本"]
        assert file.value("none") == []
        assert file.value("nothing").tolist() == []  # type: ignore[union-attr]
        assert file.entries["texts"] == GgufEntry("string", True, 3)
        assert list(file.entries)[:2] == ["u8", "i8"]
        assert "text" in file
        assert "texte" not in file
        with pytest.raises(ModelError, match=r"no such metadata key.*'texte'.*try: texts?$"):
            file.value("texte")


def test_tensors_and_rows(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.float32)
    table = [make.tensor("a", [4, 3, 2], F32, 0), make.tensor("b", [256, 1], Q3_K, 96)]
    with opened(tmp_path, make.gguf_bytes([], table, values.tobytes() + bytes(110))) as file:
        assert file.tensors["a"] == GgufTensor("a", "F32", (2, 3, 4), 96)
        assert file.tensors["b"].num_bytes == 110
        np.testing.assert_array_equal(file.dequantize("a"), values.reshape(2, 3, 4))
        np.testing.assert_array_equal(file.dequantize("a", 2, 3), values.reshape(6, 4)[2:5])
        np.testing.assert_array_equal(file.dequantize("a", 5), values.reshape(6, 4)[5:])
        assert file.dequantize("a", 6, 0).shape == (0, 4)
        for first, count in ((0, 7), (7, 0), (-1, 1), (0, -1), (2**64, 1)):
            with pytest.raises(ModelError, match="inside its 6"):
                file.dequantize("a", first, count)
        with pytest.raises(ModelError, match=r"'b' has type Q3_K; allowed: F32, .*IQ4_NL, BF16"):
            file.dequantize("b")
        with pytest.raises(ModelError, match="no such tensor"):
            file.dequantize("c")
    with pytest.raises(ModelError, match="the gguf is closed"):
        file.dequantize("a")


def test_a_custom_alignment_moves_the_data(tmp_path: Path) -> None:
    data = struct.pack("<4f", 1, 2, 3, 4)
    metadata = [make.entry("general.alignment", make.U32, 256)]
    with opened(tmp_path, make.gguf_bytes(metadata, [ONE], data, alignment=256)) as file:
        assert file.statistic("alignment") == 256
        assert file.statistic("data_offset") == 256
        assert file.dequantize("w").tolist() == [1, 2, 3, 4]


def test_version_2_is_the_same_format(tmp_path: Path) -> None:
    head = b"GGUF" + struct.pack("<I", 2)
    with opened(tmp_path, make.gguf_bytes([], [ONE], bytes(16), head=head)) as file:
        assert file.statistic("version") == 2
        assert file.dequantize("w").tolist() == [0, 0, 0, 0]


def version(number: int, order: str = "<") -> bytes:
    return make.gguf_bytes(head=b"GGUF" + struct.pack(f"{order}I", number))


def aligned(kind: int, value: int) -> bytes:
    return make.gguf_bytes([make.entry("general.alignment", kind, value)], [ONE], bytes(64))


def with_tensors(*tensors: bytes) -> bytes:
    return make.gguf_bytes([], tensors, bytes(64))


U64_MAX = 2**64 - 1
ANSWER = make.entry("a", make.U8, 1)
WRONG = {
    "nothing": (b"", "not a GGUF file: it begins with ''"),
    "short magic": (b"GGU", "begins with 'GGU'"),
    "magic": (b"GGML" + bytes(60), "begins with 'GGML'; allowed: 'GGUF'"),
    "unprintable": (b"\x00\xff\x1b[" + bytes(60), r"begins with '\\x00\\xff\\x1b\['"),
    "header": (b"GGUF" + bytes(19), "ends inside the header: 23 bytes; allowed: 24 or more"),
    "version 1": (version(1), "GGUF version 1; allowed: 2 and 3"),
    "version 4": (version(4), "GGUF version 4; allowed"),
    "big-endian": (version(3, ">"), "big-endian; allowed: little-endian"),
    "metadata count": (
        make.gguf_bytes([ANSWER], counts=(0, U64_MAX)),
        f"names {U64_MAX} metadata entries; allowed: at most",
    ),
    "tensor count": (
        make.gguf_bytes([], [ONE], counts=(2**60, 0)),
        f"names {2**60} tensors; allowed: at most",
    ),
    "entries missing": (make.gguf_bytes([ANSWER], counts=(0, 2)), "key of metadata entry 1 has 0"),
    "key length": (
        make.gguf_bytes([struct.pack("<Q", U64_MAX) + bytes(60)], counts=(0, 1)),
        f"inside the key of metadata entry 0: {U64_MAX} x 1 bytes wanted at offset 32, ",
    ),
    "long key": (make.gguf_bytes([make.entry("k" * 65536, make.U8, 1)]), "65536 bytes; allowed"),
    "value type": (
        make.gguf_bytes([make.string("a") + struct.pack("<IQ", 13, 0)]),
        "'a' has value type 13; allowed: 0 to 12",
    ),
    "element type": (
        make.gguf_bytes([make.string("a") + struct.pack("<IIQ", make.ARRAY, 99, 0)]),
        "'a' has value type 99",
    ),
    "nested": (
        make.gguf_bytes([make.string("a") + struct.pack("<IIQ", make.ARRAY, make.ARRAY, 0)]),
        "'a' is an array of arrays; allowed: arrays of numbers",
    ),
    "array count": (
        make.gguf_bytes([make.array("a", make.F64, [1.0], count=2**61)]),
        f"inside the value of metadata entry 0: {2**61} x 8 bytes wanted",
    ),
    "string count": (
        make.gguf_bytes([make.array("a", make.STRING, ["b"], count=U64_MAX)]),
        "inside the value of metadata entry 0: 8 bytes wanted",
    ),
    "truth value": (make.gguf_bytes([make.entry("a", make.BOOL, 2)]), "truth value of 2; allowed"),
    "truth values": (make.gguf_bytes([make.array("a", make.BOOL, [0, 3])]), "truth value of 3"),
    "twin keys": (make.gguf_bytes([ANSWER, ANSWER]), "metadata key 'a' occurs twice"),
    "alignment 0": (aligned(make.U32, 0), "alignment is 0; allowed: a power of two, 8 or more"),
    "alignment 24": (aligned(make.U32, 24), "alignment is 24"),
    "alignment type": (aligned(make.U64, 32), "value type 10; allowed: 4"),
    "huge alignment": (aligned(make.U32, 2**31), "inside the 0 bytes of data in the file"),
    "no name": (with_tensors(make.tensor("", [4], F32, 0)), "name of tensor entry 0 has 0 bytes"),
    "long name": (with_tensors(make.tensor("n" * 65, [4], F32, 0)), "65 bytes; allowed: 1 to 64"),
    "twin names": (with_tensors(ONE, ONE), "tensor name 'w' occurs twice"),
    "no dims": (with_tensors(make.tensor("w", [], F32, 0), bytes(24)), "0 dimensions; allowed: 1"),
    "five dims": (with_tensors(make.tensor("w", [1] * 5, F32, 0)), "has 5 dimensions"),
    "zero dim": (with_tensors(make.tensor("w", [4, 0], F32, 0)), "dimension 1 of tensor 'w' is 0"),
    "product": (
        with_tensors(make.tensor("w", [2**32, 2**32, 1], F32, 0)),
        f"dimension 1 of tensor 'w' is {2**32}; allowed: at least 1, and 2.59 values in all",
    ),
    "size": (with_tensors(make.tensor("w", [2**59], 28, 0)), f"need {2**62} bytes at offset 0"),
    "type": (with_tensors(make.tensor("w", [4], 4, 0)), "unknown type 4; decoded are F32, F16"),
    "row width": (
        with_tensors(make.tensor("w", [288], Q4_K, 0)),
        "rows of 288 values; allowed for Q4_K: multiples of 256",
    ),
    "offset": (
        with_tensors(make.tensor("w", [4], F32, 2**63)),
        f"need 16 bytes at offset {2**63}; allowed: inside the 64 bytes",
    ),
    "offset by one row": (with_tensors(make.tensor("w", [4, 3], F32, 32)), "need 48 bytes at"),
    "unaligned": (
        with_tensors(make.tensor("w", [4], F32, 8)),
        "begin at offset 8; allowed: multiples of the alignment 32",
    ),
    "overlap": (
        with_tensors(make.tensor("v", [9], F32, 0), make.tensor("w", [4], F32, 32)),
        "tensors 'v' and 'w' overlap at offset 32",
    ),
    "same place": (with_tensors(ONE, make.tensor("v", [1], F32, 0)), "overlap at offset 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_file_is_one_sentence(name: str, tmp_path: Path) -> None:
    content, sentence = WRONG[name]
    with pytest.raises(ModelError, match=rf"x\.gguf: .*{sentence}"):
        opened(tmp_path, content)


def test_cut_at_every_byte(tmp_path: Path) -> None:
    metadata = [make.entry("a", make.STRING, "b"), make.array("c", make.STRING, ["d", "e"])]
    whole = make.gguf_bytes(metadata, [ONE], struct.pack("<4f", 1, 2, 3, 4))
    for size in range(len(whole)):
        with pytest.raises(ModelError, match=r"ends inside|not a GGUF|allowed: "):
            opened(tmp_path, whole[:size])
    with opened(tmp_path, whole) as file:
        assert file.dequantize("w").tolist() == [1, 2, 3, 4]


def test_what_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="missing: cannot open the file: No such file"):
        GgufFile(tmp_path / "missing")
    with pytest.raises(ModelError, match="not a regular file"):
        GgufFile(tmp_path)


def test_sentence_of_a_hostile_name_is_short_and_printable(tmp_path: Path) -> None:
    name = b"\x1b]0;gone\x07" + b"x" * 55
    with pytest.raises(ModelError) as refusal:
        opened(tmp_path, make.gguf_bytes([], [make.tensor(name, [0], F32, 0)]))
    assert r"'\x1b]0;gone\x07xxx" in str(refusal.value)
    assert str(refusal.value).isprintable()


def test_the_number_of_decoders_is_the_number_promised(tmp_path: Path) -> None:
    # The header's list and the core's table name the same types.
    header = installed_file("include/cerne.h").read_text(encoding="ascii")
    promised = header.split("Types: ")[1].split(";")[0].replace("*", "").split(",")
    file = opened(tmp_path, with_tensors(make.tensor("w", [1], 24, 0)))
    with file, pytest.raises(ModelError) as refusal:
        file.dequantize("w")
    decoded = str(refusal.value).split("allowed: ")[1].split(", ")
    assert sorted(decoded) == sorted(name.strip() for name in promised)
    assert len(decoded) == 12
