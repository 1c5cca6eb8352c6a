"""Shared fixtures. Tests that need the shared corpora skip with a reason when they are absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repo_dir() -> Path:
    """The root of the source tree."""
    return REPO


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder with real corpora: CERNE_SHARED or ../shared beside the checkout."""
    folder = Path(os.environ.get("CERNE_SHARED", REPO.parent / "shared"))
    if not (folder / "data" / "text").is_dir():
        pytest.skip("no shared corpora: set CERNE_SHARED to a folder with data/text")
    return folder
