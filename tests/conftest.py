"""Shared fixtures. Tests that need the shared corpora skip with a reason when they are absent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# A background shell starts its commands with SIGINT ignored, which children would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
