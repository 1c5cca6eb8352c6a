"""Every decoder gives the bits of the gguf package's, and the reader sees what its writer wrote."""

from __future__ import annotations

import lzma
from pathlib import Path

import gguf
import gguf_tools as make
import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType as Type
from real_models import smollm2

from cerne.errors import ModelError
from cerne.native.gguf import GgufFile

DECODED = [
    *(Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1),
    *(Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_NL),
]
# Where a block's binary16 scales and minima begin.
HALVES = {
    **dict.fromkeys((Type.Q8_0, Type.Q4_0, Type.Q5_0, Type.IQ4_NL), (0,)),
    **dict.fromkeys((Type.Q4_1, Type.Q5_1, Type.Q4_K, Type.Q5_K), (0, 2)),
    Type.Q6_K: (208,),
}
# +-0, the smallest and largest denormal, the smallest normal, 1, the largest, infinities, NaNs.
HARD_HALVES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00]
HARD_HALVES += [0x7C01, 0xFE00]


def decoded(path: Path, blocks: npt.NDArray[np.uint8], kind: Type) -> npt.NDArray[np.float32]:
    """The core's values of blocks, uint8 [rows, bytes], written as one tensor."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    width = blocks.shape[1] // size * values
    table = [make.tensor("w", [width, len(blocks)], int(kind), 0)]
    path.write_bytes(make.gguf_bytes([], table, blocks.tobytes()))
    with GgufFile(path) as file:
        assert file.tensors["w"].type == kind.name
        return file.dequantize("w")


def expected(blocks: npt.NDArray[np.uint8], kind: Type) -> npt.NDArray[np.float32]:
    """The gguf package's values of the same blocks."""
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(blocks, kind)


def assert_same_bits(ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32]) -> None:
    """Equal bits, signs of zero included; a NaN equals a NaN, as payloads are the processor's."""
    assert ours.shape == theirs.shape
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    numbers = ~np.isnan(ours)
    np.testing.assert_array_equal(ours.view(np.uint32)[numbers], theirs.view(np.uint32)[numbers])


