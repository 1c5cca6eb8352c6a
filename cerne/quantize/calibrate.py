"""How much each input column of each matrix matters: the mean square of what flows into it.

In: a model (directory or GGUF file) and a text. Out: by GGUF tensor name one number a column. The
error of a product W x is the sum over columns of (error of W)^2 * x^2, so this is the weight of
each column's error. Runs on torch in float32. Leaves out what is made of it (the core's encoders).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cerne.errors import InputError
from cerne.model.gguf_names import gguf_tensor_name
from cerne.model.hf import load_model
from cerne.model.transformer import Transformer
from cerne.progress import Progress
from cerne.quantize.gguf_network import network_from_gguf
from cerne.tokenizer.bpe import Tokenizer

Importance = dict[str, npt.NDArray[np.float32]]

# Rows of text: long enough that most tokens have a context.
ROW_TOKENS = 512
_ROWS_AT_ONCE = 2
# A column that the text hardly reaches still counts a thousandth of the average one.
_LEAST_SHARE = 1e-3


def importance_of(model: Path, text: Path, max_tokens: int, threads: int | None) -> Importance:
    """Run a text through a model and measure the inputs of its matrices.

    Args:
        model: a model directory or a GGUF file of llama, qwen2 or qwen3.
        text: a file of UTF-8 text.
        max_tokens: how many of its tokens are read, from the beginning.

    Raises:
        InputError: the text cannot be read, or is shorter than one row.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    network = network_from_gguf(model) if model.is_file() else load_model(model)
    tokenizer = Tokenizer.load(model)
    try:
        content = text.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the text: {error.strerror}", value=str(text)) from error
    # Most text has more than one byte a token; a few more bytes than needed cost nothing.
    ids = tokenizer.encode_array(content[: 16 * max_tokens])[:max_tokens].astype(np.int64)
    width = min(ROW_TOKENS, network.config.max_position_embeddings)
    num_rows = len(ids) // width
    if num_rows == 0:
        raise InputError(
            "the calibration text is too short",
            value=f"{len(ids)} tokens",
            allowed=f"at least {width}; some ten thousand are better",
        )
    return measure(network, torch.from_numpy(ids[: num_rows * width].reshape(num_rows, width)))


def measure(network: Transformer, ids_NT: Tensor) -> Importance:
    """Mean squares of the inputs of every matrix over rows of token ids [N, T]."""
    sums: dict[str, Tensor] = {}
    hooks = []

    def listen(name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            add(name, inputs[0])

        return hook

    def add(name: str, x: Tensor) -> None:
        squares = x.detach().reshape(-1, x.shape[-1]).double().square().sum(0)
        sums[name] = sums[name] + squares if name in sums else squares

    for name, module in network.named_modules():
        if isinstance(module, nn.Linear) and name != "lm_head":
            hooks.append(module.register_forward_pre_hook(listen(f"{name}.weight")))
    try:
        with (
            Progress("calibrating", total=ids_NT.numel(), unit="tok") as bar,
            torch.inference_mode(),
        ):
            for rows in ids_NT.split(_ROWS_AT_ONCE):
                tied = network.config.tie_word_embeddings
                add("model.embed_tokens.weight" if tied else "lm_head.weight", network(rows))
                bar.advance(rows.numel())
    finally:
        for handle in hooks:
            handle.remove()
    found = {}
    for name, total in sums.items():
        mean = total / ids_NT.numel()
        least = float(mean.mean()) * _LEAST_SHARE
        found[gguf_tensor_name(name)] = mean.clamp(min=least).float().numpy()
    return found
