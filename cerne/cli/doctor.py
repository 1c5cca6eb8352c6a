"""`cerne doctor`: what this machine has and lacks, and what each lack costs."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import typer

from cerne.cli.app import print_json

app = typer.Typer(rich_markup_mode=None, add_completion=False)
MIN_DISK_BYTES = 2 << 30


@app.command()
def doctor(
    peaks: bool = typer.Option(False, "--peaks", help="Also measure matmul speed (5 seconds)."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Check the machine: processor, memory, devices, native core, compiler, optional packages.

    Example: cerne doctor --peaks
    """
    facts = collect(peaks)
    width = max(len(name) for name, _, _ in facts["checks"])
    for name, good, text in facts["checks"]:
        print(f"{'ok  ' if good else 'lack'}  {name:<{width}}  {text}")
    if as_json:
        print_json(facts)
    if not all(good for name, good, _ in facts["checks"] if name in ("native core", "torch")):
        sys.exit(3)


def collect(peaks: bool) -> dict[str, Any]:
    """All facts: `machine` and a list of checks (name, good, text)."""
    from cerne.device import ALLOCATOR_TUNABLES, cpu_features, machine_facts

    machine = machine_facts()
    gib = machine["memory_bytes"] / (1 << 30)
    free_bytes = shutil.disk_usage(Path.cwd()).free
    checks: list[tuple[str, bool, str]] = [
        ("processor", True, f"{machine['cpu']}, {machine['cores']} cores"),
        ("instructions", bool(cpu_features()), ", ".join(machine["cpu_features"]) or "unknown"),
        ("memory", gib >= 4, f"{gib:.1f} GiB"),
        ("disk", free_bytes >= MIN_DISK_BYTES, f"{free_bytes / (1 << 30):.1f} GiB free here"),
        _native_core(),
        *_torch_checks(),
        (
            "C++ compiler",
            shutil.which("c++") is not None,
            "for torch.compile: faster long training",
        ),
        ("allocator", True, f"training restarts itself with GLIBC_TUNABLES={ALLOCATOR_TUNABLES}"),
    ]
    for package, use in (
        ("tensorboard", "training curves: pip install 'cerne[tensorboard]'"),
        ("transformers", "tests and bench peers: pip install 'cerne[test,bench]'"),
        ("tokenizers", "tests and bench peers: pip install 'cerne[test,bench]'"),
    ):
        present = importlib.util.find_spec(package) is not None
        checks.append((package, present, "present" if present else f"optional; {use}"))
    result: dict[str, Any] = {"machine": machine, "checks": checks}
    if peaks:
        result["peaks"] = matmul_peaks()
        for name, value in result["peaks"].items():
            checks.append(
                (f"matmul {name}", True, f"{value:.3g} GFLOP/s, 1024 squared, all threads")
            )
    return result


def _native_core() -> tuple[str, bool, str]:
    from cerne.errors import CerneError

    try:
        from cerne.native.library import library

        return ("native core", True, f"ABI version {library().lib.cerne_abi_version()}")
    except (ImportError, OSError, CerneError) as error:
        return ("native core", False, f"{error}; try: pip install .")


def _torch_checks() -> list[tuple[str, bool, str]]:
    try:
        import torch
    except ImportError as error:
        return [("torch", False, f"{error}; try: pip install torch")]
    from cerne.device import resolve_precision

    _, reason = resolve_precision("auto", torch.device("cpu"))
    cuda = torch.cuda.is_available()
    return [
        ("torch", True, f"{torch.__version__}, {torch.get_num_threads()} threads"),
        ("precision", True, f"auto chooses by: {reason}"),
        ("cuda", cuda, torch.cuda.get_device_name(0) if cuda else "optional; no GPU is seen"),
    ]


def matmul_peaks(size: int = 1024, budget_s: float = 2.0) -> dict[str, float]:
    """Best GFLOP/s of a square matmul in float32 and bfloat16 on the CPU, all torch threads."""
    import time

    import torch

    peaks = {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        left = torch.ones(size, size, dtype=dtype)
        best = 0.0
        end_s = time.perf_counter() + budget_s
        while time.perf_counter() < end_s:
            start_s = time.perf_counter()
            left @ left
            best = max(best, 2 * size**3 / (time.perf_counter() - start_s) / 1e9)
        peaks[name] = best
    return peaks
