"""A small random model with a real tokenizer on disk, made once."""

from __future__ import annotations

import pytest

from cerne.model.hf import save_model
from cerne.tokenizer.bpe import Tokenizer
from tests.engine.fakes import small_model

TEXT = (
    "Ana walked to the old harbour and saw three blue boats. O menino não viu o coração da casa. "
    "The cat sleeps; the dog runs after the ball, and 12 + 30 is 42. "
    "\u65e5\u672c\u8a9e \U0001f40b\n"
)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    """A model directory: byte-level BPE with the default chat template, random weights."""
    folder = tmp_path_factory.mktemp("engine") / "model"
    tokenizer = Tokenizer.train([TEXT * 20], vocab_size=320)
    model = small_model(seed=2, scale=3.0, vocab_size=tokenizer.vocab_size)
    save_model(folder, model, tokenizer, {})
    return folder


@pytest.fixture(scope="session")
def lm(model_dir):
    """The same model, loaded."""
    import cerne

    return cerne.load(model_dir, threads=1)
