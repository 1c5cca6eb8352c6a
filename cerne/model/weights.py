"""Reading safetensors files that may be damaged, foreign or hostile.

In: a model directory. Out: tensors by name, read one at a time. Handles one file or shards with an
    index; refuses pickle by content and by name; a missing, surplus or misshapen tensor is a
    `CheckpointError` that names it with both shapes. Leaves out: what the tensors mean (hf.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor

from cerne.errors import CheckpointError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLE_SUFFIXES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
# Buffers that old exporters stored beside the weights; they are recomputed from the configuration.
_RECOMPUTED = re.compile(r"(^|\.)rotary_emb\.(inv_freq|cos_cached|sin_cached)$")


def refuse_pickle(path: Path) -> None:
    """Raise `CheckpointError` if the file is a pickle or a torch zip archive, by its first bytes or
    its name.
    """
    with open(path, "rb") as handle:
        start = handle.read(4)
    is_pickle = len(start) >= 2 and start[0] == 0x80 and 1 <= start[1] <= 5
    if is_pickle or start == b"PK\x03\x04" or path.suffix in _PICKLE_SUFFIXES:
        raise CheckpointError(
            "this file is a pickle, which can run code when it is opened; it is refused",
            value=path.name,
            allowed="safetensors",
            hint="convert it where you trust it: transformers' save_pretrained writes safetensors",
        )


def weight_files(folder: Path) -> dict[str, Path]:
    """Files that hold the weights: {tensor name: file} from an index, or {"": the single file}."""
    if (folder / WEIGHTS).is_file():
        return {"": folder / WEIGHTS}
    if (folder / INDEX).is_file():
        content = read_json(folder / INDEX)
        weight_map = content.get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise CheckpointError(
                "the shard index has no weight_map", value=INDEX, allowed="{tensor: file}"
            )
        files: dict[str, Path] = {}
        for tensor, name in weight_map.items():
            if (
                not isinstance(name, str)
                or Path(name).name != name
                or not name.endswith(".safetensors")
            ):
                raise CheckpointError(
                    "the shard index names a file outside the folder",
                    value=name,
                    allowed="a plain *.safetensors name",
                )
            if not (folder / name).is_file():
                raise CheckpointError(
                    "a shard is missing",
                    value=name,
                    allowed=f"all files that {INDEX} names",
                    hint="copy the missing file",
                )
            files[tensor] = folder / name
        return files
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in _PICKLE_SUFFIXES:
            refuse_pickle(path)
    raise CheckpointError(
        "the folder has no weights",
        value=str(folder),
        allowed=f"{WEIGHTS} or {INDEX} with its shards",
    )


def iterate_tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Every stored tensor once, by name; recomputed buffers are skipped. Raises `CheckpointError`
    on damage.
    """
    files = weight_files(folder)
    for path in sorted(set(files.values())):
        refuse_pickle(path)
        try:
            with safetensors.safe_open(path, framework="pt") as handle:
                for name in handle.keys():  # noqa: SIM118 - not a dictionary
                    if "" not in files and files.get(name) != path:
                        raise CheckpointError(
                            "a shard holds a tensor that the index does not place there",
                            value=f"{name} in {path.name}",
                            allowed="what the index says",
                        )
                    if not _RECOMPUTED.search(name):
                        yield name, handle.get_tensor(name)
        except safetensors.SafetensorError as error:
            raise CheckpointError(
                f"{path.name} is cut short or damaged: {error}",
                value=f"{path.stat().st_size} bytes",
                allowed="a complete safetensors file",
                hint="copy or download it again, or use an earlier checkpoint",
            ) from None


def copy_into(parameters: Mapping[str, Tensor], folder: Path, tied: bool) -> None:
    """Fill `parameters` (meta tensors are not allowed) from the folder, checking names and shapes
    both ways.

    `tied` accepts a stored lm_head.weight if it equals the embedding. Values are copied into the
    parameters' own memory, so results cannot depend on how a file was aligned.
    """
    seen: set[str] = set()
    extra_head: Tensor | None = None
    with torch.no_grad():
        for name, tensor in iterate_tensors(folder):
            if tied and name == "lm_head.weight" and name not in parameters:
                extra_head = tensor.clone()
                continue
            target = parameters.get(name)
            if target is None:
                raise CheckpointError(
                    "the file has a tensor that this architecture does not have",
                    value=f"{name} {list(tensor.shape)}",
                    allowed=_describe(parameters),
                    hint="check that config.json belongs to these weights",
                )
            if target.shape != tensor.shape:
                raise CheckpointError(
                    f"{name} has the wrong shape",
                    value=list(tensor.shape),
                    allowed=f"{list(target.shape)} by config.json",
                )
            if not tensor.dtype.is_floating_point:
                raise CheckpointError(
                    f"{name} is not a floating-point tensor",
                    value=str(tensor.dtype),
                    allowed="float32, float16, bfloat16, float64",
                )
            target.copy_(tensor)
            seen.add(name)
    missing = sorted(parameters.keys() - seen)
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise CheckpointError(
            "the file lacks a tensor that this architecture has",
            value=f"{missing[0]} {list(parameters[missing[0]].shape)}{more}",
            allowed=_describe(parameters),
            hint="check that config.json belongs to these weights",
        )
    if extra_head is not None:
        embedding = parameters["model.embed_tokens.weight"]
        if not torch.equal(extra_head.to(embedding), embedding):
            raise CheckpointError(
                "tie_word_embeddings is true but lm_head.weight differs from the embedding",
                value=f"lm_head.weight {list(extra_head.shape)}",
                allowed="equal tensors, or tie_word_embeddings=false in config.json",
            )


def stored_tensors(folder: Path) -> dict[str, tuple[str, int]]:
    """Dtype name and bytes of every stored tensor (the data is mapped, not read)."""
    return {
        name: (str(tensor.dtype).removeprefix("torch."), tensor.numel() * tensor.element_size())
        for name, tensor in iterate_tensors(folder)
    }


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of at most 64 MiB. Raises `CheckpointError` naming the file."""
    try:
        if path.stat().st_size > 1 << 26:
            raise CheckpointError(
                f"{path.name} is too large", value=path.stat().st_size, allowed="64 MiB"
            )
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            "a file is missing from the model directory",
            value=str(path),
            hint="give a folder that holds config.json and model.safetensors",
        ) from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(
            f"{path.name} is not readable JSON: {error}", value=str(path)
        ) from None
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{path.name} is not a JSON object", value=type(content).__name__, allowed="an object"
        )
    return content


def _describe(parameters: Mapping[str, Tensor]) -> str:
    return f"the {len(parameters)} tensors of the architecture in config.json"
