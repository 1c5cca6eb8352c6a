"""Devices, precision and threads: what the machine has, chosen once and with a stated reason.

`import cerne.device` does not import torch; the functions that return torch objects do.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cerne.errors import ConfigError, EnvironmentLack

if TYPE_CHECKING:
    import torch

PRECISIONS = ("auto", "fp32", "bf16")
# Keeps large temporaries mapped and asks for 2 MiB pages: +10..40 % training speed on CPU.
ALLOCATOR_TUNABLES = ":".join(
    f"glibc.malloc.{setting}"
    for setting in (
        "hugetlb=1",
        "mmap_threshold=4294967296",
        "trim_threshold=4294967296",
        "top_pad=268435456",
    )
)
_REEXEC_MARK = "CERNE_ALLOCATOR"


def cpu_features() -> frozenset[str]:
    """Instruction-set flags as the kernel names them (empty where it does not tell)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def cpu_name() -> str:
    """The processor's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpu_count() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_device(name: str) -> torch.device:
    """`auto`, `cpu`, `cuda` or `cuda:N` as a torch device that is really there.

    Without a number it is the GPU of this process's place on its machine (torchrun's LOCAL_RANK).

    Raises:
        ConfigError: an unknown name. EnvironmentLack: the device is missing.
    """
    import torch

    kind, _, index = name.partition(":")
    if name == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    known = name in ("auto", "cpu", "cpu:0", "cuda") or (kind == "cuda" and index.isdecimal())
    if not known:
        raise ConfigError("unknown device", value=name, allowed="auto, cpu, cuda, cuda:N")
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = torch.version.cuda
        why = f"torch {torch.__version__} has no CUDA build" if built is None else "no GPU is seen"
        raise EnvironmentLack(
            f"device cuda is not available: {why}", value=name, hint="--device cpu"
        )
    number = int(index if index else os.environ.get("LOCAL_RANK", "0"))
    if number >= torch.cuda.device_count():
        raise EnvironmentLack(
            "no such GPU",
            value=f"cuda:{number}",
            allowed=f"cuda:0 to cuda:{torch.cuda.device_count() - 1}",
        )
    return torch.device("cuda", number)


def resolve_precision(name: str, device: torch.device) -> tuple[torch.dtype, str]:
    """The compute dtype (parameters stay float32) and the reason for the choice.

    `auto` takes bfloat16 only where the hardware multiplies it: emulated bfloat16 is slower than
    float32.
    """
    import torch

    if name not in PRECISIONS:
        raise ConfigError("unknown precision", value=name, allowed=", ".join(PRECISIONS))
    if name == "fp32":
        return torch.float32, "asked for"
    if name == "bf16":
        return torch.bfloat16, "asked for"
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported():
            return torch.bfloat16, "the GPU has bfloat16"
        return torch.float32, "the GPU has no bfloat16"
    flags = cpu_features()
    for flag in ("amx_bf16", "avx512_bf16", "bf16"):
        if flag in flags:
            return torch.bfloat16, f"the CPU has {flag}"
    return torch.float32, "the CPU has no bfloat16 arithmetic"


def set_threads(number: int | None) -> int:
    """Set torch's compute threads (None: all cores this process may use); returns the number.

    Raises:
        ConfigError: not between 1 and 1024.
    """
    import torch

    threads = cpu_count() if number is None else number
    if not 1 <= threads <= 1024:
        raise ConfigError("threads out of range", value=number, allowed="1 to 1024")
    torch.set_num_threads(threads)
    return threads


def reexec_with_allocator() -> None:
    """Restart this command once with the allocator settings that large tensors want.

    glibc reads them only at start. Does nothing elsewhere, when they are set by the user, or when
    CERNE_ALLOCATOR=off.
    """
    if (
        sys.platform != "linux"
        or os.environ.get(_REEXEC_MARK)
        or "GLIBC_TUNABLES" in os.environ
        or platform.libc_ver()[0] != "glibc"
    ):
        return
    environment = dict(os.environ, GLIBC_TUNABLES=ALLOCATOR_TUNABLES)
    environment[_REEXEC_MARK] = "on"
    command = [sys.executable, "-m", "cerne", *sys.argv[1:]]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, environment)


def peak_rss_bytes() -> int:
    """The largest resident memory of this process so far, by the kernel's accounting."""
    # VmHWM begins anew at exec; ru_maxrss keeps what the parent held when it forked.
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory_bytes() -> int:
    """Physical memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def code_commit() -> str:
    """The short git commit of the source tree, `+` when it has changes; `unknown` elsewhere."""
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return "unknown"
    try:
        head = _git(folder, "rev-parse", "--short=12", "HEAD")
        dirty = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return head + ("+" if dirty else "")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    return done.stdout.strip()


def machine_facts() -> dict[str, Any]:
    """What a result must say of the machine and the code: JSON-ready."""
    flags = cpu_features()
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "asimddp", "bf16")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": code_commit(),
        "cpu": cpu_name(),
        "cpu_features": [flag for flag in wanted if flag in flags],
        "cores": cpu_count(),
        "memory_bytes": memory_bytes(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": _version("torch"),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
