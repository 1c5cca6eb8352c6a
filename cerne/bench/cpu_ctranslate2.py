"""CTranslate2 in int8 as `cerne bench cpu` runs it: a model of the same shape, random weights.

CTranslate2 reads no GGUF, and its speed depends on the shape alone. It decodes only what it
generates itself, so steps are timed between its callbacks; end tokens cannot end a text early.
"""

from __future__ import annotations

import importlib
import multiprocessing
import time
from pathlib import Path
from typing import Any

from cerne.bench.cpu_worker import STRIDE, Start

COMPUTE_TYPE = "int8_float32"


class CTranslate2:
    """Implements `Engine`."""

    def __init__(self, start: Start) -> None:
        package: Any = importlib.import_module("ctranslate2")
        self.about = {
            "version": package.__version__,
            "settings": f"{COMPUTE_TYPE}, random weights of the same shape",
        }
        self.chosen: dict[str, str] = {}
        self._start = start
        self._generator = package.Generator(
            str(_folder(start)), compute_type=COMPUTE_TYPE, intra_threads=start.threads
        )

    @classmethod
    def prepare(cls, start: Start) -> None:
        """Write the model once, in a process that ends, so that its memory does not count."""
        importlib.import_module("ctranslate2")
        if not _folder(start).exists():
            writer = multiprocessing.get_context("fork").Process(target=_write, args=(start,))
            writer.start()
            writer.join()
            if writer.exitcode != 0:
                raise RuntimeError("the CTranslate2 model of that shape was not written")

    def decode(self, sequences: int, start: int, tokens: int) -> list[float]:
        """See `Engine.decode`."""
        # The first callback comes after the prompt; a prompt needs one token at least.
        return self._generate(sequences, max(1, start), tokens + 1)[1:]

    def prefill(self, tokens: int) -> list[float]:
        """See `Engine.prefill`."""
        return self._generate(1, tokens, 1)

    def _generate(self, sequences: int, prompt: int, new: int) -> list[float]:
        ids = self._start.ids
        prompts = [
            [str(ids[(STRIDE * s + i) % len(ids)]) for i in range(prompt)] for s in range(sequences)
        ]
        moments: list[float] = []

        def tick(result: Any) -> bool:
            if result.batch_id == 0:
                moments.append(time.perf_counter())
            return False

        begin_s = time.perf_counter()
        self._generator.generate_batch(
            prompts,
            max_length=new,
            min_length=new,
            end_token=[],
            include_prompt_in_result=False,
            callback=tick,
        )
        return [b - a for a, b in zip([begin_s, *moments], moments, strict=False)]


def _folder(start: Start) -> Path:
    return Path(start.scratch) / ("ctranslate2-" + Path(start.model).stem)


def _write(start: Start) -> None:
    import numpy as np

    specs: Any = importlib.import_module("ctranslate2.specs")
    common: Any = importlib.import_module("ctranslate2.specs.common_spec")
    shape = start.shape
    width, heads, kv_heads = shape["width"], shape["heads"], shape["kv_heads"]
    attention, kv_width = heads * shape["head_width"], kv_heads * shape["head_width"]
    draw = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> Any:
        return draw.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)

    spec = specs.TransformerDecoderModelSpec.from_config(
        shape["layers"],
        heads,
        activation=common.Activation.SWISH,
        pre_norm=True,
        ffn_glu=True,
        rms_norm=True,
        rotary_dim=0,
        rotary_interleave=False,
        num_heads_kv=None if kv_heads == heads else kv_heads,
        head_dim=shape["head_width"],
    )
    decoder, ones = spec.decoder, np.ones(width, np.float32)
    decoder.scale_embeddings = False
    decoder.embeddings.weight = matrix(shape["vocab"], width)
    decoder.projection.weight = decoder.embeddings.weight
    decoder.layer_norm.gamma = ones
    for layer in decoder.layer:
        layer.self_attention.layer_norm.gamma = layer.ffn.layer_norm.gamma = ones
        layer.self_attention.linear[0].weight = matrix(attention + 2 * kv_width, width)
        layer.self_attention.linear[1].weight = matrix(width, attention)
        layer.ffn.linear_0.weight = matrix(shape["ffn"], width)
        layer.ffn.linear_0_noact.weight = matrix(shape["ffn"], width)
        layer.ffn.linear_1.weight = matrix(width, shape["ffn"])
    spec.register_vocabulary([str(i) for i in range(shape["vocab"])])
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = "0"
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    spec.optimize(quantization="int8")
    folder = _folder(start)
    partial = folder.with_suffix(".partial")
    partial.mkdir()
    spec.save(str(partial))
    partial.rename(folder)
