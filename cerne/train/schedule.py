"""Learning-rate and momentum schedules as pure functions of (step, total steps).

Inputs: the index of the update (0 is the first) and the number of updates of the whole run.
Output: a factor in [0, 1] that multiplies the peak learning rate. Nothing is stored, so a resumed
run needs no scheduler state.
"""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["cosine", "wsd", "constant"]


def lr_factor(
    step: int,
    total: int,
    *,
    schedule: Schedule = "cosine",
    warmup_fraction: float = 0.0,
    decay_fraction: float = 0.2,
    final_factor: float = 0.0,
) -> float:
    """The factor for update `step` (0 <= step < total) of a run of `total` updates.

    Warm-up is linear over the first `warmup_fraction` of the run and its first factor is above
    zero, so no update is wasted. Then:
    - "cosine": half a cosine from 1 to `final_factor` at the last update;
    - "wsd" (warm-up, stable, decay): 1, then linear to `final_factor` over the last
      `decay_fraction` of the run (decay_fraction=1 decays from the end of the warm-up);
    - "constant": 1.
    """
    last = total - 1
    warmup = warmup_steps(total, warmup_fraction)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if schedule == "constant":
        return 1.0
    start = warmup
    if schedule == "wsd":
        start = max(warmup, total - max(1, round(total * decay_fraction)))
    if step < start or last <= start:
        return 1.0
    progress = min(1.0, (step - start) / (last - start))
    shape = 1 - progress if schedule == "wsd" else 0.5 * (1 + math.cos(math.pi * progress))
    return final_factor + (1 - final_factor) * shape


def warmup_steps(total: int, warmup_fraction: float) -> int:
    """The number of updates of the warm-up."""
    return round(total * warmup_fraction)


def momentum_at(step: int, *, final: float, start: float = 0.85, ramp_steps: int = 0) -> float:
    """Muon's momentum: linear from `start` to `final` over the first `ramp_steps` updates."""
    if step >= ramp_steps:
        return final
    return start + (final - start) * step / ramp_steps
