"""Which type each tensor gets: llama.cpp's standard mixtures, and what takes the place of a type
that a row cannot hold.

In: tensor names and shapes, the target ("q4_k_m") and the model's shape. Out: a `Choice` a tensor.
The rules are those of llama-quant.cpp (llama.cpp as in llama-cpp-python 0.3.36): matrices get the
target's type, some attention values and feed-forward outputs more bits, the output matrix Q6_K.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cerne.native.quantize import BLOCKS
from cerne.quantize.source import TensorInfo

# Target names and the type of most matrices.
TARGETS = {
    "q8_0": "Q8_0",
    "q6_k": "Q6_K",
    "q5_k_m": "Q5_K",
    "q4_k_m": "Q4_K",
    "q4_0": "Q4_0",
    "iq4_nl": "IQ4_NL",
}
_FALLBACKS = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_LAYER = re.compile(r"blk\.(\d+)\.")


class Choice(NamedTuple):
    """The type of a tensor, and the one that the mixture wanted but its rows cannot hold."""

    name: str
    kind: str
    wanted: str

    @property
    def is_fallback(self) -> bool:
        """Whether the rows' width decided."""
        return self.kind != self.wanted


def is_matrix(tensor: TensorInfo) -> bool:
    """Whether a tensor is quantized at all: matrices are, norms, biases and routers are not."""
    name = tensor.name
    return (
        len(tensor.shape) >= 2
        and name.endswith("weight")
        and "_norm.weight" not in name
        and "ffn_gate_inp.weight" not in name
    )


def choose_types(
    tensors: Sequence[TensorInfo], target: str, numbers: Mapping[str, Any], calibrated: bool
) -> list[Choice]:
    """A choice for each tensor, in the same order. What is no matrix becomes F32.

    Args:
        target: a key of TARGETS.
        numbers: metadata without the architecture: block_count, attention.head_count, ...
        calibrated: importance of columns is at hand.
    """
    tied = all(tensor.name != "output.weight" for tensor in tensors)
    chosen = []
    for tensor in tensors:
        wanted = "F32"
        if is_matrix(tensor):
            wanted = _wanted(tensor, target, numbers, tied, calibrated)
        chosen.append(Choice(tensor.name, held(wanted, tensor.shape[-1]), wanted))
    return chosen


def held(wanted: str, width: int) -> str:
    """The type, or the next one whose blocks divide the width; F16 when none does."""
    kind = wanted
    if width % BLOCKS[kind][0]:
        kind = _FALLBACKS.get(kind, kind)
    return kind if width % BLOCKS[kind][0] == 0 else "F16"


def float_types(tensors: Sequence[TensorInfo], kind: str) -> list[Choice]:
    """All matrices as `kind` (F32, F16, BF16), the rest as F32."""
    return [
        Choice(tensor.name, wanted, wanted)
        for tensor in tensors
        for wanted in [kind if is_matrix(tensor) else "F32"]
    ]


def _wanted(
    tensor: TensorInfo, target: str, numbers: Mapping[str, Any], tied: bool, calibrated: bool
) -> str:
    name, base = tensor.name, TARGETS[target]
    if name == "output.weight" or (tied and name == "token_embd.weight"):
        # A row that the target's blocks do not divide goes to Q8_0 here, not to the fallback.
        return "Q8_0" if base == "Q8_0" or tensor.shape[-1] % BLOCKS[base][0] else "Q6_K"
    found = _LAYER.match(name)
    if found is None:
        return base
    layer, layers = int(found[1]), int(numbers["block_count"])
    heads = int(numbers["attention.head_count"])
    kv_heads = int(numbers.get("attention.head_count_kv", heads))
    if "attn_v.weight" in name:
        return _attention_values(target, base, layer, layers, heads, kv_heads)
    if "ffn_down" in name:
        return _feed_forward_output(target, base, layer, layers, calibrated)
    if "attn_qkv.weight" in name:
        return {"q4_k_m": "Q5_K", "q5_k_m": "Q6_K"}.get(target, base)
    return base


def _attention_values(
    target: str, base: str, layer: int, layers: int, heads: int, kv_heads: int
) -> str:
    if target == "iq4_nl" and heads >= 4 * kv_heads:
        return "Q5_K"
    if target in ("q4_k_m", "q5_k_m") and uses_more_bits(layer, layers):
        return "Q6_K"
    # The 70B shape: eight heads share each value, so more bits cost next to nothing.
    if base == "Q4_K" and layers == 80 and heads != kv_heads:
        return "Q5_K"
    return base


def _feed_forward_output(target: str, base: str, layer: int, layers: int, calibrated: bool) -> str:
    if target in ("q4_k_m", "q5_k_m") and uses_more_bits(layer, layers):
        return "Q6_K"
    if layer < layers // 8:
        if target == "iq4_nl" and not calibrated:
            return "Q5_K"
        if target == "q4_0" and calibrated:
            return "Q4_1"
    return base


def uses_more_bits(layer: int, layers: int) -> bool:
    """The first and last eighth of the layers, and every third between."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
