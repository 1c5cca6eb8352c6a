"""The native sampler as a Python object: logits in, a token out.

The same token as cerne/engine/sampler.py, which is the specification in Python (docs/sampling.md).
Leaves out log-probabilities and what the options of a request are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.errors import EngineError
from cerne.native.handle import NativeHandle
from cerne.native.library import check


class NativeSampler(NativeHandle):
    """A chain of transforms and a draw, with the tokens that penalties look at. Not thread-safe.

    Args:
        seed: key of the random numbers, 0 to 2^64 - 1.
        top_k: keep the k most probable tokens; 0 keeps all.
        numbers: temperature, top_p, min_p, repetition_penalty, presence_penalty,
            frequency_penalty; those left out change nothing.
        bias: token -> number that is added to its logit; -inf forbids it.
    Raises:
        EngineError: an option is unknown or out of range.
    """

    def __init__(
        self,
        seed: int = 0,
        top_k: int = 0,
        numbers: Mapping[str, float] | None = None,
        bias: Mapping[int, float] | None = None,
    ) -> None:
        super().__init__("sampler", error=EngineError)
        lib, handle = self._lib, self._handle
        self._token = self._ffi.new("uint32_t*")
        self._floats = self._ffi.typeof("float[]")
        try:
            # The core takes the 64 bits of a seed as a signed number.
            signed = seed - 2**64 if seed >= 2**63 else seed
            for key, value in ((b"seed", signed), (b"top_k", min(top_k, 2**63 - 1))):
                check(lib.cerne_sampler_set_integer(handle, key, len(key), value), EngineError)
            for name, number in (numbers if numbers is not None else {}).items():
                key = name.encode()
                check(lib.cerne_sampler_set_number(handle, key, len(key), number), EngineError)
            for token, added in (bias if bias is not None else {}).items():
                check(lib.cerne_sampler_add_bias(handle, _id(token), added), EngineError)
        except BaseException:
            self.close()
            raise

    def accept(self, ids: Sequence[int], generated: bool) -> None:
        """Remember tokens for the penalties: of the prompt, or generated ones."""
        tokens = np.array([_id(token) for token in ids], dtype=np.uint32)
        pointer = self._ffi.from_buffer("uint32_t[]", tokens)
        status = self._lib.cerne_sampler_accept(self._open(), pointer, len(tokens), int(generated))
        check(status, EngineError)

    def choose(self, logits_V: npt.NDArray[np.floating[Any]], choice: int, position: int) -> int:
        """The token that follows the logits; it is not accepted by this.

        Args:
            logits_V: raw logits, [V].
            choice: index of the answer (0 .. n - 1).
            position: absolute position that the token will take.
        Raises:
            EngineError: the logits define no distribution, or a token to change is outside them.
        """
        row_V = np.ascontiguousarray(logits_V, dtype=np.float32)
        pointer = self._ffi.from_buffer(self._floats, row_V)
        status = self._lib.cerne_sampler_choose(
            self._open(), pointer, row_V.size, choice, position, self._token
        )
        if status:
            check(status, EngineError)
        return int(self._token[0])


def _id(token: int) -> int:
    if not 0 <= token < 2**32:
        raise EngineError("a token id is out of range", value=token, allowed="0 to 2^32 - 1")
    return token
