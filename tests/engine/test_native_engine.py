"""The native engine: equal to torch up to rounding, and to itself bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cerne
from cerne.engine.native_engine import NativeEngine
from cerne.engine.torch_engine import TorchEngine
from cerne.errors import ConfigError, EngineError, InputError, ModelError
from cerne.model.config import ModelConfig
from cerne.model.native import NotNativeError, native_from_network, native_from_tensors
from cerne.model.transformer import Transformer
from tests.engine.fakes import small_model

VOCAB = 517
FAMILIES = [
    {"architecture": "llama"},
    {"architecture": "llama", "attention_bias": True, "mlp_bias": True},
    {"architecture": "mistral", "sliding_window": 50},
    {"architecture": "qwen2"},
    {"architecture": "qwen3"},
    {"architecture": "llama", "tie_word_embeddings": False, "head_dim": 24},
    {"head_dim": 10},
    {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
]


def random_network(seed: int = 0, **options) -> Transformer:
    """Weights large enough that every part of the model shows in the logits."""
    torch.manual_seed(seed)
    config = ModelConfig(
        **{
            "vocab_size": VOCAB,
            "hidden_size": 96,
            "intermediate_size": 160,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            **options,
        }
    )
    model = Transformer(config).eval()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.1)
        else:
            parameter.data.mul_(3.0)
    return model


def read(engine, ids, logits="all"):
    with engine.open(1, len(ids)) as pool:
        return pool.prefill(pool.start(), ids, logits)


@pytest.fixture(scope="module")
def ids() -> list[int]:
    return np.random.default_rng(1).integers(0, VOCAB, 200).tolist()


@pytest.mark.parametrize("options", FAMILIES, ids=str)
def test_logits_equal_torch(options, ids):
    model = random_network(**options)
    native = NativeEngine(native_from_network(model, 2), threads=2)
    expected = read(TorchEngine(model), ids)
    got = read(native, ids)
    assert got.dtype == np.float32 and got.shape == (200, VOCAB)
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(got, expected, atol=2e-5, rtol=0)
    assert native.arithmetic == "cerne-1" and native.vocab_size == VOCAB


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_read_as_they_are_stored(dtype, ids):
    model = random_network()
    stored = [(name, p.detach().to(dtype)) for name, p in model.named_parameters()]
    native = native_from_tensors(model.config, stored, threads=2)
    rounded = random_network()
    for (_, parameter), (_, tensor) in zip(rounded.named_parameters(), stored, strict=True):
        parameter.data.copy_(tensor.float())
    # Keys and values are binary16 beside 16-bit weights: that much may differ.
    error = 2e-5 if dtype == torch.float64 else 2e-2
    expected = read(TorchEngine(rounded), ids)
    np.testing.assert_allclose(read(NativeEngine(native, 2), ids), expected, atol=error, rtol=0)
    if dtype != torch.float64:
        size = native.statistic("weight_bytes")
        assert size < 0.6 * native_from_network(model, 1).statistic("weight_bytes")


@pytest.mark.parametrize("options", FAMILIES[:3], ids=str)
def test_same_bits_for_all_threads_chunks_and_batches(options, ids):
    model = native_from_network(random_network(**options), 2)
    expected = read(NativeEngine(model, 1), ids)
    for threads in (1, 2, 3):
        for chunk in (1, 16, 64, 512):
            engine = NativeEngine(model, threads, prefill_chunk=chunk)
            np.testing.assert_array_equal(read(engine, ids), expected)
    engine = NativeEngine(model, 2)
    with engine.open(5, 200) as pool:
        mine = pool.start()
        others = [pool.start() for _ in range(4)]
        pool.prefill(mine, ids[:50], "none")
        for i, other in enumerate(others):
            pool.prefill(other, ids[i : i + 20], "none")
        for i in range(50, 120):
            step = pool.decode([others[0], mine, *others[1:]], [i, ids[i], i + 1, i + 2, i + 3])
            np.testing.assert_array_equal(step[1], expected[i])


def test_forked_sequences_continue_like_fresh_ones(ids):
    engine = NativeEngine(native_from_network(random_network(), 1), 2)
    expected = read(engine, ids)
    with engine.open(2, 200) as pool:
        first = pool.start()
        pool.prefill(first, ids[:100], "none")
        second = pool.fork(first)
        pool.decode([first], [7])
        np.testing.assert_array_equal(pool.decode([second], [ids[100]])[0], expected[100])
        assert (pool.length(first), pool.length(second)) == (101, 101)
        pool.drop(first)
        third = pool.start()
        last = pool.prefill(third, ids)
        np.testing.assert_array_equal(last, expected[-1:])


def test_capacity_is_hard_and_nothing_is_kept_of_a_refusal(ids):
    engine = NativeEngine(native_from_network(random_network(), 1), 1, prefill_chunk=8)
    with engine.open(1, 30) as pool:
        sequence = pool.start()
        pool.prefill(sequence, ids[:20])
        with pytest.raises(EngineError, match="the sequence is full"):
            pool.prefill(sequence, ids[:11])
        assert pool.length(sequence) == 20
        with pytest.raises(EngineError, match="allowed: less than 517"):
            pool.decode([sequence], [VOCAB])
        with pytest.raises(EngineError, match="outside the vocabulary"):
            pool.decode([sequence], [-1])
        with pytest.raises(EngineError, match="no tokens"):
            pool.prefill(sequence, [])
        with pytest.raises(EngineError, match="sequences already"):
            pool.start()
    with pytest.raises(EngineError, match="closed"):
        pool.start()
    with pytest.raises(EngineError, match="cannot be that long"):
        engine.open(1, 513)
    with pytest.raises(EngineError, match="outside the model's"):
        NativeEngine(engine.model, 1, context=513)
    for threads in (0, 10_000):
        with pytest.raises(EngineError, match="threads is out of range"):
            NativeEngine(engine.model, threads)


def test_models_without_a_native_form(tmp_path):
    dynamic = random_network(rope_scaling={"rope_type": "dynamic", "factor": 2.0})
    with pytest.raises(NotNativeError, match="depends on the length"):
        native_from_network(dynamic, 1)
    mixed = random_network(
        architecture="qwen3",
        sliding_window=8,
        layer_types=("full_attention", "sliding_attention", "full_attention"),
    )
    with pytest.raises(NotNativeError, match="different sliding windows"):
        native_from_network(mixed, 1)
    model = random_network()
    tensors = [(n, p) for n, p in model.named_parameters() if "layers.2.mlp.up" not in n]
    with pytest.raises(ModelError, match=r"no tensor 'blk\.2\.ffn_up\.weight'"):
        native_from_tensors(model.config, tensors, 1)


def test_loading_chooses_the_engine(model_dir):
    native = cerne.load(model_dir, threads=1)
    torch_one = cerne.load(model_dir, threads=1, engine="torch")
    assert isinstance(native.engine, NativeEngine) and isinstance(torch_one.engine, TorchEngine)
    a = native.generate("Ana walked", max_tokens=40, temperature=0.0)
    b = torch_one.generate("Ana walked", max_tokens=40, temperature=0.0)
    assert a.tokens == b.tokens
    assert a.receipt["arithmetic"] == "cerne-1" and b.receipt["arithmetic"] == "torch"
    assert isinstance(cerne.load(model_dir, precision="bf16").engine, TorchEngine)
    with pytest.raises(ConfigError, match="native engine computes on the CPU"):
        cerne.load(model_dir, engine="native", precision="bf16")
    with pytest.raises(ConfigError, match="auto, native, torch"):
        cerne.load(model_dir, engine="fast")


def test_network_is_loaded_when_asked_for(model_dir):
    model = cerne.load(model_dir, threads=1)
    ids = [3, 1, 4, 1, 5]
    hidden = model.network(torch.tensor([ids]))
    expected = model.network.project(hidden)[0].detach().numpy()
    np.testing.assert_allclose(model.logits(ids), expected, atol=2e-5, rtol=0)
    engine = NativeEngine(native_from_network(small_model(), 1), 1)
    nowhere = cerne.engine.session.LanguageModel(None, model.tokenizer, engine=engine)
    with pytest.raises(InputError, match="as a torch network"):
        _ = nowhere.network


def test_models_that_torch_must_run_still_load(tmp_path, model_dir, capfd):
    from cerne.model.hf import save_model

    tokenizer = cerne.Tokenizer.load(model_dir)
    dynamic = random_network(
        vocab_size=tokenizer.vocab_size, rope_scaling={"rope_type": "dynamic", "factor": 2.0}
    )
    save_model(tmp_path / "m", dynamic, tokenizer, {})
    model = cerne.load(tmp_path / "m", threads=1)
    assert isinstance(model.engine, TorchEngine)
    assert "torch engine runs this model" in capfd.readouterr().err
    with pytest.raises(NotNativeError):
        cerne.load(tmp_path / "m", threads=1, engine="native")
