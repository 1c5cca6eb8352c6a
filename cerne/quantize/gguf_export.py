"""A model directory as a GGUF source: names, metadata, tokenizer, and tensors one by one.

In: a directory of Llama, Mistral, Qwen2 or Qwen3, ours or transformers'. Out: a `Source` whose file
llama.cpp and the native engine read. Mistral is llama there. What a GGUF file cannot say is refused
or noted. Leaves out the container (gguf_write.py) and the types (mixture.py).

Rows of the query and key matrices of llama files pair neighbours in the rotation; Hugging Face
pairs the halves of a head, so these rows change places on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import torch

from cerne.errors import CheckpointError, ModelError
from cerne.model.config import ModelConfig
from cerne.model.gguf_names import gguf_architecture, gguf_metadata, gguf_tensor_name
from cerne.model.hf import read_config, verify_digests
from cerne.model.rope import RopeScaling, inverse_frequencies
from cerne.model.transformer import Transformer
from cerne.model.weights import iterate_tensors
from cerne.quantize.gguf_tokenizer import tokenizer_fields
from cerne.quantize.source import Field, TensorInfo
from cerne.tokenizer.bpe import Tokenizer

_FLOATS = {
    "attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor",
    "rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
}  # fmt: skip
_TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F32"}
_ROPE_FREQS = "rope_freqs.weight"
_HEAD = "lm_head.weight"


class DirectorySource:
    """A model directory as a source of GGUF metadata and tensors.

    Raises:
        CheckpointError: missing, cut or altered files, or tensors that do not fit config.json.
        ModelError: an architecture, a scaling or a tokenizer that GGUF files cannot say.
    """

    def __init__(self, folder: Path) -> None:
        verify_digests(folder)
        self.config = read_config(folder)
        self._files: dict[str, Any] = {}
        self._stored = _stored_types(folder)
        self._by_name = _hf_names(self.config, self._stored)
        self._folder = folder
        self.architecture = gguf_architecture(self.config)
        tokenizer = Tokenizer.load(folder)
        words, notes = tokenizer_fields(tokenizer, self.config.vocab_size)
        self.fields: Sequence[Field] = [*_general(folder), *_numbers(self.config), *words]
        self.notes: Sequence[str] = [*notes, *_window_notes(self.config)]
        self._factors = _rope_factors(self.config)
        tensors = [
            TensorInfo(name, shape, self._stored[hf_name])
            for name, (hf_name, shape) in self._by_name.items()
        ]
        if self._factors is not None:
            tensors.insert(0, TensorInfo(_ROPE_FREQS, self._factors.shape, "F32"))
        self.tensors: Sequence[TensorInfo] = tensors

    def values(self, name: str) -> npt.NDArray[np.float32]:
        """A tensor by its GGUF name, float32, in the order of rows that GGUF files have."""
        if name == _ROPE_FREQS and self._factors is not None:
            return self._factors
        hf_name, shape = self._by_name[name]
        if not self._files:
            self._open()
        values: npt.NDArray[np.float32] = (
            self._files[hf_name].get_tensor(hf_name).to(torch.float32).numpy().reshape(shape)
        )
        heads = {
            "q_proj": self.config.num_attention_heads,
            "k_proj": self.config.num_key_value_heads,
        }
        for part, count in heads.items():
            if self.architecture == "llama" and f".{part}." in hf_name:
                values = neighbours_from_halves(values, count)
        return values

    def close(self) -> None:
        """Close the files."""
        self._files.clear()

    def _open(self) -> None:
        for path in sorted(self._folder.glob("*.safetensors")):
            handle = safetensors.safe_open(path, framework="pt")
            self._files.update(dict.fromkeys(handle.keys(), handle))


def neighbours_from_halves(
    values: npt.NDArray[np.float32], num_heads: int
) -> npt.NDArray[np.float32]:
    """Rows [H * E, ...] in which rows 2i and 2i + 1 of a head are rows i and i + E/2 of before."""
    halves = values.reshape(num_heads, 2, -1, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def _stored_types(folder: Path) -> dict[str, str]:
    types = {}
    for name, tensor in iterate_tensors(folder):
        if tensor.dtype not in _TYPES:
            raise CheckpointError(
                f"{name} is not a floating-point tensor",
                value=str(tensor.dtype),
                allowed="float32, float16, bfloat16, float64",
            )
        types[name] = _TYPES[tensor.dtype]
    return types


def _hf_names(
    config: ModelConfig, stored: dict[str, str]
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name in the directory and shape by GGUF name, in the order of the architecture."""
    with torch.device("meta"):
        wanted = {
            name: tuple(parameter.shape)
            for name, parameter in Transformer(config).named_parameters()
        }
    surplus = sorted(set(stored) - set(wanted) - ({_HEAD} if config.tie_word_embeddings else set()))
    missing = sorted(set(wanted) - set(stored))
    if surplus or missing:
        raise CheckpointError(
            "the tensors do not fit config.json",
            value=f"missing {missing[:5]}, surplus {surplus[:5]}",
            allowed=f"{len(wanted)} tensors of this architecture",
            hint="check that config.json belongs to these weights",
        )
    return {gguf_tensor_name(name): (name, shape) for name, shape in wanted.items()}


