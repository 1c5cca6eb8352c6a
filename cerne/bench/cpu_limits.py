"""What the machine allows: bytes a second from memory, and what a model makes it read and compute.

The stream is libc's memchr over memory that does not hold the byte it looks for: a plain read with
the widest loads, without a compiler. Leaves out caches: a model of less than about twice the last
level of cache can run faster than this bandwidth.
"""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cerne.errors import ModelError
from cerne.native.gguf import GgufFile

STREAM_BYTES = 512 << 20
EMBEDDING = "token_embd.weight"


@dataclass(frozen=True)
class ModelCost:
    """What a GGUF model costs.

    Attributes:
        file_bytes: size of the file.
        bytes_per_token: weights that one decode step must read, as stored in the file.
        operations_per_token: multiplications and additions of the matrices for a prompt token.
        context: tokens that it was made for.
        vocab_size: tokens that it knows.
        shape: see `cerne.bench.cpu_worker.Start`; None where the layers are not llama's.
    """

    file_bytes: int
    bytes_per_token: int
    operations_per_token: int
    context: int
    vocab_size: int
    shape: dict[str, int] | None


def model_cost(path: Path) -> ModelCost:
    """Read the table of tensors of a GGUF file.

    Raises:
        ModelError: damaged, or not a model.
    """
    with GgufFile(path) as file:
        tensors = file.tensors
        if EMBEDDING not in tensors or "general.architecture" not in file:
            raise ModelError("the GGUF file holds no language model", value=str(path))
        architecture = str(file.value("general.architecture"))

        def number(key: str) -> int:
            return int(np.max(np.asarray(file.value(f"{architecture}.{key}"))))

        tied = "output.weight" not in tensors
        heads, width = number("attention.head_count"), number("embedding_length")
        shape = {
            "layers": number("block_count"),
            "width": width,
            "heads": heads,
            "kv_heads": number("attention.head_count_kv"),
            "head_width": tensors["blk.0.attn_q.weight"].shape[0] // heads,
            "ffn": number("feed_forward_length"),
            "vocab": tensors[EMBEDDING].shape[0],
        }
        inner = [t for t in tensors.values() if t.name.startswith("blk.") and len(t.shape) == 2]
        return ModelCost(
            file_bytes=path.stat().st_size,
            bytes_per_token=sum(
                t.num_bytes for t in tensors.values() if tied or t.name != EMBEDDING
            ),
            operations_per_token=2 * sum(t.num_values for t in inner),
            context=number("context_length"),
            vocab_size=shape["vocab"],
            shape=shape if architecture in ("llama", "mistral", "qwen2", "qwen3") else None,
        )


def read_bandwidth(threads: int, passes: int = 5, size_bytes: int = STREAM_BYTES) -> list[float]:
    """Bytes per second that `threads` threads read from memory together, of each pass."""
    memory = np.zeros(size_bytes, dtype=np.uint8)
    memory.fill(1)
    share = size_bytes // threads
    scan = ctypes.CDLL(None).memchr
    scan.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    scan.restype = ctypes.c_void_p
    begin = memory.ctypes.data
    rates = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(passes):
            begin_s = time.perf_counter()
            found = list(pool.map(lambda i: scan(begin + i * share, 0, share), range(threads)))
            rates.append(share * threads / (time.perf_counter() - begin_s))
            assert found == [None] * threads
    return rates
