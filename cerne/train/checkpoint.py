"""Checkpoints: a Hugging Face model directory plus `trainer/`, written wholly or not at all.

    step-000500/config.json, model.safetensors, tokenizer.json, ..., cerne.json
    step-000500/trainer/optimizer.safetensors   moments, float32, by parameter name
    step-000500/trainer/state.json              counters, data position, SHA-256 of every file

Master weights keep their dtype (float32), so a resumed run continues bit for bit. No pickle.
Leaves out when to save (loop.py) and whether a recipe may be resumed (pretrain.py).
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from cerne.errors import CheckpointError
from cerne.model.hf import save_model
from cerne.model.transformer import Transformer
from cerne.runs import RunDirectory, atomic_directory, sha256_file
from cerne.train.optim import Optimizer

FORMAT = 1
STATE = "trainer/state.json"
OPTIMIZER = "trainer/optimizer.safetensors"


def save_checkpoint(
    run: RunDirectory,
    step: int,
    model: Transformer,
    optimizer: Optimizer,
    state: Mapping[str, Any],
    *,
    tokenizer: Any = None,
    meta: Mapping[str, Any] | None = None,
    keep_last: int = 0,
) -> Path:
    """Write checkpoints/step-NNNNNN, point `latest` at it, then remove what is too old.

    Args:
        state: JSON-ready counters of the trainer.
        meta: for cerne.json (parents, recipe, data digests).
        keep_last: how many checkpoints stay; 0 keeps all.
    Raises:
        EnvironmentLack: the disk is full; earlier checkpoints and `latest` are unchanged.
    """
    target = run.checkpoint_path(step)
    with atomic_directory(target) as folder:
        try:
            save_model(folder, model, tokenizer, dict(meta) if meta is not None else {})
            (folder / "trainer").mkdir(exist_ok=True)
            tensors = {n: t.contiguous().clone() for n, t in optimizer.state_tensors().items()}
            safetensors.torch.save_file(tensors, folder / OPTIMIZER)
        except safetensors.SafetensorError as error:
            raise _as_os_error(error) from error
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        digests = {p.relative_to(folder).as_posix(): sha256_file(p) for p in files}
        content = {"format": FORMAT, "state": dict(state), "sha256": digests}
        text = json.dumps({**content, "self_sha256": _digest(content)}, indent=1)
        (folder / STATE).write_text(text, encoding="utf-8")
    run.set_latest(target.name)
    if keep_last > 0:
        up_to_now = [p for p in run.saved() if int(p.name[5:]) <= step]
        for old in up_to_now[:-keep_last]:
            shutil.rmtree(old, ignore_errors=True)
    return target


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """Check every file of a checkpoint against its digest and return the trainer's state.

    Raises:
        CheckpointError: names the file that is missing, cut short or altered.
    """
    path = folder / STATE
    try:
        content = json.loads(path.read_bytes())
        expected = content.pop("self_sha256")
        intact = expected == _digest(content)
    except FileNotFoundError:
        raise CheckpointError(
            "this is not a checkpoint that can be resumed: no trainer/state.json",
            value=str(folder),
            hint="--init-from MODEL starts a new run from a model's weights",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        intact = False
    if not intact:
        raise _damaged(path)
    if content["format"] != FORMAT:
        raise CheckpointError(
            "unknown checkpoint format", value=content["format"], allowed=str(FORMAT)
        )
    for name, digest in content["sha256"].items():
        if not (folder / name).is_file() or sha256_file(folder / name) != digest:
            raise _damaged(folder / name)
    state: dict[str, Any] = content["state"]
    return state


def load_weights(folder: Path, model: Transformer) -> None:
    """Copy a checkpoint's master weights into a model of the same architecture.

    Raises:
        CheckpointError: the tensors are of another architecture.
    """
    saved = _read_tensors(folder / "model.safetensors")
    own = dict(model.named_parameters())
    odd = sorted(own.keys() ^ saved.keys())
    shapes = [n for n in own if n in saved and saved[n].shape != own[n].shape]
    if odd or shapes:
        name = (odd + shapes)[0]
        raise CheckpointError(
            "the checkpoint is of another architecture",
            value=f"{name}: {_form(saved.get(name))}",
            allowed=_form(own.get(name)),
            hint="resume with the recipe of that run",
        )
    with torch.no_grad():
        for name, parameter in own.items():
            if saved[name].dtype != parameter.dtype:
                raise CheckpointError(
                    f"{name} is not stored in its master dtype",
                    value=str(saved[name].dtype),
                    allowed=str(parameter.dtype),
                )
            parameter.copy_(saved[name])


def load_optimizer(folder: Path, optimizer: Optimizer) -> None:
    """Copy a checkpoint's optimizer state into an optimizer over the same parameters."""
    optimizer.load_state_tensors(_read_tensors(folder / OPTIMIZER))


def newest_intact(run: RunDirectory) -> Path | None:
    """The newest checkpoint whose files are all as written, or None."""
    for folder in reversed(run.saved()):
        try:
            read_checkpoint(folder)
        except CheckpointError:
            continue
        return folder
    return None


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError):
        raise _damaged(path) from None


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(
        "a checkpoint file is damaged or missing",
        value=str(path),
        hint="--resume --fallback takes the newest checkpoint that is intact",
    )


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _form(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}"


def _as_os_error(error: safetensors.SafetensorError) -> OSError:
    found = re.search(r"os error (\d+)", str(error))
    return OSError(int(found.group(1)), str(error)) if found else OSError(str(error))
