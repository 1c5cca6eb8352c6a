"""The encoders through Python: the gguf package decodes, plain rounding is the bar, bad values."""

from __future__ import annotations

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGMLQuantizationType as Type
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cerne.errors import InputError, ModelError
from cerne.native.quantize import BLOCKS, quantize_rows, row_bytes

QUANTIZED = [kind for kind in BLOCKS if kind not in ("F32", "F16", "BF16")]


def decoded(blocks: npt.NDArray[np.uint8], kind: str) -> npt.NDArray[np.float32]:
    """Values of blocks by the gguf package."""
    return gguf.quants.dequantize(blocks, Type[kind]).astype(np.float32)


def error(values: npt.NDArray[np.float32], got: npt.NDArray[np.float32]) -> float:
    """Root mean square error."""
    return float(np.sqrt(np.mean((values.astype(np.float64) - got) ** 2)))


def test_sizes_are_those_of_the_format() -> None:
    for kind, size in BLOCKS.items():
        assert gguf.GGML_QUANT_SIZES[Type[kind]] == size
        assert row_bytes(kind, 512) == 512 // size[0] * size[1]


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_float_types_are_the_packages(kind: str) -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 60_000, dtype=np.uint32)
    values = bits.view(np.float32)
    limit = {"F32": 3.4e38, "F16": 65504.0, "BF16": 3.3e38}[kind]
    values = values[np.isfinite(values) & (np.abs(values) <= limit)][:8192].reshape(32, 256)
    theirs = gguf.quants.quantize(values, Type[kind])
    np.testing.assert_array_equal(quantize_rows(values, kind), theirs.view(np.uint8))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
@pytest.mark.parametrize("shape", ["normal", "laplace", "standard_t"])
def test_error_is_smaller_than_that_of_rounding_to_the_range(kind: str, shape: str) -> None:
    rng = np.random.default_rng(2)
    drawn = (
        rng.standard_t(4, (64, 512))
        if shape == "standard_t"
        else getattr(rng, shape)(size=(64, 512))
    )
    values = (0.02 * drawn).astype(np.float32)
    theirs = error(values, decoded(gguf.quants.quantize(values, Type[kind]), kind))
    assert error(values, decoded(quantize_rows(values, kind), kind)) < 0.98 * theirs


def test_more_bits_give_smaller_errors() -> None:
    values = np.random.default_rng(3).normal(size=(64, 512)).astype(np.float32)
    errors = {kind: error(values, decoded(quantize_rows(values, kind), kind)) for kind in BLOCKS}
    order = ["F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_0", "Q4_K", "IQ4_NL", "Q4_0"]
    assert sorted(order, key=errors.__getitem__) == order


@pytest.mark.parametrize("kind", QUANTIZED)
@given(
    values=arrays(
        np.float32,
        (1, 256),
        elements=st.floats(-65504, 65504, width=32, allow_subnormal=True),
    )
)
@settings(max_examples=30, deadline=None)
def test_any_finite_values_decode_near_themselves(
    kind: str, values: npt.NDArray[np.float32]
) -> None:
    got = decoded(quantize_rows(values, kind), kind)
    assert np.isfinite(got).all()
    # Groups share a scale in the K formats: their finest step follows the largest of 256 values.
    peak = np.abs(values).max()
    assert np.abs(got - values).max() <= 0.13 * peak + 2.0**-21


@pytest.mark.parametrize("kind", QUANTIZED)
def test_encoding_decoded_values_again_changes_next_to_nothing(kind: str) -> None:
    values = np.random.default_rng(4).normal(size=(32, 512)).astype(np.float32)
    once = decoded(quantize_rows(values, kind), kind)
    twice = decoded(quantize_rows(once, kind), kind)
    assert error(once, twice) < 0.3 * error(values, once)


def test_importance_moves_errors_to_unimportant_columns() -> None:
    values = np.random.default_rng(5).normal(size=(64, 256)).astype(np.float32)
    importance = np.full(256, 0.01, dtype=np.float32)
    importance[::8] = 5.0
    for kind in ("Q4_0", "Q4_K", "Q6_K", "IQ4_NL"):
        plain = decoded(quantize_rows(values, kind), kind)[:, ::8]
        weighted = decoded(quantize_rows(values, kind, importance), kind)[:, ::8]
        assert error(values[:, ::8], weighted) < 0.9 * error(values[:, ::8], plain)


def test_bytes_do_not_depend_on_threads_or_on_the_scale_of_importance() -> None:
    values = np.random.default_rng(6).normal(size=(400, 512)).astype(np.float32)
    importance = np.random.default_rng(7).random(512).astype(np.float32)
    one = quantize_rows(values, "Q4_K", importance, threads=1)
    np.testing.assert_array_equal(one, quantize_rows(values, "Q4_K", importance, threads=3))
    np.testing.assert_array_equal(one, quantize_rows(values, "Q4_K", importance * 2.0**40))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 70_000.0])
def test_values_that_no_type_holds_are_named(wrong: float) -> None:
    values = np.zeros((3, 256), dtype=np.float32)
    values[2, 5] = wrong
    for kind in (*QUANTIZED, "F16"):
        with pytest.raises(ModelError, match="row 2, column 5"):
            quantize_rows(values, kind)


def test_what_a_caller_gets_wrong_is_refused() -> None:
    values = np.zeros((2, 96), dtype=np.float32)
    with pytest.raises(InputError, match=r"no encoder of this type.*Q4_K"):
        quantize_rows(values, "Q4K")
    with pytest.raises(InputError, match="cannot be Q4_K; got 96; allowed: a multiple of 256"):
        quantize_rows(values, "Q4_K")
    with pytest.raises(InputError, match="another length"):
        quantize_rows(values, "Q4_0", np.ones(95, dtype=np.float32))
    with pytest.raises(ModelError, match="importance of column 1"):
        quantize_rows(values, "Q4_0", np.array([1, np.nan, *[1] * 94], dtype=np.float32))
    with pytest.raises(InputError, match="threads"):
        quantize_rows(values, "Q4_0", threads=0)


def test_what_the_progress_function_raises_comes_out() -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize_rows(np.zeros((2, 64), dtype=np.float32), "Q8_0", progress=stop)
