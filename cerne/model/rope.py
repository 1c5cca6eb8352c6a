"""Rotary position embeddings: frequencies, tables and the rotation itself.

In: a `ModelConfig` (``rope_theta``, ``rope_scaling``) and integer positions. Out: cosines and sines
    [.., E/2] and rotated queries and keys. Supports the default frequencies (Su et al. 2021,
    arXiv:2104.09864), linear scaling, dynamic NTK, YaRN (Peng et al. 2023, arXiv:2309.00071) and
    Llama 3's scaling, each equal to transformers' ``ROPE_INIT_FUNCTIONS``. Leaves out: longrope and
    partial rotation, which no supported family needs.

The pairing is Hugging Face's: element i of the first half turns with element i of the second half.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from cerne.errors import ConfigError

if TYPE_CHECKING:
    from cerne.model.config import ModelConfig

# Keys of a rope_scaling dictionary per kind: (required, optional).
_KEYS: dict[str, tuple[set[str], set[str]]] = {
    "default": (set(), set()),
    "linear": ({"factor"}, set()),
    "dynamic": ({"factor"}, {"original_max_position_embeddings"}),
    "yarn": (
        {"factor"},
        {
            "original_max_position_embeddings",
            "attention_factor",
            "beta_fast",
            "beta_slow",
            "mscale",
            "mscale_all_dim",
            "truncate",
        },
    ),
    "llama3": (
        {"factor", "low_freq_factor", "high_freq_factor"},
        {"original_max_position_embeddings"},
    ),
}


@dataclass(frozen=True)
class RopeScaling:
    """A checked ``rope_scaling`` dictionary: the kind and its numbers."""

    kind: str
    numbers: dict[str, Any]

    @staticmethod
    def parse(scaling: dict[str, Any] | None, max_position_embeddings: int) -> RopeScaling:
        """Read ``{"rope_type" or "type": kind, ...}``; None is the default kind.

        Raises `ConfigError` for an unknown kind, a missing or unknown key, or a factor below 1.
        """
        given = {key: value for key, value in (scaling or {}).items() if value is not None}
        kinds = {given.pop(key) for key in ("rope_type", "type") if key in given}
        if len(kinds) > 1:
            raise ConfigError(
                "rope_scaling names two kinds",
                value=sorted(kinds),
                allowed="one of rope_type or type",
            )
        kind = kinds.pop() if kinds else "default"
        if kind not in _KEYS:
            raise ConfigError(
                "rope_scaling has a kind that is not supported",
                value=kind,
                allowed=", ".join(_KEYS),
            )
        required, optional = _KEYS[kind]
        missing, unknown = required - given.keys(), given.keys() - required - optional
        if missing or unknown:
            raise ConfigError(
                f"rope_scaling of kind {kind!r} has the wrong keys",
                value=f"missing {sorted(missing)}, unknown {sorted(unknown)}",
                allowed=f"required {sorted(required)}, optional {sorted(optional)}",
            )
        if kind != "default" and not float(given["factor"]) >= 1.0:
            raise ConfigError(
                "rope_scaling factor is out of range", value=given["factor"], allowed=">= 1.0"
            )
        if kind in ("yarn", "llama3"):
            given.setdefault("original_max_position_embeddings", max_position_embeddings)
        if kind == "llama3" and not float(given["low_freq_factor"]) < float(
            given["high_freq_factor"]
        ):
            raise ConfigError(
                "rope_scaling low_freq_factor must be below high_freq_factor",
                value=f"low {given['low_freq_factor']}, high {given['high_freq_factor']}",
                allowed="low < high",
            )
        return RopeScaling(kind, given)


def inverse_frequencies(config: ModelConfig, seq_len: int | None = None) -> tuple[Tensor, float]:
    """Inverse frequencies, float32 [E/2], and the factor that cosines and sines are multiplied by.

    `seq_len` matters only to the dynamic kind, whose base grows once it passes
    ``max_position_embeddings``. Evaluated in float32 with transformers' operation order, so that
    both tables are equal bit for bit.
    """
    scaling = RopeScaling.parse(config.rope_scaling, config.max_position_embeddings)
    numbers, dim, base = scaling.numbers, config.head_dim, config.rope_theta
    exponents = torch.arange(0, dim, 2, dtype=torch.float32) / dim
    if scaling.kind == "dynamic":
        limit = config.max_position_embeddings
        length = limit if seq_len is None else max(seq_len, limit)
        factor = float(numbers["factor"])
        base = base * ((factor * length / limit) - (factor - 1)) ** (dim / (dim - 2))
    plain = 1.0 / (base**exponents)
    if scaling.kind == "linear":
        return plain / float(numbers["factor"]), 1.0
    if scaling.kind == "llama3":
        return _llama3(plain, numbers), 1.0
    if scaling.kind == "yarn":
        return _yarn(base**exponents, base, dim, numbers), _yarn_attention_factor(numbers)
    return plain, 1.0


def _llama3(plain: Tensor, numbers: dict[str, Any]) -> Tensor:
    """Llama 3.1: long wavelengths divided by the factor, short ones kept, a linear blend
    between.
    """
    factor, low, high = (
        float(numbers[key]) for key in ("factor", "low_freq_factor", "high_freq_factor")
    )
    context = numbers["original_max_position_embeddings"]
    wavelength = 2 * math.pi / plain
    scaled = torch.where(wavelength > context / low, plain / factor, plain)
    blend = (context / wavelength - low) / (high - low)
    blended = (1 - blend) * scaled / factor + blend * scaled
    medium = ~(wavelength < context / high) * ~(wavelength > context / low)
    return torch.where(medium, blended, scaled)


def _yarn(powers: Tensor, base: float, dim: int, numbers: dict[str, Any]) -> Tensor:
    """YaRN section 3.2: a ramp over dimensions between interpolated and original frequencies."""
    factor, context = float(numbers["factor"]), numbers["original_max_position_embeddings"]

    def dimension_of(rotations: float) -> float:
        return (dim * math.log(context / (rotations * 2 * math.pi))) / (2 * math.log(base))

    low = dimension_of(float(numbers.get("beta_fast", 32)))
    high = dimension_of(float(numbers.get("beta_slow", 1)))
    if numbers.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = torch.clamp((torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    keep = 1 - ramp
    return (1.0 / (factor * powers)) * (1 - keep) + (1.0 / powers) * keep


def _yarn_attention_factor(numbers: dict[str, Any]) -> float:
    """YaRN section 3.4, with DeepSeek's mscale pair when both are given."""
    if "attention_factor" in numbers:
        return float(numbers["attention_factor"])
    factor = float(numbers["factor"])

    def mscale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if numbers.get("mscale") and numbers.get("mscale_all_dim"):
        return mscale(float(numbers["mscale"])) / mscale(float(numbers["mscale_all_dim"]))
    return mscale(1.0)


