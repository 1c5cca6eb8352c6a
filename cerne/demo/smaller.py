"""The demo's last stage: the same model in fewer bits, beside itself.

In: the demo's folder. Out: model-q4_k_m.gguf in it, and for both forms the bytes on disk, the
tokens per second of one thread of text on the native engine, and the unseen questions that are
answered right.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cerne.demo.exam import show
from cerne.engine.locate import find_model
from cerne.engine.session import LanguageModel, load
from cerne.progress import human_count, say
from cerne.quantize.run import quantize

TARGET = "q4_k_m"
SPEED_TOKENS = 100


def quantized_path(folder: Path) -> Path:
    """Where the demo writes its quantized model."""
    return folder / f"model-{TARGET}.gguf"


def compare_sizes(folder: Path, threads: int | None) -> dict[str, Any]:
    """Quantize the model in `folder` and measure both; JSON-ready."""
    out = quantized_path(folder)
    written = quantize(folder, out, TARGET, force=True, threads=threads)
    weights = find_model(folder) / "model.safetensors"
    result: dict[str, Any] = {"bits_per_weight": round(written["bits_per_weight"], 3)}
    for name, path, size in (("f32", folder, weights), (TARGET, out, out)):
        model = load(path, threads=threads)
        shown = show(model)
        result[name] = {
            "bytes": size.stat().st_size,
            "rate_tok_s": round(_rate_tok_s(model), 1),
            "questions_right": sum(one.right for one in shown),
            "questions": len(shown),
        }
        one = result[name]
        say(
            f"{name}: {one['bytes'] / 1e6:.2f} MB, {human_count(one['rate_tok_s'])} tok/s, "
            f"{one['questions_right']} of {one['questions']} unseen questions right"
        )
    return result


def _rate_tok_s(model: LanguageModel) -> float:
    """Tokens per second of one growing text, sampling included; the best of three."""
    best_s = float("inf")
    for _ in range(3):
        begin_s = time.perf_counter()
        model.generate("Ana has", max_tokens=SPEED_TOKENS, temperature=0.0, ignore_eos=True)
        best_s = min(best_s, time.perf_counter() - begin_s)
    return SPEED_TOKENS / best_s
