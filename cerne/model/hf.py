"""Model directories: what every verb reads and writes, and what transformers loads unchanged.

    config.json  model.safetensors  generation_config.json  cerne.json  (+ tokenizer.json,
    tokenizer_config.json)

`cerne.json` records format version, parents, recipe, data digests, code version and the SHA-256 of
the other files; the digests are checked on load. Leaves out: the trainer's own files
(train/checkpoint.py).
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import safetensors
import safetensors.torch
import torch
from torch import nn

import cerne
from cerne.device import code_commit
from cerne.errors import CheckpointError, ModelError
from cerne.model.config import ModelConfig
from cerne.model.hf_config import config_from_hf, config_to_hf
from cerne.model.transformer import Transformer
from cerne.model.weights import WEIGHTS, copy_into, read_json, refuse_pickle, stored_tensors
from cerne.runs import atomic_directory, atomic_write, cannot_write, sha256_file

FORMAT_VERSION = 1
PROVENANCE = "cerne.json"
_COMPILED = "_orig_mod."


class SavableTokenizer(Protocol):
    """What `save_model` needs of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def pad_token_id(self) -> int | None: ...
    @property
    def eos_token_id(self) -> int | None: ...
    @property
    def bos_token_id(self) -> int | None: ...
    @property
    def end_of_turn_id(self) -> int | None: ...

    def save(self, folder: Any) -> Any:
        """Write tokenizer.json and tokenizer_config.json into the folder."""


def save_model(
    folder: str | Path,
    model: nn.Module,
    tokenizer: SavableTokenizer | None = None,
    meta: Mapping[str, Any] | None = None,
) -> None:
    """Write a model directory.

    Args:
        folder: made whole or not at all when it does not exist; else each file is replaced
            atomically, the
            provenance last, so that a torn write is found by its digest.
        model: a `Transformer`, compiled or not; dtypes are kept.
        tokenizer: saved beside the weights; its special ids go into config.json.
        meta: JSON-ready provenance for cerne.json: parents, recipe, data and whatever else the
            caller records.
    Raises:
        EnvironmentLack: the disk is full or the folder is not writable.
        ModelError: the tokenizer has more ids than the model has rows.
    """
    target = Path(folder)
    if target.exists():
        _write_files(target, model, tokenizer, meta)
        return
    with atomic_directory(target) as temporary:
        _write_files(temporary, model, tokenizer, meta)