def rope_tables(
    config: ModelConfig, num_positions: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Cosines and sines for positions 0 .. num_positions - 1, each float32 [num_positions, E/2].

    The angle is the float32 product of position and frequency, as transformers forms it; its cosine
    is taken in float64 and rounded once, so tables do not depend on the vector width of the
    machine.
    """
    frequencies, factor = inverse_frequencies(config, num_positions)
    angles = torch.arange(num_positions, dtype=torch.float32)[:, None] * frequencies[None, :]
    wide = angles.double()
    cos, sin = wide.cos().float() * factor, wide.sin().float() * factor
    return cos.to(device), sin.to(device)


class RotaryTable(nn.Module):
    """Lazily grown cos/sin tables shared by all layers; not part of the state dict."""

    initial_rows = 32_768

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.dynamic = (
            RopeScaling.parse(config.rope_scaling, config.max_position_embeddings).kind == "dynamic"
        )
        self.cos: Tensor
        self.sin: Tensor
        self.rebuild(
            min(config.max_position_embeddings, self.initial_rows), torch.get_default_device()
        )

    def rebuild(self, num_positions: int, device: torch.device | str) -> None:
        """Compute the tables for `num_positions` positions on `device`."""
        with torch.device("cpu"):
            cos, sin = rope_tables(self.config, num_positions)
        self.register_buffer("cos", cos.to(device), persistent=False)
        self.register_buffer("sin", sin.to(device), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RotaryTable:
        """Move with the model, but stay float32 when the model's dtype changes."""
        super()._apply(fn, recurse)
        if self.cos.dtype != torch.float32:
            self.rebuild(self.cos.shape[0], self.cos.device)
        return self

    def forward(self, positions: Tensor, num_positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines [.., T, E/2] at `positions` ([T] or [B, T], all below
        `num_positions`).
        """
        rows = self.cos.shape[0]
        if num_positions > rows:
            limit = self.config.max_position_embeddings
            self.rebuild(
                num_positions if self.dynamic else min(max(num_positions, 2 * rows), limit),
                self.cos.device,
            )
        elif self.dynamic and rows > self.config.max_position_embeddings and num_positions != rows:
            # Dynamic frequencies belong to one length: shrink back for shorter rows.
            self.rebuild(max(num_positions, self.config.max_position_embeddings), self.cos.device)
        return self.cos[positions], self.sin[positions]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn every pair of `x` [B, H, T, E] by its angle; the dtype of `x` is kept.

    cos and sin are [T, E/2] or [B, 1, T, E/2], float32 at least: a half-precision `x` is turned in
    float32 and rounded once.
    """
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)
