"""From the times of `cerne bench cpu` to medians, ratios and tables.

A ratio is how many times as fast cerne is as a peer, in one round: the peer's median time over
ours. A stage's ratio is the median of its rounds; `best_steps` compares the fastest times of all
rounds, which is what a machine without other work would show.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cerne.bench.cpu_limits import ModelCost
from cerne.bench.cpu_process import OURS
from cerne.bench.report import Spread, table

Rounds = list[list[float]]

MEANING = (
    "times as fast as the peer: the peer's median step time over ours in each round; the median of "
    "the rounds, then of all models and thread counts; `ratios` is against the fastest peer; "
    "best steps: the fastest step of all rounds, what a machine without other work would show"
)


@dataclass(frozen=True)
class Stage:
    """What one model with one number of threads measured.

    Attributes:
        starts: engine -> the answers to its starts; see `cpu_worker.start_engine`.
        times: case -> engine -> seconds of every step, by round.
        units: case -> tokens that one time stands for.
        chosen: engine -> settings that it found out to be the fastest.
        left_out: case or engine -> why it is missing.
    """

    starts: Mapping[str, list[dict[str, Any]]]
    times: Mapping[str, Mapping[str, Rounds]]
    units: Mapping[str, int]
    chosen: Mapping[str, dict[str, str]]
    left_out: Mapping[str, str]

    def rates(self, case: str, engine: str) -> Spread:
        """Tokens per second of all sequences together: the median step of each round."""
        units = self.units[case]
        return Spread.of([units / statistics.median(steps) for steps in self.times[case][engine]])

    def best_rate(self, case: str, engine: str) -> float:
        """Tokens per second in the fastest step of all rounds."""
        return self.units[case] / min(min(steps) for steps in self.times[case][engine])

    def ratio(self, case: str, peer: str) -> Spread:
        """How many times as fast as the peer, round by round; rounds that both did."""
        pairs = zip(self.times[case][OURS], self.times[case][peer], strict=False)
        return Spread.of([statistics.median(b) / statistics.median(a) for a, b in pairs])

    def best_ratio(self, case: str, peer: str) -> float:
        """The ratio of the fastest steps of all rounds."""
        return self.best_rate(case, OURS) / self.best_rate(case, peer)

    def peers(self, case: str) -> list[str]:
        """Peers that did the case at least once."""
        return [name for name in self.times[case] if name != OURS]


def stage_results(
    stage: Stage, cost: ModelCost, bandwidth: float, matmul_peak: float
) -> dict[str, Any]:
    """A stage, JSON-ready.

    Args:
        bandwidth: bytes per second that as many threads read from memory.
        matmul_peak: float32 operations per second of as many threads.
    """
    found: dict[str, Any] = {}
    for case, engines in stage.times.items():
        found[case] = {
            "engines": {
                engine: {
                    "rate_tok_s": stage.rates(case, engine).to_json(),
                    "best_step_tok_s": round(stage.best_rate(case, engine), 2),
                    **_shares(stage, case, engine, cost, bandwidth, matmul_peak),
                }
                for engine in engines
            },
            "ratios": {peer: stage.ratio(case, peer).to_json() for peer in stage.peers(case)},
            "ratios_of_best_steps": {
                peer: round(stage.best_ratio(case, peer), 3) for peer in stage.peers(case)
            },
        }
    return {
        "cases": found,
        "starts": {engine: _start_results(answers) for engine, answers in stage.starts.items()},
        "chosen_settings": dict(stage.chosen),
        "left_out": dict(stage.left_out),
    }


def _shares(
    stage: Stage, case: str, engine: str, cost: ModelCost, bandwidth: float, matmul_peak: float
) -> dict[str, float]:
    rate = stage.rates(case, engine).median
    if case == "decode":
        return {"share_of_dram_read": round(rate * cost.bytes_per_token / bandwidth, 3)}
    if case.startswith("prefill"):
        share = rate * cost.operations_per_token / matmul_peak
        return {"times_float32_matmul_peak": round(share, 3)}
    return {}


def _start_results(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    keys = ("load_s", "first_token_s", "peak_rss_bytes", "imported_rss_bytes")
    return {key: Spread.of([answer[key] for answer in answers]).to_json() for key in keys}


def overall_ratios(models: Mapping[str, Any]) -> dict[str, Any]:
    """The ratios over all models and thread counts: against the fastest peer, and each peer."""
    fastest: dict[str, list[float]] = {}
    quiet: dict[str, list[float]] = {}
    by_peer: dict[str, dict[str, list[float]]] = {}
    for model in models.values():
        for stage in model["threads"].values():
            for case, found in stage["cases"].items():
                medians = {peer: ratio["median"] for peer, ratio in found["ratios"].items()}
                if medians:
                    fastest.setdefault(case, []).append(min(medians.values()))
                    quiet.setdefault(case, []).append(min(found["ratios_of_best_steps"].values()))
                for peer, median in medians.items():
                    by_peer.setdefault(peer, {}).setdefault(case, []).append(median)

    def medians_of(lists: Mapping[str, list[float]]) -> dict[str, float]:
        return {case: round(statistics.median(values), 3) for case, values in lists.items()}

    return {
        "ratios": medians_of(fastest),
        "ratios_of_peers": {peer: medians_of(lists) for peer, lists in by_peer.items()},
        "ratios_of_best_steps": medians_of(quiet),
        "ratios_mean": MEANING,
    }


def stage_table(stage: Stage) -> str:
    """Rates, starts, memory and ratios as text."""
    engines = list(stage.starts)
    rates = [["tok/s, median (low-high)", *engines]]
    for case, times in stage.times.items():
        cells = [stage.rates(case, e).text() if e in times else "-" for e in engines]
        rates.append([case, *cells])
    for label, key, scale in (
        ("load to first token, ms", "first_token_s", 1e3),
        ("peak memory then, MB", "peak_rss_bytes", 1e-6),
    ):
        spreads = [Spread.of([a[key] * scale for a in stage.starts[e]]) for e in engines]
        rates.append([label, *(spread.text(0) for spread in spreads)])
    ratios = [["cerne is x faster than", *engines[1:], *(f"{e}, best step" for e in engines[1:])]]
    for case, times in stage.times.items():
        cells = [stage.ratio(case, e).text(2) if e in times else "-" for e in engines[1:]]
        cells += [f"{stage.best_ratio(case, e):.2f}" if e in times else "-" for e in engines[1:]]
        ratios.append([case, *cells])
    lines = [table(rates), "", table(ratios)]
    lines += [f"{name} is left out: {reason}" for name, reason in stage.left_out.items()]
    return "\n".join(lines)