def _general(folder: Path) -> list[Field]:
    return [
        Field("general.type", "model", "string"),
        Field("general.name", folder.resolve().name, "string"),
    ]


def _numbers(config: ModelConfig) -> list[Field]:
    if config.architecture == "qwen3" and config.attention_bias:
        raise ModelError(
            "llama.cpp reads no attention biases in qwen3 files",
            value="attention_bias=true",
            allowed="attention_bias=false",
        )
    architecture = gguf_architecture(config)
    numbers, texts = gguf_metadata(config)
    scaling = RopeScaling.parse(config.rope_scaling, config.max_position_embeddings)
    if scaling.kind == "llama3":
        # The factors of rope_freqs say it all; a second scaling would be applied on top.
        numbers = {key: value for key, value in numbers.items() if "rope.scaling" not in key}
        texts = {}
    if numbers.pop("rope.scaling.truncate", True) is False:
        raise ModelError(
            "llama.cpp always takes whole bounds for YaRN's ramp",
            value="truncate=false",
            allowed="truncate=true",
        )
    if "attention.sliding_window" in numbers:
        window = numbers["attention.sliding_window"]
        numbers["context_length"] = min(numbers["context_length"], window)
    fields = []
    for key, value in numbers.items():
        kind = "float32" if key in _FLOATS else "uint32"
        fields.append(
            Field(f"{architecture}.{key}", float(value) if key in _FLOATS else int(value), kind)
        )
    return fields + [Field(f"{architecture}.{key}", text, "string") for key, text in texts.items()]


def _window_notes(config: ModelConfig) -> list[str]:
    if config.sliding_window is None or config.max_position_embeddings <= config.sliding_window:
        return []
    return [
        f"llama.cpp knows no sliding window here: the context is set to {config.sliding_window}, "
        "within which nothing changes"
    ]


def _rope_factors(config: ModelConfig) -> npt.NDArray[np.float32] | None:
    """What llama.cpp divides each frequency by, float32 [E/2], for Llama 3's scaling."""
    scaling = RopeScaling.parse(config.rope_scaling, config.max_position_embeddings)
    if scaling.kind != "llama3":
        return None
    if gguf_architecture(config) != "llama":
        raise ModelError(
            "llama.cpp reads llama3's rope scaling in llama files only",
            value=config.architecture,
            allowed="llama, mistral",
        )
    plain, _ = inverse_frequencies(config.model_copy(update={"rope_scaling": None}))
    scaled, _ = inverse_frequencies(config)
    factors: npt.NDArray[np.float32] = (plain / scaled).to(torch.float32).numpy()
    return factors