def random_blocks(kind: Type, rows: int, seed: int) -> npt.NDArray[np.uint8]:
    """Random bytes: every code and every kind of scale, uint8 [rows, 3 blocks]."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    rng = np.random.default_rng([seed, int(kind)])
    return rng.integers(0, 256, (rows, 3 * size), dtype=np.uint8)


@pytest.mark.parametrize("kind", DECODED, ids=lambda kind: kind.name)
def test_random_blocks(kind: Type, tmp_path: Path) -> None:
    blocks = random_blocks(kind, 400, seed=1)
    assert_same_bits(decoded(tmp_path / "x.gguf", blocks, kind), expected(blocks, kind))


@pytest.mark.parametrize("kind", HALVES, ids=lambda kind: kind.name)
def test_hard_scales_with_extreme_codes(kind: Type, tmp_path: Path) -> None:
    size = gguf.GGML_QUANT_SIZES[kind][1]
    rows = []
    for code in (0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0, 0x55):
        for first in HARD_HALVES:
            for second in HARD_HALVES if len(HALVES[kind]) == 2 else HARD_HALVES[:1]:
                block = np.full(size, code, dtype=np.uint8)
                for at, half in zip(HALVES[kind], (first, second), strict=False):
                    block[at : at + 2] = np.array([half], dtype="<u2").view(np.uint8)
                rows.append(block)
    blocks = np.stack(rows)
    assert_same_bits(decoded(tmp_path / "x.gguf", blocks, kind), expected(blocks, kind))


@pytest.mark.parametrize("kind", [Type.F16, Type.BF16], ids=lambda kind: kind.name)
def test_every_half_and_every_bfloat16(kind: Type, tmp_path: Path) -> None:
    blocks = np.arange(65536, dtype="<u2").reshape(256, 256).view(np.uint8)
    ours = decoded(tmp_path / "x.gguf", blocks, kind)
    assert_same_bits(ours, expected(blocks, kind))
    bits = ours.view(np.uint32).reshape(-1)
    if kind == Type.BF16:
        np.testing.assert_array_equal(bits, np.arange(65536, dtype=np.uint32) << 16)
    else:
        # Quiet NaNs with their payload, as the conversion in hardware gives.
        assert bits[0x7C01] == 0x7FC02000
        assert bits[0xFE34] == 0xFFC68000


@pytest.mark.parametrize("kind", DECODED, ids=lambda kind: kind.name)
def test_any_range_of_rows(kind: Type, tmp_path: Path) -> None:
    blocks = random_blocks(kind, 9, seed=2)
    whole = decoded(tmp_path / "x.gguf", blocks, kind)
    with GgufFile(tmp_path / "x.gguf") as file:
        for first, rows in ((0, 1), (3, 4), (8, 1), (0, 9)):
            part = file.dequantize("w", first, rows)
            np.testing.assert_array_equal(
                part.view(np.uint32), whole[first : first + rows].view(np.uint32)
            )


def test_size_and_name_of_every_type(tmp_path: Path) -> None:
    never_in_files = {Type.Q8_1, Type.Q8_K}
    for kind, (values, size) in gguf.GGML_QUANT_SIZES.items():
        table = [make.tensor("w", [2 * values, 3], int(kind), 0)]
        (tmp_path / "x.gguf").write_bytes(make.gguf_bytes([], table, bytes(6 * size)))
        if kind in never_in_files:
            with pytest.raises(ModelError, match=f"unknown type {int(kind)}"):
                GgufFile(tmp_path / "x.gguf")
            continue
        with GgufFile(tmp_path / "x.gguf") as file:
            tensor = file.tensors["w"]
        assert (tensor.type, tensor.num_bytes) == (kind.name, 6 * size)


def test_file_of_the_gguf_packages_writer(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(6, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "w.gguf", "llama")
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_float64("x.f64", 0.1)
    writer.add_bool("x.yes", True)
    writer.add_token_list(["a", "é", "<|end|>"])
    writer.add_token_scores([0.0, -1.5, 2.0])
    writer.add_custom_alignment(128)
    writer.add_tensor("plain", values)
    quantized = gguf.quants.quantize(values, Type.Q8_0)
    writer.add_tensor("packed", quantized, raw_dtype=Type.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with GgufFile(tmp_path / "w.gguf") as file:
        assert_same_reading(file, tmp_path / "w.gguf")
        assert file.statistic("alignment") == 128
        assert file.value("tokenizer.ggml.tokens") == ["a", "é", "<|end|>"]
        np.testing.assert_array_equal(file.dequantize("plain"), values)
        assert file.tensors["packed"].shape == (6, 64)


def assert_same_reading(file: GgufFile, path: Path) -> None:
    """Every key, value and tensor as the gguf package's reader sees it."""
    reader = gguf.GGUFReader(path)
    theirs = {k: f for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    assert list(file.entries) == list(theirs)
    for key, field in theirs.items():
        value = file.value(key)
        assert (value.tolist() if isinstance(value, np.ndarray) else value) == field.contents()
    assert list(file.tensors) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        ours = file.dequantize(tensor.name)
        assert file.tensors[tensor.name].type == tensor.tensor_type.name
        want = expected(tensor.data, tensor.tensor_type)
        assert_same_bits(ours, want.reshape(ours.shape))


def test_vocabulary_file(shared_dir: Path, tmp_path: Path) -> None:
    packed = shared_dir / "data" / "models" / "ggml-vocab-gpt-2.gguf.xz"
    if not packed.is_file():
        pytest.skip(f"no {packed.name} in the shared folder")
    path = tmp_path / "vocab.gguf"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    with GgufFile(path) as file:
        assert file.entries["tokenizer.ggml.tokens"].length > 50_000
        assert_same_reading(file, path)


def test_smollm2_the_real_file() -> None:
    path = smollm2()
    with GgufFile(path) as file:
        kinds = [tensor.type for tensor in file.tensors.values()]
        assert (kinds.count("Q4_1"), kinds.count("F32"), kinds.count("Q8_0")) == (210, 61, 1)
        assert file.tensors["token_embd.weight"].shape == (49152, 576)
        assert_same_reading(file, path)
