"""cerne: a language-model workshop. `import cerne` is light: torch is loaded when a model is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["SamplingParams", "Tokenizer", "__version__", "errors", "load"]

if TYPE_CHECKING:
    from cerne import errors
    from cerne.engine.interface import SamplingParams
    from cerne.engine.session import load
    from cerne.tokenizer.bpe import Tokenizer

_LAZY = {
    "SamplingParams": "cerne.engine.interface",
    "Tokenizer": "cerne.tokenizer.bpe",
    "load": "cerne.engine.session",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name == "errors":
        return importlib.import_module("cerne.errors")
    raise AttributeError(f"module 'cerne' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
