"""Loads libcerne and declares its functions from the header that lies beside it.

The part of `cerne.h` between the cdef marks is the only declaration of the interface: C, Go and
this module read the same text, so they cannot drift apart. Leaves out everything about what the
functions do; see tokenizer.py and its neighbours.
"""

from __future__ import annotations

import importlib.resources
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import cffi

from cerne.errors import CerneError, EnvironmentLack, InputError

OK = 0
INVALID_ARGUMENT = 1
OUT_OF_MEMORY = 2
BUFFER_TOO_SMALL = 3
STOPPED = 4


class Library(NamedTuple):
    """The loaded library: `ffi` makes C values, `lib` holds the functions."""

    ffi: Any
    lib: Any
    path: Path


def cdef_of(header: str) -> str:
    """The declarations of `header` that cffi reads: between the marks, without the export macro."""
    marked = re.search(r"/\* \[cdef\] \*/(.*?)/\* \[/cdef\] \*/", header, re.DOTALL)
    if marked is None:
        raise EnvironmentLack("cerne.h has no cdef marks", hint="pip install --force-reinstall .")
    return marked.group(1).replace("CERNE_API ", "")


def installed_file(relative: str) -> Path:
    """A file that the build installed into the package, in a wheel or an editable install."""
    # joinpath per part: the editable install joins several folders into one view.
    found = importlib.resources.files("cerne")
    for part in relative.split("/"):
        found = found.joinpath(part)
    return Path(str(found))


@lru_cache(maxsize=1)
def library() -> Library:
    """The native core; loaded once.

    The environment variable CERNE_LIBRARY names another libcerne.so to load, for example one built
    with sanitizers; the header is always the installed one.

    Raises:
        EnvironmentLack: the library or its header is missing, cannot be loaded or is of another
            interface version.
    """
    override = os.environ.get("CERNE_LIBRARY")
    path = Path(override) if override is not None else installed_file("lib/libcerne.so")
    header = installed_file("include/cerne.h")
    for needed in (path, header):
        if not needed.is_file():
            raise EnvironmentLack(
                "the native core is not built", value=str(needed), hint="pip install -e ."
            )
    ffi = cffi.FFI()
    ffi.cdef(cdef_of(header.read_text(encoding="ascii")))
    try:
        lib = ffi.dlopen(str(path))
    except OSError as error:
        raise EnvironmentLack(
            f"the native core cannot be loaded: {error}", hint="pip install -e ."
        ) from error
    found, wanted = lib.cerne_abi_version(), lib.CERNE_ABI_VERSION
    if found // 100 != wanted // 100 or found < wanted:
        raise EnvironmentLack(
            "the native core is of another version",
            value=found,
            allowed=f"{wanted} to {wanted // 100 * 100 + 99}",
            hint="pip install -e .",
        )
    return Library(ffi, lib, path)


def last_error() -> str:
    """The sentence of the last failed call on this thread."""
    ffi, lib, _ = library()
    length = ffi.new("size_t*")
    text = lib.cerne_last_error(length)
    return bytes(ffi.buffer(text, length[0])).decode("utf-8", "replace")


def check(status: int, error: type[CerneError] = InputError) -> None:
    """Raises for a status other than OK.

    Raises:
        error: the caller's input was refused.
        MemoryError: the core ran out of memory.
        RuntimeError: a bug in the core.
    """
    if status == OK:
        return
    message = last_error()
    if status in (INVALID_ARGUMENT, BUFFER_TOO_SMALL, STOPPED):
        raise error(message)
    if status == OUT_OF_MEMORY:
        raise MemoryError(message)
    raise RuntimeError(f"bug in the native core: {message}")
