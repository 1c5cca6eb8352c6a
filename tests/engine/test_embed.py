"""Hidden-state embeddings of the native engine beside the torch network's own hidden states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quantize_tools import model_directory, small_tokenizer

from cerne.engine.session import load
from cerne.errors import ConfigError, EngineError, InputError

TEXTS = ["Once upon a time there was a fox.", "a", "1234 rivers"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("embed") / "model"
    model_directory(out, small_tokenizer())
    return out


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_embeddings_equal_torch(folder, pooling):
    model = load(folder, engine="native", threads=2)
    got = model.embed(TEXTS, pooling=pooling)
    assert got.dtype == np.float32 and got.shape == (len(TEXTS), 256)
    network = model.network
    for text, vector in zip(TEXTS, got, strict=True):
        with torch.inference_mode():
            states = network(torch.tensor([model.tokenizer.encode_prompt(text)]))[0].numpy()
        expected = states[-1] if pooling == "last" else states.mean(axis=0)
        assert np.abs(expected).max() > 0.5
        assert np.abs(vector - expected).max() < 1e-4


def test_a_list_may_be_empty(folder):
    assert load(folder, engine="native").embed([]).shape == (0, 256)


def test_what_cannot_be_embedded_is_named(folder):
    model = load(folder, engine="native")
    with pytest.raises(InputError, match="list of texts"):
        model.embed("a text")
    with pytest.raises(InputError, match="mean, last"):
        model.embed(["a"], pooling="max")
    with pytest.raises(EngineError, match="1 to 512"):
        model.embed(["a " * 2000])
    with pytest.raises(ConfigError, match="native"):
        load(folder, engine="torch").embed(["a"])
