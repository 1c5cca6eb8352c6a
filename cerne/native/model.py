"""The native engine as Python objects: a model in memory, and sequences that it runs.

Knows token ids and logits only. Leaves out text, sampling (cerne/engine) and what the tensors of a
model directory are called (cerne/model/native.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.errors import EngineError, ModelError
from cerne.native.handle import NativeHandle
from cerne.native.library import STOPPED, check, library

Floats32 = npt.NDArray[np.float32]
Progress = Callable[[int, int], object]

MAX_THREADS = 1024


def arithmetic() -> str:
    """Name of the arithmetic: the same name, model and tokens give the same bits everywhere."""
    ffi, lib, _ = library()
    return str(ffi.string(lib.cerne_arithmetic()).decode("ascii"))


def isa() -> str:
    """Name of the instruction set that the kernels use; no result depends on it."""
    ffi, lib, _ = library()
    return str(ffi.string(lib.cerne_isa()).decode("ascii"))


class _Callback:
    """A progress function for the core; None gives one that only lets Python see Ctrl-C."""

    def __init__(self, ffi: Any, progress: Progress | None) -> None:
        self.failure: BaseException | None = None

        def call(_user: Any, done: int, total: int) -> int:
            try:
                return int(progress is not None and progress(done, total) is True)
            except BaseException as error:
                self.failure = error
                return 1

        self.pointer = ffi.callback("int32_t(void*, uint64_t, uint64_t)", call)

    def check(self, status: int) -> None:
        if self.failure is not None:
            raise self.failure
        if status == STOPPED:
            raise KeyboardInterrupt
        check(status, ModelError)


def check_threads(threads: int) -> int:
    """`threads`, when the core can start so many.

    Raises:
        EngineError: out of range.
    """
    if not 1 <= threads <= MAX_THREADS:
        raise EngineError(
            "the number of threads is out of range", value=threads, allowed=f"1 to {MAX_THREADS}"
        )
    return threads


class NativeModel(NativeHandle):
    """A model in the core's memory; never changes, thread-safe except for `close`.

    Make it with `open_gguf` or `from_tensors`.
    """

    def __init__(self, *arguments: object, make: str) -> None:
        super().__init__("model", *arguments, make=make, error=ModelError)

    @staticmethod
    def open_gguf(path: str | Path, threads: int, progress: Progress | None = None) -> NativeModel:
        """Load a GGUF file.

        Args:
            threads: threads that unpack weights, 1 to 1024.
            progress: called with (bytes done, bytes wanted); True stops.
        Raises:
            ModelError: missing, damaged, of an unknown architecture, or larger than the memory.
        """
        check_threads(threads)
        ffi, _, _ = library()
        callback = _Callback(ffi, progress)
        name = os.fsencode(path)
        try:
            return NativeModel(name, len(name), threads, callback.pointer, ffi.NULL, make="open")
        except ModelError as error:
            if callback.failure is not None:
                raise callback.failure from None
            raise ModelError(f"{path}: {error}") from None

    @staticmethod
    def from_tensors(
        architecture: str,
        numbers: Mapping[str, float],
        texts: Mapping[str, str],
        tensors: Iterable[tuple[str, str, tuple[int, ...], npt.NDArray[Any]]],
        threads: int,
        progress: Progress | None = None,
    ) -> NativeModel:
        """Build a model from metadata and tensors under their GGUF names.

        Args:
            architecture: llama, qwen2, qwen3 or gemma3.
            numbers, texts: metadata without the architecture in front.
            tensors: (name, type such as "F32", shape with the row width last, bytes); the arrays
                are kept alive until the model is built.
        Raises:
            ModelError: something is missing, unknown or misshapen.
        """
        check_threads(threads)
        model = NativeModel(make="create")
        try:
            model._fill(architecture, numbers, texts, tensors, threads, progress)
        except BaseException:
            model.close()
            raise
        return model

    def _fill(
        self,
        architecture: str,
        numbers: Mapping[str, float],
        texts: Mapping[str, str],
        tensors: Iterable[tuple[str, str, tuple[int, ...], npt.NDArray[Any]]],
        threads: int,
        progress: Progress | None,
    ) -> None:
        ffi, lib, handle = self._ffi, self._lib, self._open()
        for key, text in {"architecture": architecture, **texts}.items():
            name, value = key.encode(), text.encode()
            status = lib.cerne_model_set_string(handle, name, len(name), value, len(value))
            check(status, ModelError)
        for key, number in numbers.items():
            name = key.encode()
            check(lib.cerne_model_set_number(handle, name, len(name), number), ModelError)
        kept = []
        for key, kind, shape, array in tensors:
            name, type_name = key.encode(), kind.encode()
            data = ffi.from_buffer("uint8_t[]", array)
            kept.append(data)
            rows = int(np.prod(shape[:-1], dtype=np.int64))
            status = lib.cerne_model_add_tensor(
                *(handle, name, len(name), type_name, len(type_name)),
                *(rows, shape[-1], data, array.nbytes),
            )
            check(status, ModelError)
        callback = _Callback(ffi, progress)
        callback.check(lib.cerne_model_build(handle, threads, callback.pointer, ffi.NULL))

    def statistic(self, name: str) -> int:
        """A number of the model: vocab_size, context, layers, width, kv_heads, weight_bytes, ..."""
        value, key = self._ffi.new("uint64_t*"), name.encode()
        check(self._lib.cerne_model_statistic(self._open(), key, len(key), value), ModelError)
        return int(value[0])


class NativeContext(NativeHandle):
    """Sequences of tokens, their key/value memory, and the threads that compute.

    One call at a time; `stop` may come from any thread.

    Args:
        model: may be closed afterwards.
        options: threads, capacity (tokens of a sequence), max_sequences, batch_tokens.
    Raises:
        EngineError: an option is unknown or out of range.
    """

    def __init__(self, model: NativeModel, options: Mapping[str, int]) -> None:
        super().__init__("context", model._open(), error=EngineError)
        self.vocab_size = model.statistic("vocab_size")
        self.width = model.statistic("width")
        try:
            for name, value in options.items():
                key = name.encode()
                status = self._lib.cerne_context_set_integer(self._handle, key, len(key), value)
                check(status, EngineError)
        except BaseException:
            self.close()
            raise

    def start(self) -> int:
        """A new empty sequence; returns its handle."""
        out = self._ffi.new("uint64_t*")
        check(self._lib.cerne_context_start(self._open(), out), EngineError)
        return int(out[0])

    def fork(self, sequence: int) -> int:
        """A sequence with the same tokens that goes its own way; returns its handle."""
        out = self._ffi.new("uint64_t*")
        check(self._lib.cerne_context_fork(self._open(), sequence, out), EngineError)
        return int(out[0])

    def drop(self, sequence: int) -> None:
        """Forget a sequence."""
        check(self._lib.cerne_context_drop(self._open(), sequence), EngineError)

    def truncate(self, sequence: int, length: int) -> None:
        """Forget all but the first `length` tokens of a sequence."""
        check(self._lib.cerne_context_truncate(self._open(), sequence, length), EngineError)

    def length(self, sequence: int) -> int:
        """Tokens that the sequence holds."""
        out = self._ffi.new("uint64_t*")
        check(self._lib.cerne_context_length(self._open(), sequence, out), EngineError)
        return int(out[0])

    def decode(
        self, sequences: Sequence[int], ids: Sequence[int], wanted: Sequence[bool]
    ) -> Floats32:
        """Append ids[i] to sequences[i], in order; logits [number wanted, V].

        Raises:
            EngineError: an id outside the vocabulary, or a sequence that is full; nothing changed.
            KeyboardInterrupt: `stop` was called; nothing changed.
        """
        return self._extend(self._lib.cerne_context_decode, self.vocab_size, sequences, ids, wanted)

    def embed(
        self, sequences: Sequence[int], ids: Sequence[int], wanted: Sequence[bool]
    ) -> Floats32:
        """Append as `decode` does; hidden states behind the last norm [number wanted, D].

        Raises: as `decode`.
        """
        return self._extend(self._lib.cerne_context_embed, self.width, sequences, ids, wanted)

    def _extend(
        self,
        call: Any,
        width: int,
        sequences: Sequence[int],
        ids: Sequence[int],
        wanted: Sequence[bool],
    ) -> Floats32:
        chosen = np.asarray(wanted, dtype=np.uint8)
        rows = np.empty((int(chosen.sum()), width), dtype=np.float32)
        try:
            which = np.asarray(sequences, dtype=np.uint64)
            tokens = np.asarray(ids, dtype=np.uint32)
        except (OverflowError, ValueError) as error:
            raise EngineError(
                "a token id is outside the vocabulary",
                value=min(ids) if min(ids) < 0 else max(ids),
                allowed=f"0 to {self.vocab_size - 1}",
            ) from error
        if not which.shape == tokens.shape == chosen.shape:
            raise EngineError("sequences, ids and wanted differ in length", value=len(ids))
        ffi = self._ffi
        status = call(
            self._open(),
            ffi.from_buffer("uint64_t[]", which),
            ffi.from_buffer("uint32_t[]", tokens),
            ffi.from_buffer("uint8_t[]", chosen),
            len(tokens),
            ffi.from_buffer("float[]", rows),
            rows.size,
        )
        if status == STOPPED:
            raise KeyboardInterrupt
        check(status, EngineError)
        return rows

    def stop(self) -> None:
        """End the decode that runs, or the next one."""
        check(self._lib.cerne_context_stop(self._open()), EngineError)