def _write_files(
    folder: Path,
    model: nn.Module,
    tokenizer: SavableTokenizer | None,
    meta: Mapping[str, Any] | None,
) -> None:
    plain = unwrap(model)
    config = plain.config if tokenizer is None else _with_tokenizer(plain.config, tokenizer)
    tensors = {
        name.replace(_COMPILED, ""): tensor.detach().contiguous()
        for name, tensor in plain.state_dict().items()
    }
    dtype = str(plain.output_weight.dtype).removeprefix("torch.")
    temporary = folder / f".{WEIGHTS}.partial"
    try:
        safetensors.torch.save_file(tensors, temporary, metadata={"format": "pt"})
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, folder / WEIGHTS)
    except (OSError, safetensors.SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        cause = error if isinstance(error, OSError) else OSError(str(error))
        raise cannot_write(folder / WEIGHTS, cause) from error
    atomic_write(folder / "config.json", _json(config_to_hf(config, dtype)))
    atomic_write(
        folder / "generation_config.json", _json(_generation_config(plain, config, tokenizer))
    )
    if tokenizer is not None:
        tokenizer.save(folder)
    names = [
        WEIGHTS,
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    provenance = {
        **(meta or {}),
        "format_version": FORMAT_VERSION,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "code": {"version": cerne.__version__, "commit": code_commit()},
        "model": {"dropout": config.dropout},
        "sha256": {name: sha256_file(folder / name) for name in names if (folder / name).is_file()},
    }
    provenance.setdefault("parents", [])
    atomic_write(folder / PROVENANCE, _json(provenance))


def parent_of(folder: str | Path) -> dict[str, str]:
    """The entry that a model made from `folder` puts into its cerne.json under "parents"."""
    path = Path(folder)
    return {"name": path.resolve().name, "sha256": sha256_file(path / WEIGHTS)}


def unwrap(model: nn.Module) -> Transformer:
    """The `Transformer` inside torch.compile's wrapper. Raises `ModelError` for anything else."""
    inner = getattr(model, "_orig_mod", model)
    if not isinstance(inner, Transformer):
        raise ModelError(
            "this is not a cerne Transformer", value=type(inner).__name__, allowed="Transformer"
        )
    return inner


def _with_tokenizer(config: ModelConfig, tokenizer: SavableTokenizer) -> ModelConfig:
    if tokenizer.vocab_size > config.vocab_size:
        raise ModelError(
            "the tokenizer has more ids than the model has embedding rows",
            value=f"tokenizer {tokenizer.vocab_size}, model vocab_size={config.vocab_size}",
            allowed="tokenizer ids <= vocab_size",
            hint="save the tokenizer the model was trained with",
        )
    ids = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return config.model_copy(update=ids)


def _generation_config(
    plain: Transformer, config: ModelConfig, tokenizer: SavableTokenizer | None
) -> dict[str, Any]:
    """Ids that end generation (document end and end of turn), over what the model was loaded
    with; further ids that ended it there stay.
    """
    loaded = plain.generation_config.get("eos_token_id")
    if tokenizer is None:
        eos: Any = config.eos_token_id if loaded is None else loaded
    else:
        several = plain.config.eos_token_id if isinstance(plain.config.eos_token_id, tuple) else ()
        own = (config.eos_token_id, tokenizer.end_of_turn_id)
        further = loaded if isinstance(loaded, list) else [loaded]
        ids_found = dict.fromkeys(i for i in (*own, *further, *several) if i is not None)
        eos = next(iter(ids_found)) if len(ids_found) == 1 else (tuple(ids_found) or None)
    ids = {
        "bos_token_id": config.bos_token_id,
        "eos_token_id": list(eos) if isinstance(eos, tuple) else eos,
        "pad_token_id": config.pad_token_id,
    }
    kept = {key: value for key, value in plain.generation_config.items() if key not in ids}
    return {**kept, **{key: value for key, value in ids.items() if value is not None}}


def read_config(folder: str | Path) -> ModelConfig:
    """The configuration of a model directory, without its weights. Raises `CheckpointError` or
    `ModelError`.
    """
    path = Path(folder)
    config = config_from_hf(read_json(_existing(path) / "config.json"))
    dropout = read_provenance(path).get("model", {}).get("dropout", 0.0)
    return config.model_copy(update={"dropout": float(dropout)})


def read_provenance(folder: str | Path) -> dict[str, Any]:
    """``cerne.json``, or {} for a directory made by someone else. Raises `CheckpointError` for
    another format.
    """
    path = Path(folder) / PROVENANCE
    if not path.is_file():
        return {}
    content = read_json(path)
    if content.get("format_version") != FORMAT_VERSION:
        raise CheckpointError(
            "cerne.json has a format version this program does not read",
            value=content.get("format_version"),
            allowed=str(FORMAT_VERSION),
            hint="upgrade cerne, or repair the file",
        )
    return content


def verify_digests(folder: str | Path) -> dict[str, str]:
    """Compare every file with the SHA-256 in cerne.json; returns the digests checked ({} when none
    are recorded).

    Raises `CheckpointError` naming the file that is missing or altered.
    """
    path = Path(folder)
    recorded = read_provenance(path).get("sha256", {})
    if not isinstance(recorded, dict):
        raise CheckpointError(
            "cerne.json: sha256 is not an object",
            value=type(recorded).__name__,
            allowed="{file: digest}",
        )
    for name, digest in recorded.items():
        if Path(name).name != name or not (path / name).is_file():
            raise CheckpointError(
                "a file that cerne.json records is missing", value=name, allowed=", ".join(recorded)
            )
        if name == WEIGHTS:
            refuse_pickle(path / name)
        actual = sha256_file(path / name)
        if actual != digest:
            raise CheckpointError(
                f"{name} is not the file that was saved (cut or altered): its SHA-256 differs",
                value=actual,
                allowed=str(digest),
                hint="restore it; if you edited it on purpose, remove its digest from cerne.json",
            )
    return {str(name): str(digest) for name, digest in recorded.items()}


def load_model(
    folder: str | Path,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = torch.float32,
    verify: bool = True,
) -> Transformer:
    """Load a model directory, ours or one that transformers wrote; the model is in eval mode.

    Args:
        folder: holds config.json and model.safetensors (or shards with an index).
        dtype: of the parameters; None keeps each tensor's stored dtype.
        verify: check the digests in cerne.json, when there is one.
    Raises:
        CheckpointError: missing, cut, altered or pickled files, or tensors that do not fit
            config.json.
        ModelError: an architecture or a field of config.json that is not supported.
    """
    path = _existing(Path(folder))
    if verify:
        verify_digests(path)
    config = read_config(path)
    with torch.device("meta"):
        model = Transformer(config)
    if dtype is None:
        stored = stored_tensors(path)
        for name, parameter in model.named_parameters():
            kind, _ = stored.get(name, ("float32", 0))
            parameter.data = parameter.data.to(getattr(torch, kind))
    else:
        model.to(dtype)
    model.to_empty(device=device)
    model.rope.rebuild(model.rope.cos.shape[0], device)
    copy_into(dict(model.named_parameters()), path, config.tie_word_embeddings)
    if (path / "generation_config.json").is_file():
        model.generation_config = read_json(path / "generation_config.json")
    return model.eval()


def _existing(path: Path) -> Path:
    if path.is_file():
        refuse_pickle(path)
        raise CheckpointError(
            "a model is a folder, not a file",
            value=str(path),
            allowed="a folder with config.json and model.safetensors",
        )
    if not path.is_dir():
        raise CheckpointError(
            "there is no model there",
            value=str(path),
            allowed="an existing model directory",
            hint="check the path, or train one: cerne demo",
        )
    return path


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
