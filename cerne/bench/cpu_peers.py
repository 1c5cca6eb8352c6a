"""llama.cpp and ik_llama.cpp as `cerne bench cpu` runs them: their C interface, best settings.

llama.cpp: weights repacked where its build can, key/value memory in F16, flash attention as it
chooses and, at a deep context, whichever of on and off is faster here. ik_llama.cpp: the same with
run-time repacking of all tensors. Leaves out their samplers and tokenizers.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Any

from cerne.bench.cpu_worker import DEEP, Start, Stepwise

MICRO_BATCH = 512
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
F16 = 1
_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class LlamaCpp(Stepwise):
    """A GGUF file on llama.cpp, through llama-cpp-python's functions.

    Raises:
        RuntimeError: llama.cpp does not load the file.
    """

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self._api: Any = importlib.import_module("llama_cpp")
        self._log = self._api.llama_log_callback(_quiet)
        self._api.llama_log_set(self._log, ctypes.c_void_p(0))
        self._api.llama_backend_init()
        params = self._api.llama_model_default_params()
        params.n_gpu_layers = 0
        params.use_extra_bufts = True
        self._model = self._api.llama_model_load_from_file(os.fsencode(start.model), params)
        if not self._model:
            raise RuntimeError("llama.cpp does not load this file")
        self.about = {
            "version": importlib.metadata.version("llama-cpp-python"),
            "system": self._api.llama_print_system_info().decode().strip(),
            "settings": "repacking on, F16 keys and values, flash attention auto",
        }

    @classmethod
    def prepare(cls, start: Start) -> None:
        """See `Engine.prepare`."""
        importlib.import_module("llama_cpp")

    def settings(self, sequences: int, start: int) -> tuple[str, ...]:
        """See `Stepwise.settings`."""
        return ("auto", "off") if start >= DEEP else ("auto",)

    def open(self, sequences: int, capacity: int, variant: str) -> _LlamaPool:
        """See `Stepwise.open`; the variant is the setting of flash attention."""
        params = self._api.llama_context_default_params()
        params.n_ctx = capacity * sequences
        params.n_batch = max(min(2048, capacity), sequences)
        params.n_ubatch = min(MICRO_BATCH, params.n_batch)
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = self.start.threads
        params.flash_attn_type = FLASH_ATTENTION[variant]
        params.type_k = params.type_v = F16
        params.no_perf = True
        context = self._api.llama_init_from_model(self._model, params)
        if not context:
            raise RuntimeError("llama.cpp makes no context of that size")
        return _LlamaPool(self._api, context, sequences, params.n_batch)


class _LlamaPool:
    """Implements `Pool` over a context of llama.cpp."""

    def __init__(self, api: Any, context: Any, sequences: int, size: int) -> None:
        self._api = api
        self._context = context
        self._lengths = [0] * sequences
        self._size = size
        self._batch = api.llama_batch_init(size, 0, 1)

    def read(self, sequence: int, ids: Sequence[int]) -> None:
        for begin in range(0, len(ids), self._size):
            piece = ids[begin : begin + self._size]
            last = begin + len(piece) == len(ids)
            wanted = [last and i == len(piece) - 1 for i in range(len(piece))]
            self._append(piece, [sequence] * len(piece), wanted)

    def step(self, ids: Sequence[int]) -> None:
        self._append(ids, range(len(ids)), [True] * len(ids))

    def truncate(self, length: int) -> None:
        for sequence, held in enumerate(self._lengths):
            if held > length:
                self._forget(sequence, length)
                self._lengths[sequence] = length

    def close(self) -> None:
        self._api.llama_batch_free(self._batch)
        self._api.llama_free(self._context)

    def _append(self, ids: Sequence[int], sequences: Sequence[int], wanted: Sequence[bool]) -> None:
        batch = self._batch
        batch.n_tokens = len(ids)
        for i, (token, sequence) in enumerate(zip(ids, sequences, strict=True)):
            batch.token[i] = token
            batch.pos[i] = self._lengths[sequence]
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wanted[i]
            self._lengths[sequence] += 1
        status = self._api.llama_decode(self._context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        self._wait()

    def _wait(self) -> None:
        self._api.llama_synchronize(self._context)

    def _forget(self, sequence: int, length: int) -> None:
        memory = self._api.llama_get_memory(self._context)
        self._api.llama_memory_seq_rm(memory, sequence, length, -1)


class IkLlamaCpp(Stepwise):
    """A GGUF file on ik_llama.cpp, through ik-llama-cpp-python's functions; see `LlamaCpp`."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self._api: Any = importlib.import_module("ik_llama_cpp._ctypes_api")
        log_set = self._api._lib.llama_log_set
        log_set.argtypes, log_set.restype = [ctypes.c_void_p, ctypes.c_void_p], None
        self._log = _LOG(_quiet)
        log_set(ctypes.cast(self._log, ctypes.c_void_p), None)
        self._api.llama_backend_init()
        params = self._api.llama_model_default_params()
        params.n_gpu_layers = 0
        params.repack_tensors = True
        params.use_mmap = False
        params.use_thp = True
        self._model = self._api.llama_model_load_from_file(os.fsencode(start.model), params)
        if not self._model:
            raise RuntimeError("ik_llama.cpp does not load this file")
        self.about = {
            "version": importlib.metadata.version("ik-llama-cpp-python"),
            "settings": "run-time repacking, huge pages, F16 keys and values, flash attention on",
        }

    @classmethod
    def prepare(cls, start: Start) -> None:
        """See `Engine.prepare`."""
        importlib.import_module("ik_llama_cpp._ctypes_api")

    def settings(self, sequences: int, start: int) -> tuple[str, ...]:
        """See `Stepwise.settings`."""
        # Its flash attention aborts on parallel sequences: GGML_ASSERT(S > 0) in 55d3c05.
        if sequences > 1:
            return ("off",)
        return ("on", "off") if start >= DEEP else ("on",)

    def open(self, sequences: int, capacity: int, variant: str) -> _IkPool:
        """See `Stepwise.open`; the variant is the setting of flash attention."""
        params = self._api.llama_context_default_params()
        params.n_ctx = capacity * sequences
        params.n_batch = max(min(2048, capacity), sequences)
        params.n_ubatch = min(MICRO_BATCH, params.n_batch)
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = self.start.threads
        params.flash_attn = variant == "on"
        params.type_k = params.type_v = F16
        context = self._api.llama_init_from_model(self._model, params)
        if not context:
            raise RuntimeError("ik_llama.cpp makes no context of that size")
        return _IkPool(self._api, context, sequences, params.n_batch)


class _IkPool(_LlamaPool):
    """Implements `Pool` over a context of ik_llama.cpp, whose interface is an older one."""

    def _wait(self) -> None:
        # llama_decode has returned only when the CPU is done.
        return

    def _forget(self, sequence: int, length: int) -> None:
        remove = self._api._lib.llama_kv_cache_seq_rm
        remove.argtypes = [ctypes.c_void_p, *[ctypes.c_int32] * 3]
        remove.restype = ctypes.c_bool
        remove(self._context, sequence, length, -1)


def _quiet(level: int, text: bytes, _data: object) -> None:
    # Errors (level 4 of ggml_log_level) end up in the message when the worker fails.
    if level == 4:
        sys.stderr.write(text.decode(errors="replace"))
