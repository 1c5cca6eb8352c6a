"""Ownership of an object of the core: made once, freed once."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from typing_extensions import Self

from cerne.errors import CerneError, TokenizerError
from cerne.native.library import check, library


class NativeHandle:
    """Owns one object of the core until `close`, the end of `with`, or garbage collection.

    Args:
        kind: names the C functions, cerne_KIND_MAKE and cerne_KIND_destroy.
        arguments: what the making function takes before the new handle.
        make: the making function's last word.
        error: the class of every refusal.

    Raises:
        error: the core cannot make it.
    """

    _handle: Any = None

    def __init__(
        self,
        kind: str,
        *arguments: object,
        make: str = "create",
        error: type[CerneError] = TokenizerError,
    ) -> None:
        self._kind = kind
        self._error = error
        self._ffi, self._lib, _ = library()
        out = self._ffi.new(f"cerne_{kind}**")
        check(getattr(self._lib, f"cerne_{kind}_{make}")(*arguments, out), error)
        self._handle = out[0]

    def close(self) -> None:
        """Frees the native memory; later calls are refused. Safe to call twice."""
        handle, self._handle = self._handle, None
        if handle is not None:
            getattr(self._lib, f"cerne_{self._kind}_destroy")(handle)

    def _open(self) -> Any:
        if self._handle is None:
            raise self._error(f"the {self._kind} is closed", hint="load or make it again")
        return self._handle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # At the end the interpreter may be half gone, and the system frees the memory.
        if not sys.is_finalizing():
            self.close()
