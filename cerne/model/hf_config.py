"""``config.json`` of Llama, Mistral, Qwen2 and Qwen3 to `ModelConfig` and back.

In: the parsed JSON, as transformers 4 or 5 writes it. Out: a `ModelConfig`, or JSON that both
    versions read. Every field is in exactly one of the tables below (read, must have one value, or
    ignored for a stated reason); any other field is an error that names it. Leaves out: files and
    tensors (hf.py).
"""

from __future__ import annotations

from typing import Any

from cerne.config import build
from cerne.errors import ModelError
from cerne.model.config import ModelConfig

ARCHITECTURES: dict[str, str] = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}

# Fields that every file must give: transformers' own default for them is one particular large
# model.
_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)

# What transformers assumes when the field is absent, per family (transformers 5.24 configuration
# classes).
_COMMON_DEFAULTS: dict[str, Any] = {
    "rms_norm_eps": 1e-6,
    "initializer_range": 0.02,
    "tie_word_embeddings": False,
    "attention_dropout": 0.0,
    "pad_token_id": None,
}
_FAMILY_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {
        "max_position_embeddings": 2048,
        "num_key_value_heads": None,
        "head_dim": None,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "mistral": {
        "max_position_embeddings": 131_072,
        "num_key_value_heads": 8,
        "head_dim": None,
        "sliding_window": 4096,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "qwen2": {
        "max_position_embeddings": 32_768,
        "num_key_value_heads": 32,
        "head_dim": None,
        "bos_token_id": None,
        "eos_token_id": None,
    },
    "qwen3": {
        "max_position_embeddings": 32_768,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "attention_bias": False,
        "bos_token_id": None,
        "eos_token_id": None,
    },
}

# Read by code of their own below.
_HANDLED = {
    "model_type", "architectures", "rope_theta", "rope_scaling", "rope_parameters",
    "use_sliding_window", "sliding_window", "max_window_layers", "layer_types",
}  # fmt: skip

# Fields whose other values would change the arithmetic in a way this model does not implement.
_FIXED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", "swish"),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_encoder_decoder": (False,),
    "cross_attention_hidden_size": (None,),
    "chunk_size_feed_forward": (0,),
    "pruned_heads": ({}, None),
    "per_layer_config": (None, {}),
    "tie_last_hidden_states": (None, True),
    "partial_rotary_factor": (None, 1, 1.0),
    "rope_interleaved": (False,),
    "qkv_bias": (None, True),
    "no_bias": (None,),
    "quantization_config": (None,),
    "auto_map": (None, {}),
    "is_decoder": (False, True),
    "prefix": (None,),
}

# Fields that do not change what the model computes: reason, names.
_IGNORED_BY_REASON: dict[str, str] = {
    "where the file came from": "transformers_version _name_or_path name_or_path _commit_hash",
    "a tool's stamp": "unsloth_version unsloth_fixed is_llama_config transformers.js_config",
    "the tensors carry their own dtype": "dtype torch_dtype",
    "how a caller runs it": "use_cache return_dict output_attentions output_hidden_states"
    " torchscript _attn_implementation attn_implementation _attn_implementation_autoset "
    " use_bfloat16 tf_legacy_loss",
    "splits one matrix product; same result up to rounding": "pretraining_tp",
    "classification heads only": "id2label label2id num_labels problem_type finetuning_task"
    " task_specific_params",
    "the tokenizer's files say it": "tokenizer_class sep_token_id decoder_start_token_id"
    " forced_bos_token_id forced_eos_token_id",
    "a sampling default, given at generation": "max_length min_length do_sample early_stopping"
    " num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p"
    " repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size"
    " bad_words_ids num_return_sequences output_scores return_dict_in_generate"
    " remove_invalid_values exponential_decay_length_penalty suppress_tokens"
    " begin_suppress_tokens",
}
_IGNORED = {name for names in _IGNORED_BY_REASON.values() for name in names.split()}


def config_from_hf(content: dict[str, Any]) -> ModelConfig:
    """Read a parsed ``config.json``.

    Raises `ModelError` naming the field and its value when it is unknown, unsupported or missing,
    and `ConfigError` when the numbers do not fit together.
    """
    family = content.get("model_type")
    if family not in ARCHITECTURES:
        raise ModelError(
            "model_type is not supported", value=family, allowed=", ".join(ARCHITECTURES)
        )
    wanted = ARCHITECTURES[family]
    if content.get("architectures") not in (None, [wanted]):
        raise ModelError(
            "architectures is not a causal language model of this family",
            value=content["architectures"],
            allowed=wanted,
        )
    missing = [name for name in _REQUIRED if content.get(name) is None]
    if missing:
        raise ModelError(
            "config.json lacks a size", value=missing, allowed=f"all of {', '.join(_REQUIRED)}"
        )
    defaults = {**_COMMON_DEFAULTS, **_FAMILY_DEFAULTS[family]}
    fields: dict[str, Any] = {name: content[name] for name in _REQUIRED}
    fields |= {
        name: content.get(name, value) for name, value in defaults.items() if name not in _HANDLED
    }
    _check_coverage(content, set(fields))
    # null means "derive" for these two, as in transformers.
    for name in ("num_key_value_heads", "head_dim"):
        if fields[name] is None:
            del fields[name]
    fields |= _rope(content)
    fields |= _windows(content, family, int(content["num_hidden_layers"]))
    if isinstance(fields["eos_token_id"], list):
        fields["eos_token_id"] = tuple(fields["eos_token_id"])
    return build(ModelConfig, {"architecture": family, **fields}, source="config.json")


