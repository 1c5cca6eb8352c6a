"""One engine of `cerne bench cpu` in a process of its own, so that threads and memory do not mix.

Protocol, one JSON object a line: the parent writes "engine" and the fields of `Start`; the worker
loads, reads a short prompt and answers with the times and memory of that start. Every later line
{"kind": "decode" | "prefill", "sequences", "start", "tokens"} is measured here with perf_counter
and answered with {"times_s", "chosen"}; a failure is {"error"}. Needs only the standard library and
the engine's package, because peers may live in another interpreter.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cerne.device import peak_rss_bytes

# Engine -> (module, class); imported in the worker's interpreter only.
ENGINES = {
    "cerne": ("cerne.bench.cpu_ours", "Cerne"),
    "llama.cpp": ("cerne.bench.cpu_peers", "LlamaCpp"),
    "ik": ("cerne.bench.cpu_peers", "IkLlamaCpp"),
    "ctranslate2": ("cerne.bench.cpu_ctranslate2", "CTranslate2"),
}
FIRST_PROMPT = 16
WARM_STEPS = 2
STRIDE = 64  # sequence s of a batch reads the shared ids from STRIDE * s on
DEEP = 512  # from this context on, the attention settings of an engine are tried out
TRIAL_STEPS = 6
SETTLE_S = 0.02  # the threads of the engine that was asked before stop spinning


@dataclass(frozen=True, kw_only=True)
class Start:
    """What an engine is started with.

    Attributes:
        model: path of a GGUF file.
        threads: threads that load and compute.
        capacity: tokens of the sequence that reads prompts.
        ids: token ids that every engine is fed, by position.
        shape: layers, width, heads, kv_heads, head_width, ffn, vocab, for engines that cannot read
            the file.
        scratch: an existing folder for converted files, deleted at the end of the run.
    """

    model: str
    threads: int
    capacity: int
    ids: list[int]
    shape: dict[str, int]
    scratch: str


class Pool(Protocol):
    """Sequences of one engine that grow together."""

    def read(self, sequence: int, ids: Sequence[int]) -> None:
        """Append a prompt to one sequence and wait for the logits of its last token."""

    def step(self, ids: Sequence[int]) -> None:
        """Append one token to every sequence and wait for all their logits."""

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens of every sequence."""

    def close(self) -> None:
        """Free the memory."""


class Engine(Protocol):
    """What the worker needs of an engine.

    Attributes:
        about: version and settings.
        chosen: settings that it found out to be the fastest, by request.
    """

    about: dict[str, str]
    chosen: dict[str, str]

    @classmethod
    def prepare(cls, start: Start) -> None:
        """Import code and convert files, before the clock of loading runs."""

    def decode(self, sequences: int, start: int, tokens: int) -> list[float]:
        """Seconds of each of `tokens` steps after a context of `start` tokens."""

    def prefill(self, tokens: int) -> list[float]:
        """Seconds to read a prompt of `tokens` tokens, one value."""


class Stepwise(ABC):
    """An engine that appends the tokens it is given; keeps one pool for each kind of request."""

    about: dict[str, str]

    def __init__(self, start: Start) -> None:
        self.start = start
        self.chosen: dict[str, str] = {}
        self._pools: dict[tuple[int, int], Pool] = {}

    @classmethod
    @abstractmethod
    def prepare(cls, start: Start) -> None:
        """See `Engine.prepare`."""

    @abstractmethod
    def open(self, sequences: int, capacity: int, variant: str) -> Pool:
        """A pool of empty sequences with room for `capacity` tokens each."""

    def settings(self, sequences: int, start: int) -> tuple[str, ...]:
        """Settings of such a request; the fastest of several is found out and kept."""
        return ("default",)

    def token(self, sequence: int, position: int) -> int:
        """The token that every engine is fed there."""
        ids = self.start.ids
        return ids[(STRIDE * sequence + position) % len(ids)]

    def decode(self, sequences: int, start: int, tokens: int) -> list[float]:
        """See `Engine.decode`."""
        key = (sequences, start)
        if key not in self._pools:
            self._pools[key] = self._fill(sequences, start, tokens)
        pool = self._pools[key]
        self._steps(pool, sequences, start, WARM_STEPS)
        return self._steps(pool, sequences, start, tokens)

    def prefill(self, tokens: int) -> list[float]:
        """See `Engine.prefill`."""
        key = (1, -1)
        if key not in self._pools:
            self._pools[key] = self.open(1, self.start.capacity, self.settings(1, 0)[0])
        pool, prompt = self._pools[key], [self.token(0, i) for i in range(tokens)]
        pool.truncate(0)
        begin_s = time.perf_counter()
        pool.read(0, prompt)
        return [time.perf_counter() - begin_s]

    def _fill(self, sequences: int, start: int, tokens: int) -> Pool:
        capacity = start + max(tokens, TRIAL_STEPS, WARM_STEPS)
        variants = self.settings(sequences, start)
        pools: dict[str, Pool] = {}
        for variant in variants:
            pools[variant] = self.open(sequences, capacity, variant)
            for s in range(sequences if start > 0 else 0):
                pools[variant].read(s, [self.token(s, i) for i in range(start)])
        if len(pools) == 1:
            return pools[variants[0]]
        times: dict[str, list[float]] = {variant: [] for variant in pools}
        for _ in range(3):
            for variant, pool in pools.items():
                times[variant] += self._steps(pool, sequences, start, TRIAL_STEPS)
        best = min(pools, key=lambda variant: statistics.median(times[variant]))
        self.chosen[f"context {start}"] = best
        for variant, pool in pools.items():
            if variant != best:
                pool.close()
        return pools[best]

    def _steps(self, pool: Pool, sequences: int, start: int, tokens: int) -> list[float]:
        rows = [[self.token(s, start + i) for s in range(sequences)] for i in range(tokens)]
        times_s = []
        for row in rows:
            begin_s = time.perf_counter()
            pool.step(row)
            times_s.append(time.perf_counter() - begin_s)
        pool.truncate(start)
        return times_s


def start_engine(request: dict[str, Any]) -> tuple[Engine, dict[str, Any]]:
    """Load the engine that `request` names and read a first prompt: (engine, the ready answer)."""
    module, name = ENGINES[request.pop("engine")]
    made = getattr(importlib.import_module(module), name)
    start = Start(**request)
    made.prepare(start)
    base_bytes = peak_rss_bytes()
    begin_s = time.perf_counter()
    engine: Engine = made(start)
    loaded_s = time.perf_counter()
    engine.prefill(FIRST_PROMPT)
    first_s = time.perf_counter()
    return engine, {
        "load_s": loaded_s - begin_s,
        "first_token_s": first_s - begin_s,
        "imported_rss_bytes": base_bytes,
        "peak_rss_bytes": peak_rss_bytes(),
        "about": engine.about,
    }


def measure(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request of the protocol."""
    time.sleep(SETTLE_S)
    gc.collect()
    gc.disable()
    try:
        if request["kind"] == "prefill":
            times_s = engine.prefill(request["tokens"])
        else:
            times_s = engine.decode(request["sequences"], request["start"], request["tokens"])
    finally:
        gc.enable()
    return {"times_s": times_s, "chosen": engine.chosen}


def main() -> None:
    """Serve one engine; see the module's protocol."""
    # Native code prints where it likes: only this module may write to the parent's pipe.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine: Engine | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if engine is None:
                engine, answer = start_engine(request)
            else:
                answer = measure(engine, request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if engine is None:
            return


if __name__ == "__main__":
    main()
