"""What a model is: one frozen record of sizes and switches, with its own accounting.

In: keyword arguments with Hugging Face's field names (``hidden_size``, ``num_key_value_heads``,
    ...).
Out: `ModelConfig`, which checks itself and computes parameters, training FLOPs and key/value bytes
    before anything is built. `cerne/model/hf.py` maps it to and from ``config.json``. Leaves out:
    weights, run-time switches (attention path, activation checkpointing) and everything about
    training.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from cerne.config import Config
from cerne.errors import ConfigError

Architecture = Literal["llama", "mistral", "qwen2", "qwen3"]
LayerType = Literal["full_attention", "sliding_attention"]


class ModelConfig(Config):
    """Shape of one decoder-only transformer. Raises `ConfigError` naming the numbers that do not
    fit.
    """

    architecture: Architecture = "llama"
    vocab_size: int = Field(gt=0)
    hidden_size: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    num_hidden_layers: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    num_key_value_heads: int = Field(
        default_factory=lambda data: int(data["num_attention_heads"]), gt=0
    )
    head_dim: int = Field(
        default_factory=lambda data: int(data["hidden_size"]) // int(data["num_attention_heads"]),
        gt=0,
    )
    max_position_embeddings: int = Field(default=2048, gt=0)
    rope_theta: float = Field(default=10_000.0, gt=1.0)
    rope_scaling: dict[str, Any] | None = None
    rms_norm_eps: float = Field(default=1e-6, gt=0.0, lt=1.0)
    tie_word_embeddings: bool = True
    attention_bias: bool = Field(default_factory=lambda data: data["architecture"] == "qwen2")
    mlp_bias: bool = False
    qk_norm: bool = Field(default_factory=lambda data: data["architecture"] == "qwen3")
    sliding_window: int | None = Field(default=None, gt=0)
    layer_types: tuple[LayerType, ...] | None = None
    initializer_range: float = Field(default=0.02, gt=0.0, lt=1.0)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    bos_token_id: int | None = None
    eos_token_id: int | tuple[int, ...] | None = None
    pad_token_id: int | None = None

    @model_validator(mode="after")
    def _check(self) -> ModelConfig:
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if heads % kv_heads:
            raise ConfigError(
                "num_attention_heads must be a multiple of num_key_value_heads",
                value=f"num_attention_heads={heads}, num_key_value_heads={kv_heads}",
                allowed=f"one of {[n for n in range(1, heads + 1) if heads % n == 0]}",
            )
        if self.head_dim % 2:
            raise ConfigError(
                "head_dim must be even (rotary embeddings turn pairs)",
                value=f"{self.head_dim} (hidden_size={self.hidden_size}, {heads} heads)",
                allowed="an even head_dim",
                hint="set head_dim, or choose hidden_size / num_attention_heads even",
            )
        self._check_family()
        self._check_windows()
        for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
            value = getattr(self, name)
            for token in value if isinstance(value, tuple) else (value,):
                if token is not None and not 0 <= token < self.vocab_size:
                    raise ConfigError(
                        f"{name} is outside the vocabulary",
                        value=token,
                        allowed=f"0 to {self.vocab_size - 1}",
                    )
        from cerne.model.rope import (
            RopeScaling,
        )  # rope.py is torch-free at import; here to keep one direction

        RopeScaling.parse(self.rope_scaling, self.max_position_embeddings)
        return self

    def _check_family(self) -> None:
        """Switches that a family's published architecture fixes; others could not be saved as that
        family.
        """
        fixed: dict[str, dict[str, bool]] = {
            "llama": {"qk_norm": False},
            "mistral": {"qk_norm": False, "attention_bias": False, "mlp_bias": False},
            "qwen2": {"qk_norm": False, "attention_bias": True, "mlp_bias": False},
            "qwen3": {"qk_norm": True, "mlp_bias": False},
        }
        for name, wanted in fixed[self.architecture].items():
            if getattr(self, name) != wanted:
                raise ConfigError(
                    f"architecture {self.architecture!r} has {name}={str(wanted).lower()}",
                    value=f"{name}={str(getattr(self, name)).lower()}",
                    allowed=str(wanted).lower(),
                    hint="qwen3 has qk_norm, qwen2 has attention_bias, llama may have both biases",
                )

    def _check_windows(self) -> None:
        if self.sliding_window is not None and self.architecture == "llama":
            raise ConfigError(
                "architecture 'llama' has no sliding window",
                value=f"sliding_window={self.sliding_window}",
                allowed="none, or architecture mistral, qwen2 or qwen3",
            )
        if self.layer_types is None:
            return
        if len(self.layer_types) != self.num_hidden_layers:
            raise ConfigError(
                "layer_types must name every layer",
                value=f"{len(self.layer_types)} entries for {self.num_hidden_layers} layers",
                allowed=f"{self.num_hidden_layers} entries",
            )
        if "sliding_attention" in self.layer_types and self.sliding_window is None:
            raise ConfigError(
                "layer_types asks for sliding_attention without a sliding_window",
                value=None,
                allowed="an integer > 0",
            )
        if self.architecture in ("llama", "mistral"):
            raise ConfigError(
                f"architecture {self.architecture!r} has the same attention in every layer",
                value="layer_types is set",
                allowed="layer_types only with qwen2 or qwen3",
            )

    def window(self, layer: int) -> int | None:
        """Number of keys (the query's own included) that layer `layer` may see; None means all
        earlier ones.
        """
        if self.sliding_window is None:
            return None
        if self.layer_types is not None and self.layer_types[layer] == "full_attention":
            return None
        return self.sliding_window

    @property
    def output_bias(self) -> bool:
        """Whether o_proj has a bias: Qwen2 has biases on q, k and v only."""
        return self.attention_bias and self.architecture != "qwen2"

    def parameters_by_part(self) -> dict[str, int]:
        """Parameter counts of the built module: embedding, attention, mlp, norms, head (0 when
        tied).
        """
        d, f, e = self.hidden_size, self.intermediate_size, self.head_dim
        q, kv = self.num_attention_heads * e, self.num_key_value_heads * e
        attention = d * q + 2 * d * kv + q * d
        attention += (q + 2 * kv if self.attention_bias else 0) + (d if self.output_bias else 0)
        mlp = 3 * d * f + ((2 * f + d) if self.mlp_bias else 0)
        norms = 2 * d + (2 * e if self.qk_norm else 0)
        layers = self.num_hidden_layers
        return {
            "embedding": self.vocab_size * d,
            "attention": layers * attention,
            "mlp": layers * mlp,
            "norms": layers * norms + d,
            "head": 0 if self.tie_word_embeddings else self.vocab_size * d,
        }

    def num_parameters(self) -> int:
        """Number of parameters of the built module; tied embeddings count once."""
        return sum(self.parameters_by_part().values())

    def mean_keys(self, seq_len: int) -> float:
        """Mean over layers and positions of the number of keys one query sees in a row of `seq_len`
        tokens.
        """
        total = 0.0
        for layer in range(self.num_hidden_layers):
            window = self.window(layer)
            width = seq_len if window is None else min(window, seq_len)
            total += (width * (width + 1) / 2 + (seq_len - width) * width) / seq_len
        return total / self.num_hidden_layers

    def flops_per_token(self, seq_len: int) -> float:
        """Training FLOPs (forward + backward) per token of a row of `seq_len` tokens.

        ``6 * N + 12 * L * H * E * mean_keys``: 2 FLOPs per weight forward and 4 backward for the N
        weights of matrix products (Kaplan et al. 2020, arXiv:2001.08361, section 2.1; the head
        counts once, look-ups and norms not at all), and per key 2 * E for the score plus 2 * E for
        the mix, times 3 (Chowdhery et al. 2022, PaLM, arXiv:2204.02311, appendix B), with the
        causal half really halved. One forward pass is a third.
        """
        parts = self.parameters_by_part()
        weights = parts["attention"] + parts["mlp"] + self.vocab_size * self.hidden_size
        attention = (
            12
            * self.num_hidden_layers
            * self.num_attention_heads
            * self.head_dim
            * self.mean_keys(seq_len)
        )
        return 6.0 * weights + attention

    def kv_bytes_per_token(self, dtype_bytes: int = 4) -> int:
        """Bytes of key/value cache one position takes over all layers."""
        return 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim * dtype_bytes
