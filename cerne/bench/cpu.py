"""`cerne bench cpu`: speed on the CPU side by side with peers, on the same file and token ids.

Every engine runs in its own process and they are asked in turn, so that a slow moment of the
machine hits all alike; what is compared is the ratio within a round. Measured: decoding at an empty
and at a deep context, reading a prompt of 512 tokens, eight sequences at once, loading to the first
token, memory. Leaves out sampling and text.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cerne.bench.cpu_limits import ModelCost, model_cost, read_bandwidth
from cerne.bench.cpu_process import OURS, Contender, Worker, find_peers, parse_pythons
from cerne.bench.cpu_report import Stage, overall_ratios, stage_results, stage_table
from cerne.bench.report import Spread, with_circumstances
from cerne.bench.train import matmul_peak
from cerne.engine.locate import find_model
from cerne.errors import EngineError, InputError, ModelError
from cerne.progress import Progress, say

CAPACITY = 1024  # tokens of the sequence that reads prompts
PREFILL = 512
BATCH = 8
BATCH_START = 32
STARTS = 3
NUM_IDS = 4096 + 64 * BATCH


@dataclass(frozen=True)
class Case:
    """One kind of request.

    Attributes:
        name: its key in the results.
        request: what the worker is asked.
        units: tokens that one measured time stands for.
        reaches: tokens of context at its end.
    """

    name: str
    request: dict[str, Any]
    units: int
    reaches: int


def cases(tokens: int, long: bool) -> list[Case]:
    """What is measured; a decode at context N takes the last `tokens` steps before N."""
    found = [_decode("decode", 1, 0, tokens)]
    for depth in (1024, 4096) if long else (1024,):
        found.append(_decode(f"decode@{depth}", 1, depth - tokens, tokens))
    found.append(Case("prefill512", {"kind": "prefill", "tokens": PREFILL}, PREFILL, PREFILL))
    found.append(_decode("batch8", BATCH, BATCH_START, tokens))
    return found


def _decode(name: str, sequences: int, start: int, tokens: int) -> Case:
    request = {"kind": "decode", "sequences": sequences, "start": start, "tokens": tokens}
    return Case(name, request, sequences, start + tokens)


def run(
    names: Sequence[str],
    *,
    peers: Sequence[str] = (),
    peer_pythons: Sequence[str] = (),
    threads: Sequence[int] = (1, 2),
    repetitions: int = 5,
    tokens: int = 32,
    long: bool = False,
) -> dict[str, Any]:
    """Measure every model with every number of threads, and print tables.

    Args:
        names: GGUF files or the names of installed packages that hold one.
        peers: see `find_peers`.
        peer_pythons: see `parse_pythons`.
        repetitions: rounds in which every engine does every case once.
        tokens: steps of a decode.
        long: decode at a context of 4,096 too.
    Returns:
        results with machine, commit and command, JSON-ready.
    Raises:
        InputError, ModelError, EnvironmentLack: before anything is measured.
    """
    if not 8 <= tokens <= 256:
        raise InputError("the number of steps is out of range", value=tokens, allowed="8 to 256")
    if not names:
        raise InputError("no model is named", hint="--model smollm2")
    models = {Path(name).stem: model_file(name) for name in names}
    if len(models) < len(names):
        raise InputError("two models have the same name", value=", ".join(names))
    costs = {name: model_cost(path) for name, path in models.items()}
    found, missing = find_peers(peers, parse_pythons(peer_pythons))
    for reason in missing:
        say(reason)
    bandwidth = {count: Spread.of(read_bandwidth(count)) for count in threads}
    products = {count: matmul_peak(count) for count in threads}
    about: dict[str, Any] = {}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="cerne-bench-") as scratch:
        for name, path in models.items():
            results[name] = {
                "file_bytes": costs[name].file_bytes,
                "bytes_per_token": costs[name].bytes_per_token,
                "operations_per_token": costs[name].operations_per_token,
                "threads": {},
            }
            for count in threads:
                measurement = _Stage(name, path, costs[name], count, found, scratch)
                stage = measurement.measure(cases(tokens, long), repetitions)
                about |= measurement.about
                results[name]["threads"][str(count)] = stage_results(
                    stage, costs[name], bandwidth[count].median, products[count]
                )
                title = f"{name}, {count} thread{'s' if count > 1 else ''}"
                print(f"\n{title}\n{stage_table(stage)}", flush=True)
    limits = {
        "dram_read_bytes_s": {str(count): spread.to_json() for count, spread in bandwidth.items()},
        "float32_matmul_operations_s": {str(count): rate for count, rate in products.items()},
        "how": "read: libc memchr over 512 MiB, each thread its part; a model near the size of the "
        "last level of cache can exceed it. float32: torch.mm of width 1024; int8 products can "
        "exceed it, about twofold where the processor has AVX2 only",
    }
    return with_circumstances(
        {
            **overall_ratios(results),
            "models": results,
            "limits": limits,
            "versions": about,
            "left_out": missing,
            "repetitions": repetitions,
            "tokens": tokens,
        }
    )


def model_file(name: str) -> Path:
    """The GGUF file that a user's MODEL stands for.

    Raises:
        ModelError: there is none.
    """
    path = Path(name)
    found = path if path.suffix == ".gguf" and path.is_file() else find_model(name)
    if found.suffix != ".gguf":
        raise ModelError(
            "the peers read GGUF files only", value=name, allowed="a .gguf file or smollm2"
        )
    return found


@dataclass
class _Stage:
    """One model with one number of threads: processes, rounds, and what they measured."""

    name: str
    path: Path
    cost: ModelCost
    threads: int
    peers: Sequence[Contender]
    scratch: str
    about: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, dict[str, str]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def measure(self, wanted: Sequence[Case], repetitions: int) -> Stage:
        """Start every engine a few times, then ask the last of each in turn."""
        fitting = [case for case in wanted if case.reaches <= self.cost.context]
        starts: dict[str, list[dict[str, Any]]] = {}
        times: dict[str, dict[str, list[list[float]]]] = {case.name: {} for case in fitting}
        label = f"{self.name}, threads {self.threads}"
        num_starts = min(STARTS, repetitions)
        contenders = self._contenders()
        total = len(contenders) * (num_starts + repetitions * len(fitting))
        with Progress(label, total=total, unit="turn") as bar, self._workers() as workers:
            for turn in range(num_starts):
                for contender in _rotated(contenders, turn):
                    bar.advance()
                    if contender.name in self.failures:
                        continue
                    bar.note(f"start {contender.name}")
                    old = workers.pop(contender.name, None)
                    if old is not None:
                        old.close()
                    workers[contender.name] = Worker(contender, self.threads)
                    answer = self._ask(workers, contender.name, self._first(contender.name))
                    if answer is not None:
                        starts.setdefault(contender.name, []).append(answer)
            for turn in range(repetitions):
                for case in fitting:
                    for contender in _rotated(contenders, turn):
                        bar.advance()
                        if contender.name not in workers:
                            continue
                        bar.note(f"{case.name} {contender.name}")
                        answer = self._ask(workers, contender.name, case.request)
                        if answer is not None:
                            rounds = times[case.name].setdefault(contender.name, [])
                            rounds.append(answer["times_s"])
        units = {case.name: case.units for case in fitting}
        skipped = {
            case.name: f"the model's context is {self.cost.context}"
            for case in wanted
            if case not in fitting
        }
        return Stage(starts, times, units, self.chosen, {**skipped, **self.failures})

    def _contenders(self) -> list[Contender]:
        able = []
        for peer in self.peers:
            if peer.name == "ctranslate2" and self.cost.shape is None:
                self.failures[peer.name] = "its stand-in has llama's layers only"
            else:
                able.append(peer)
        return [Contender(OURS, sys.executable), *able]

    def _first(self, name: str) -> dict[str, Any]:
        draw = random.Random(0)
        margin = min(100, self.cost.vocab_size // 4)
        ids = [draw.randrange(margin, self.cost.vocab_size - margin) for _ in range(NUM_IDS)]
        return {
            "engine": name,
            "model": str(self.path.resolve()),
            "threads": self.threads,
            "capacity": min(CAPACITY, self.cost.context),
            "ids": ids,
            "shape": self.cost.shape or {},
            "scratch": self.scratch,
        }

    def _ask(
        self, workers: dict[str, Worker], name: str, request: dict[str, Any]
    ) -> dict[str, Any] | None:
        # A peer that fails is left out from there on; a failure of ours ends the run.
        try:
            answer = workers[name].ask(request)
        except EngineError as error:
            workers.pop(name).close()
            if name == OURS:
                raise
            self.failures[name] = str(error)
            say(f"{name} is left out of the rest: {error}")
            return None
        if "about" in answer:
            self.about[name] = answer["about"]
        elif answer["chosen"]:
            self.chosen[name] = answer["chosen"]
        return answer

    @contextmanager
    def _workers(self) -> Iterator[dict[str, Worker]]:
        workers: dict[str, Worker] = {}
        try:
            yield workers
        finally:
            for worker in workers.values():
                worker.close()


def _rotated(contenders: Sequence[Contender], turn: int) -> list[Contender]:
    start = turn % len(contenders)
    return [*contenders[start:], *contenders[:start]]
