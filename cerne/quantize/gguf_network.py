"""A GGUF file as a torch `Transformer`, for calibration: the way back of gguf_export.py.

In: a file of llama, qwen2 or qwen3. Out: a network in float32 with decoded weights. Leaves out
gemma3, whose layers the trainer's network does not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cerne.errors import ModelError
from cerne.model.config import ModelConfig
from cerne.model.gguf_names import gguf_tensor_name
from cerne.model.transformer import Transformer
from cerne.native.gguf import GgufFile

ARCHITECTURES = ("llama", "qwen2", "qwen3")


def network_from_gguf(path: str | Path) -> Transformer:
    """Decode a GGUF file into a network in eval mode.

    Raises:
        ModelError: damaged, of another architecture, with a scaling of the rotation, or lacking a
            tensor.
    """
    with GgufFile(path) as file:
        config = _config(file)
        with torch.device("meta"):
            network = Transformer(config)
        network.to_empty(device="cpu")
        network.rope.rebuild(network.rope.cos.shape[0], torch.device("cpu"))
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                values = file.dequantize(gguf_tensor_name(name)).reshape(tuple(parameter.shape))
                if config.architecture == "llama":
                    values = _halves(values, name, config)
                parameter.copy_(torch.from_numpy(values))
        return network.eval()


def halves_from_neighbours(
    values: npt.NDArray[np.float32], num_heads: int
) -> npt.NDArray[np.float32]:
    """The inverse of `gguf_export.neighbours_from_halves`."""
    pairs = values.reshape(num_heads, -1, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)


def _halves(
    values: npt.NDArray[np.float32], name: str, config: ModelConfig
) -> npt.NDArray[np.float32]:
    if ".q_proj." in name:
        return halves_from_neighbours(values, config.num_attention_heads)
    if ".k_proj." in name:
        return halves_from_neighbours(values, config.num_key_value_heads)
    return values


def _config(file: GgufFile) -> ModelConfig:
    architecture = file.value("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelError(
            "calibration does not run this architecture",
            value=architecture,
            allowed=", ".join(ARCHITECTURES),
            hint="quantize without --calibrate",
        )
    if "rope_freqs.weight" in file.tensors or f"{architecture}.rope.scaling.type" in file:
        raise ModelError(
            "calibration does not read the scaled rotation of GGUF files",
            value=str(file.path),
            hint="calibrate on the model directory that the file was made from",
        )

    def number(key: str, default: Any = None) -> Any:
        name = f"{architecture}.{key}"
        return file.value(name) if name in file or default is None else default

    width, heads = number("embedding_length"), number("attention.head_count")
    fields: dict[str, Any] = {
        "architecture": architecture,
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "hidden_size": width,
        "intermediate_size": number("feed_forward_length"),
        "num_hidden_layers": number("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": number("attention.head_count_kv", heads),
        "head_dim": number("attention.key_length", width // heads),
        "max_position_embeddings": number("context_length"),
        "rope_theta": number("rope.freq_base", 10_000.0),
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "attention_bias": "blk.0.attn_q.bias" in file.tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in file.tensors,
    }
    return ModelConfig(**fields)
