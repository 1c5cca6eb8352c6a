"""cerne: a language-model workshop. `import cerne` is light: torch is loaded when a model is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Tokenizer", "__version__", "load"]

if TYPE_CHECKING:
    from cerne.engine.session import load
    from cerne.tokenizer.bpe import Tokenizer

_LAZY = {"load": "cerne.engine.session", "Tokenizer": "cerne.tokenizer.bpe"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'cerne' has no attribute {name!r}")
