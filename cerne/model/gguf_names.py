"""How a model directory's names and numbers are called in GGUF files.

In: a `ModelConfig` and Hugging Face's tensor names. Out: the architecture, the metadata without the
    architecture in front, and tensor names. The native engine and the GGUF writer share it. Leaves
    out the tokenizer's metadata and the tensors' data.
"""

from __future__ import annotations

import math
import re

from cerne.errors import ModelError
from cerne.model.config import ModelConfig
from cerne.model.rope import RopeScaling


class NotNativeError(ModelError):
    """The model has something that neither GGUF files nor the native engine can say."""


_WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_PARTS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")


def gguf_tensor_name(name: str) -> str:
    """The GGUF name of a tensor.

    Raises:
        ModelError: a name that no supported architecture has.
    """
    if name in _WHOLE:
        return _WHOLE[name]
    found = _LAYER.fullmatch(name)
    if found is None or found[2] not in _PARTS:
        raise ModelError("a tensor has no name in GGUF files", value=name)
    return f"blk.{found[1]}.{_PARTS[found[2]]}.{found[3]}"


def gguf_architecture(config: ModelConfig) -> str:
    """GGUF files call Mistral's architecture llama."""
    return "llama" if config.architecture == "mistral" else config.architecture


def gguf_metadata(config: ModelConfig) -> tuple[dict[str, int | float], dict[str, str]]:
    """Numbers and texts of the configuration, by key without the architecture in front.

    Raises:
        NotNativeError: a rotary scaling or a pattern of windows without a form.
    """
    numbers: dict[str, int | float] = {
        "vocab_size": config.vocab_size,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.dimension_count": config.head_dim,
        "rope.freq_base": config.rope_theta,
    }
    windows = {config.window(layer) for layer in range(config.num_hidden_layers)}
    if windows != {None}:
        if len(windows) > 1:
            raise NotNativeError(
                "layers with different sliding windows have no GGUF form",
                value=sorted(windows, key=str),
                allowed="the same window in every layer",
            )
        numbers["attention.sliding_window"] = windows.pop() or 0
    scaled, texts = _rope(config)
    return numbers | scaled, texts


def _rope(config: ModelConfig) -> tuple[dict[str, int | float], dict[str, str]]:
    scaling = RopeScaling.parse(config.rope_scaling, config.max_position_embeddings)
    if scaling.kind == "default":
        return {}, {}
    given = scaling.numbers
    if scaling.kind == "dynamic" or "mscale" in given or "mscale_all_dim" in given:
        raise NotNativeError(
            "this rope_scaling depends on the length of the text or has no GGUF form",
            value=config.rope_scaling,
            allowed="linear, llama3, or yarn without mscale",
        )
    numbers = {"rope.scaling.factor": float(given["factor"])}
    names = {
        "original_max_position_embeddings": "rope.scaling.original_context_length",
        "low_freq_factor": "rope.scaling.low_freq_factor",
        "high_freq_factor": "rope.scaling.high_freq_factor",
        "beta_fast": "rope.scaling.yarn_beta_fast",
        "beta_slow": "rope.scaling.yarn_beta_slow",
        "truncate": "rope.scaling.truncate",
    }
    numbers |= {names[key]: value for key, value in given.items() if key in names}
    if "attention_factor" in given:
        # GGUF files say what multiplies YaRN's own magnitude.
        own = 0.1 * math.log(numbers["rope.scaling.factor"]) + 1.0
        numbers["rope.scaling.attn_factor"] = float(given["attention_factor"]) / own
    return numbers, {"rope.scaling.type": scaling.kind}
