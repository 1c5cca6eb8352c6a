"""The native engine beside transformers: logits of random small models, and Gemma 3's own parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cerne.engine.native_engine import NativeEngine
from cerne.model.native import native_from_folder
from cerne.native.model import NativeModel

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
}
IDS = np.random.default_rng(3).integers(0, 61, 150).tolist()


def scaled(model):
    """Weights large enough that no part of the model is lost in rounding."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.2)
        else:
            torch.nn.init.normal_(parameter, std=0.15)
    return model.eval()


def logits_of(engine: NativeEngine) -> np.ndarray:
    with engine.open(1, len(IDS)) as pool:
        found = pool.prefill(pool.start(), IDS, "all")
    assert found is not None
    return found


def greedy(step, count: int) -> list[int]:
    ids = IDS[:5]
    for _ in range(count):
        ids = [*ids, int(np.argmax(step(ids)))]
    return ids


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral"])
def test_logits_and_greedy_text_equal_transformers(kind, tmp_path):
    config = transformers.AutoConfig.for_model(kind, **SIZES)
    model = scaled(transformers.AutoModelForCausalLM.from_config(config))
    model.save_pretrained(tmp_path)
    engine = NativeEngine(native_from_folder(tmp_path, 2), 2)
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).logits[0].numpy()
        got = logits_of(engine)
        assert np.abs(expected).max() > 1.0
        np.testing.assert_allclose(got, expected, atol=1e-3, rtol=0)
        theirs = greedy(lambda ids: model(torch.tensor([ids])).logits[0, -1].numpy(), 256)
    with engine.open(1, 300) as pool:
        sequence = pool.start()
        pool.prefill(sequence, IDS[:4], "none")
        ours = greedy(lambda ids: pool.decode([sequence], ids[-1:])[0], 256)
    assert ours == theirs


GEMMA_PARTS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gemma_tensors(model):
    for name, parameter in model.named_parameters():
        value = parameter.detach().float()
        # GGUF files store what the norm multiplies by.
        value = value + 1.0 if "norm" in name else value
        parts = name.removeprefix("model.").split(".")
        if parts[0] == "layers":
            new = f"blk.{parts[1]}.{GEMMA_PARTS['.'.join(parts[2:-1])]}.weight"
        else:
            new = {"embed_tokens": "token_embd.weight", "norm": "output_norm.weight"}[parts[0]]
        yield new, "F32", tuple(value.shape), value.contiguous().numpy().reshape(-1).view(np.uint8)


def test_gemma3_equals_transformers():
    config = transformers.Gemma3TextConfig(
        **SIZES, sliding_window=40, query_pre_attn_scalar=16, rms_norm_eps=1e-6
    )
    assert config.layer_types[5] == "full_attention" and "sliding" in config.layer_types[6]
    model = scaled(transformers.Gemma3ForCausalLM(config))
    numbers = {
        "context_length": 512,
        "block_count": 7,
        "embedding_length": 32,
        "feed_forward_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 16,
        "attention.value_length": 16,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": 40,
        "rope.freq_base": 1_000_000.0,
    }
    native = NativeModel.from_tensors("gemma3", numbers, {}, gemma_tensors(model), 2)
    with torch.no_grad():
        expected = model(torch.tensor([IDS])).logits[0].numpy()
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(logits_of(NativeEngine(native, 2)), expected, atol=1e-3, rtol=0)
