"""Which tensor gets which type: llama.cpp's rules, written out here once more by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from cerne.quantize.mixture import choose_types, float_types, held, uses_more_bits
from cerne.quantize.source import TensorInfo


def tensors(
    layers: int, width: int, ffn: int, kv_width: int, tied: bool = True
) -> list[TensorInfo]:
    """The tensors of a llama file."""
    found = [TensorInfo("token_embd.weight", (1000, width), "F32")]
    for i in range(layers):
        shapes = {
            "attn_norm": (width,),
            "attn_q": (width, width),
            "attn_k": (kv_width, width),
            "attn_v": (kv_width, width),
            "attn_output": (width, width),
            "ffn_norm": (width,),
            "ffn_gate": (ffn, width),
            "ffn_up": (ffn, width),
            "ffn_down": (width, ffn),
        }
        found += [TensorInfo(f"blk.{i}.{n}.weight", s, "F32") for n, s in shapes.items()]
    found.append(TensorInfo("output_norm.weight", (width,), "F32"))
    if not tied:
        found.append(TensorInfo("output.weight", (1000, width), "F32"))
    return found


def numbers(layers: int, heads: int = 8, kv_heads: int = 8) -> dict[str, int]:
    return {
        "block_count": layers,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
    }


def kinds(found: list[TensorInfo], target: str, calibrated: bool = False, **more: int) -> dict:
    layers = 1 + max(int(t.name.split(".")[1]) for t in found if t.name.startswith("blk."))
    chosen = choose_types(found, target, numbers(layers, **more), calibrated)
    return {choice.name: choice.kind for choice in chosen}


def test_q4_k_m_of_24_layers() -> None:
    found = kinds(tensors(24, 2048, 5632, 512), "q4_k_m")
    more = {0, 1, 2, 5, 8, 11, 14, 17, 20, 21, 22, 23}
    for i in range(24):
        wanted = "Q6_K" if i in more else "Q4_K"
        assert found[f"blk.{i}.attn_v.weight"] == found[f"blk.{i}.ffn_down.weight"] == wanted
        for part in ("attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up"):
            assert found[f"blk.{i}.{part}.weight"] == "Q4_K"
        assert found[f"blk.{i}.attn_norm.weight"] == "F32"
    assert found["token_embd.weight"] == "Q6_K"
    assert more == {i for i in range(24) if uses_more_bits(i, 24)}


def test_untied_output_gets_the_bits_and_the_embedding_does_not() -> None:
    found = kinds(tensors(8, 256, 512, 256, tied=False), "q5_k_m")
    assert (found["output.weight"], found["token_embd.weight"]) == ("Q6_K", "Q5_K")
    found = kinds(tensors(8, 256, 512, 256, tied=False), "q4_0")
    assert (found["output.weight"], found["token_embd.weight"]) == ("Q6_K", "Q4_0")
    found = kinds(tensors(8, 256, 512, 256, tied=False), "q8_0")
    assert set(found.values()) == {"Q8_0", "F32"}


def test_iq4_nl_and_q4_0_in_the_first_layers() -> None:
    shape = tensors(16, 512, 1024, 128)
    plain = kinds(shape, "iq4_nl", heads=8, kv_heads=2)
    assert [plain[f"blk.{i}.ffn_down.weight"] for i in range(3)] == ["Q5_K", "Q5_K", "IQ4_NL"]
    assert plain["blk.9.attn_v.weight"] == "Q5_K"
    assert kinds(shape, "iq4_nl", heads=8, kv_heads=4)["blk.9.attn_v.weight"] == "IQ4_NL"
    calibrated = kinds(shape, "iq4_nl", calibrated=True)
    assert calibrated["blk.0.ffn_down.weight"] == "IQ4_NL"
    assert kinds(shape, "q4_0")["blk.0.ffn_down.weight"] == "Q4_0"
    calibrated = kinds(shape, "q4_0", calibrated=True)
    assert [calibrated[f"blk.{i}.ffn_down.weight"] for i in range(3)] == ["Q4_1", "Q4_1", "Q4_0"]


def test_seventy_billions() -> None:
    found = kinds(tensors(80, 256, 512, 256), "q4_k_m", heads=64, kv_heads=8)
    assert Counter(found[f"blk.{i}.attn_v.weight"] for i in range(80)) == {"Q6_K": 40, "Q5_K": 40}


def test_case72_widths_that_the_k_types_cannot_hold() -> None:
    chosen = choose_types(tensors(30, 576, 1536, 192), "q4_k_m", numbers(30, 9, 3), False)
    replaced = Counter((c.wanted, c.kind) for c in chosen if c.is_fallback)
    # SmolLM2-135M: q, k, o, gate, up and 16 of 30 v; the other 14 v.
    assert replaced == {("Q4_K", "Q5_0"): 166, ("Q6_K", "Q8_0"): 14}
    assert Counter(c.kind for c in chosen if c.name.endswith("ffn_down.weight")) == {
        "Q6_K": 14,
        "Q4_K": 16,
    }


@pytest.mark.parametrize(
    ("wanted", "width", "kind"),
    [
        ("Q4_K", 512, "Q4_K"),
        ("Q4_K", 576, "Q5_0"),
        ("Q5_K", 96, "Q5_1"),
        ("Q6_K", 128, "Q8_0"),
        ("Q4_0", 96, "Q4_0"),
        ("Q4_0", 100, "F16"),
        ("Q6_K", 100, "F16"),
        ("F32", 7, "F32"),
    ],
)
def test_what_takes_the_place(wanted: str, width: int, kind: str) -> None:
    assert held(wanted, width) == kind


def test_float_targets() -> None:
    found = {c.name: c.kind for c in float_types(tensors(1, 64, 96, 64), "BF16")}
    assert found["blk.0.attn_q.weight"] == "BF16" and found["blk.0.attn_norm.weight"] == "F32"
