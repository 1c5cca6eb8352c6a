"""One contender of `cerne bench train` in a process of its own, so that each has its allocator.

Protocol: started as `python -m cerne.bench.train_contender NAME SIZE THREADS`; builds, warms up and
prints {"ready": ...}; then for each line `N` on standard input makes N updates and prints their
times, for `profile` the shares of operations of our eager update, and ends at the end of input.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from cerne.bench.train_models import (
    SHAPES,
    Contender,
    cerne_step,
    nanogpt_step,
    transformers_step,
)
from cerne.device import peak_rss_bytes, resolve_precision

BEST_DTYPE = resolve_precision("auto", torch.device("cpu"))[0]
_BEST = str(BEST_DTYPE).removeprefix("torch.")

CONTENDERS = {
    "cerne": Contender(
        lambda shape: cerne_step(shape, compiled=True, dtype=BEST_DTYPE),
        allocator=True,
        note=f"as shipped for long runs: compiled, {_BEST}, own allocator settings",
    ),
    "cerne eager": Contender(
        lambda shape: cerne_step(shape, compiled=False, dtype=BEST_DTYPE),
        allocator=True,
        note=f"as shipped for short runs: eager, {_BEST}, own allocator settings",
    ),
    "nanogpt-style": Contender(
        nanogpt_step, allocator=False, note="fp32, eager, AdamW, default allocator"
    ),
    "transformers": Contender(
        lambda shape: transformers_step(shape, compiled=False),
        allocator=False,
        note="Llama, fp32, eager, AdamW, default allocator",
    ),
    "transformers best": Contender(
        lambda shape: transformers_step(shape, compiled=True, dtype=BEST_DTYPE, fused=True),
        allocator=True,
        note=f"Llama, compiled, {_BEST}, fused AdamW and our allocator settings",
    ),
}

# Operation name -> what it is, for the shares of time; the first match counts.
_KINDS = (
    ("matrix products", ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear")),
    ("softmax and loss", ("softmax", "logsumexp", "gather", "scatter")),
    ("optimizer and clipping", ("_fused_adamw_", "_foreach_", "vector_norm")),
    ("copies and fills", ("copy_", "fill_", "cat", "index", "zero_")),
)


def profile_eager(size: str, steps: int = 2) -> dict[str, float]:
    """Share of own CPU time by kind of operation over some eager updates on one core.

    One core, because the profiler sees the thread that calls it and not the workers.
    """
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(1)
    step = cerne_step(SHAPES[size], compiled=False, dtype=BEST_DTYPE)
    step()
    with profile(activities=[ProfilerActivity.CPU]) as record:
        for _ in range(steps):
            step()
    times: dict[str, float] = {}
    for event in record.key_averages():
        kind = next((k for k, names in _KINDS if any(n in event.key for n in names)), "elementwise")
        times[kind] = times.get(kind, 0.0) + event.self_cpu_time_total
    total = sum(times.values())
    return {kind: value / total for kind, value in sorted(times.items(), key=lambda kv: -kv[1])}


def main() -> None:
    """Serve one contender; see the module's protocol."""
    name, size, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(threads)
    step = CONTENDERS[name].build(SHAPES[size])
    begin_s = time.perf_counter()
    step()
    first_s = time.perf_counter() - begin_s
    step()
    _say({"ready": name, "first_step_s": first_s})
    for line in sys.stdin:
        if line.strip() == "profile":
            _say({"shares": profile_eager(size)})
            continue
        times_s = []
        for _ in range(int(line)):
            begin_s = time.perf_counter()
            step()
            times_s.append(time.perf_counter() - begin_s)
        _say({"times_s": times_s, "peak_rss_bytes": peak_rss_bytes()})


def _say(content: dict[str, Any]) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    main()
