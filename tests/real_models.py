"""Where the real models lie that come as packages; a test that needs an absent one skips."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cerne.engine.packages import package_model
from cerne.errors import EnvironmentLack


def smollm2() -> Path:
    """The Q4_1 GGUF file of SmolLM2-135M-Instruct, 98 MB."""
    return _packaged("smollm2")


def gemma3() -> Path:
    """The Q4_K_M GGUF file of Gemma 3 270M, 253 MB. CERNE_GEMMA names a file elsewhere."""
    elsewhere = os.environ.get("CERNE_GEMMA")
    return _packaged("gemma3-270m") if elsewhere is None else Path(elsewhere)


def _packaged(name: str) -> Path:
    try:
        found = package_model(name)
    except EnvironmentLack as error:
        pytest.skip(str(error.hint))
    assert found is not None
    return found
