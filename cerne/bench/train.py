"""`cerne bench train`: training speed side by side with peers on the same shape, batch and threads.

Every contender runs in its own process and they take turns within one run, so that a slow moment of
the machine hits all alike. Reported: median tokens/s with the spread, the ratios to cerne, the
share of the matrix-product peak measured between the turns, and where cerne's time goes. Leaves
out: GPUs, and convergence (`cerne bench shakespeare`).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from cerne.bench.report import Spread, table, with_circumstances
from cerne.device import ALLOCATOR_TUNABLES, cpu_count
from cerne.errors import ConfigError, EnvironmentLack
from cerne.progress import Progress

STEPS_PER_TURN = {"micro": 4, "tiny": 1}


class Runner:
    """A contender's process."""

    def __init__(self, name: str, size: str, threads: int, allocator: bool) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
        environment["OMP_NUM_THREADS"] = str(threads)
        if allocator:
            environment["GLIBC_TUNABLES"] = ALLOCATOR_TUNABLES
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cerne.bench.train_contender", name, size, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.ready = self._read()

    def ask(self, request: str) -> dict[str, Any]:
        """Send one line of the protocol and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EnvironmentLack(
                f"the contender {self.name} ended early",
                value=self._process.wait(),
                hint="pip install 'cerne[bench]'",
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


def run(
    sizes: Sequence[str] = ("micro", "tiny"), repetitions: int = 7, threads: int | None = None
) -> dict[str, Any]:
    """Compare all contenders and print tables.

    Args:
        sizes: of micro (1.07M parameters) and tiny (24.6M).
        repetitions: turns of each contender.
        threads: default all cores.
    Returns:
        results with machine, commit and command, JSON-ready.
    """
    from cerne.bench.train_models import ROWS, SHAPES, TOKENS

    unknown = [size for size in sizes if size not in SHAPES]
    if unknown or not sizes:
        raise ConfigError("unknown size", value=unknown, allowed=", ".join(SHAPES))
    count = cpu_count() if threads is None else threads
    results = {size: _run_size(size, repetitions, count) for size in sizes}
    return with_circumstances({"threads": count, "rows": ROWS, "tokens": TOKENS, "sizes": results})


def _run_size(size: str, repetitions: int, threads: int) -> dict[str, Any]:
    from cerne.bench.train_contender import CONTENDERS
    from cerne.bench.train_models import ROWS, SHAPES, TOKENS

    shape, per_step = SHAPES[size], ROWS * TOKENS
    runners: list[Runner] = []
    rates: dict[str, list[float]] = {}
    memory: dict[str, int] = {}
    peaks: list[float] = []
    with Progress(
        f"bench train {size}", total=len(CONTENDERS) * (repetitions + 1), unit="turn"
    ) as bar:
        try:
            for name, contender in CONTENDERS.items():
                runners.append(Runner(name, size, threads, contender.allocator))
                bar.advance()
            for turn in range(repetitions):
                peaks.append(matmul_peak(threads))
                start = turn % len(runners)
                for runner in runners[start:] + runners[:start]:
                    answer = runner.ask(str(STEPS_PER_TURN[size]))
                    times_s = answer["times_s"]
                    rates.setdefault(runner.name, []).append(per_step * len(times_s) / sum(times_s))
                    memory[runner.name] = answer["peak_rss_bytes"]
                    bar.advance()
            shares = runners[0].ask("profile")["shares"]
        finally:
            for runner in runners:
                runner.close()
    flops = shape.flops_per_token(TOKENS)
    peak = statistics.median(peaks)
    ours = rates["cerne"]
    rows = [["", "tok/s", "cerne is x faster", "of matmul peak", "peak memory MB"]]
    contenders: dict[str, Any] = {}
    for runner in runners:
        spread = Spread.of(rates[runner.name])
        ratio = Spread.of([a / b for a, b in zip(ours, rates[runner.name], strict=True)])
        share = spread.median * flops / peak
        contenders[runner.name] = {
            "setup": CONTENDERS[runner.name].note,
            "rate_tok_s": spread.to_json(),
            "cerne_times_faster": ratio.to_json(),
            "share_of_matmul_peak": round(share, 3),
            "first_step_s": round(runner.ready["first_step_s"], 2),
            "peak_rss_bytes": memory[runner.name],
        }
        rows.append(
            [runner.name, spread.text(0), ratio.text(2), f"{share:.0%}",
             f"{memory[runner.name] / 1e6:.0f}"]
        )  # fmt: skip
    print(
        f"\n{size}: {shape.num_parameters():,} parameters, {ROWS} x {TOKENS} tokens per update, "
        f"{threads} threads; fp32 matmul peak {peak / 1e9:.0f} GFLOP/s\n{table(rows)}"
    )
    return {
        "parameters": shape.num_parameters(),
        "flops_per_token": flops,
        "matmul_peak_flops": Spread.of(peaks).to_json(),
        "contenders": contenders,
        "eager_time_by_kind": {kind: round(value, 3) for kind, value in shares.items()},
    }


def matmul_peak(threads: int, width: int = 1024, products: int = 8) -> float:
    """Float32 operations per second of a square matrix product, the best of a few."""
    import torch

    torch.set_num_threads(threads)
    left, right = torch.randn(width, width), torch.randn(width, width)
    torch.mm(left, right)
    best_s = float("inf")
    for _ in range(products):
        begin_s = time.perf_counter()
        torch.mm(left, right)
        best_s = min(best_s, time.perf_counter() - begin_s)
    return 2 * width**3 / best_s