def _check_coverage(content: dict[str, Any], read: set[str]) -> None:
    """Every field is read, fixed or ignored on purpose."""
    for name, value in content.items():
        if name in _FIXED:
            if value not in _FIXED[name]:
                raise ModelError(
                    f"config.json: {name} has a value this model does not implement",
                    value=value,
                    allowed=" or ".join(repr(v) for v in _FIXED[name]),
                )
        elif name not in read and name not in _HANDLED and name not in _IGNORED:
            raise ModelError(
                f"config.json has a field that is not mapped: {name}",
                value=value,
                allowed=f"the fields of {content['model_type']} in transformers",
                hint="if it does not change the arithmetic, remove it from config.json",
            )


def _rope(content: dict[str, Any]) -> dict[str, Any]:
    """rope_theta and rope_scaling from either spelling; transformers 5 keeps both in
    rope_parameters.
    """
    given = content.get("rope_scaling") or content.get("rope_parameters") or {}
    if not isinstance(given, dict):
        raise ModelError(
            "rope_scaling is not an object", value=given, allowed="an object with rope_type"
        )
    scaling = {key: value for key, value in given.items() if value is not None}
    theta = scaling.pop("rope_theta", None)
    if theta is None:
        theta = content.get("rope_theta")
    if scaling.pop("partial_rotary_factor", 1.0) != 1.0:
        raise ModelError(
            "partial rotary embeddings are not supported",
            value=given,
            allowed="partial_rotary_factor 1.0",
        )
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default" and not set(scaling) - {"rope_type", "type"}:
        scaling = {}
    return {
        "rope_theta": 10_000.0 if theta is None else float(theta),
        "rope_scaling": scaling or None,
    }


def _windows(content: dict[str, Any], family: str, layers: int) -> dict[str, Any]:
    """sliding_window and layer_types with each family's own rule."""
    names = ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types")
    if family == "llama":
        present = [name for name in names if content.get(name) not in (None, False)]
        if present:
            raise ModelError(
                "a llama model has no sliding window",
                value={name: content[name] for name in present},
                allowed="null",
            )
        return {}
    if family == "mistral":
        window = content.get("sliding_window", _FAMILY_DEFAULTS["mistral"]["sliding_window"])
        types = content.get("layer_types")
        kind = "full_attention" if window is None else "sliding_attention"
        if types is not None and set(types) != {kind}:
            raise ModelError(
                "a mistral model has the same attention in every layer",
                value=types,
                allowed=f"only {kind}",
            )
        return {"sliding_window": window}
    window = (
        content.get("sliding_window", 4096) if content.get("use_sliding_window", False) else None
    )
    types = content.get("layer_types")
    if types is None:
        first = int(content.get("max_window_layers", 28))
        types = [
            "sliding_attention" if window is not None and i >= first else "full_attention"
            for i in range(layers)
        ]
    if "sliding_attention" not in types:
        return {}
    return {"sliding_window": window, "layer_types": tuple(types)}


def config_to_hf(config: ModelConfig, dtype: str) -> dict[str, Any]:
    """The ``config.json`` of a model: fields that transformers 4 and 5 both read.

    `dtype` is torch's name of the stored dtype, such as ``float32``.
    """
    eos = (
        list(config.eos_token_id) if isinstance(config.eos_token_id, tuple) else config.eos_token_id
    )
    content: dict[str, Any] = {
        "architectures": [ARCHITECTURES[config.architecture]],
        "model_type": config.architecture,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position_embeddings,
        "rope_theta": config.rope_theta,
        "rope_scaling": _scaling_to_hf(config),
        "rms_norm_eps": config.rms_norm_eps,
        "tie_word_embeddings": config.tie_word_embeddings,
        "initializer_range": config.initializer_range,
        "attention_dropout": config.attention_dropout,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": eos,
        "pad_token_id": config.pad_token_id,
        "use_cache": True,
        "dtype": dtype,
        "torch_dtype": dtype,
    }
    if config.architecture == "llama":
        content |= {"attention_bias": config.attention_bias, "mlp_bias": config.mlp_bias}
    elif config.architecture == "mistral":
        content |= {"sliding_window": config.sliding_window}
    else:
        windows = [config.window(layer) is not None for layer in range(config.num_hidden_layers)]
        content |= {
            "use_sliding_window": any(windows),
            "sliding_window": config.sliding_window,
            "max_window_layers": windows.index(True) if any(windows) else config.num_hidden_layers,
            "layer_types": ["sliding_attention" if w else "full_attention" for w in windows],
        }
        if config.architecture == "qwen3":
            content["attention_bias"] = config.attention_bias
    return content


def _scaling_to_hf(config: ModelConfig) -> dict[str, Any] | None:
    if config.rope_scaling is None:
        return None
    scaling = dict(config.rope_scaling)
    kind = scaling.pop("type", scaling.pop("rope_type", "default"))
    if kind in ("yarn", "llama3"):
        scaling.setdefault("original_max_position_embeddings", config.max_position_embeddings)
    if kind == "dynamic":
        scaling.pop("original_max_position_embeddings", None)
    return None if kind == "default" else {"rope_type": kind, **scaling}
