"""The parent's side of `cpu_worker.py`: which peers are installed, and a process for an engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cerne.errors import EngineError, EnvironmentLack, InputError

OURS = "cerne"
# Peer -> (module that must be there, distribution that tells the version).
PEERS = {
    "llama.cpp": ("llama_cpp", "llama-cpp-python"),
    "ik": ("ik_llama_cpp", "ik-llama-cpp-python"),
    "ctranslate2": ("ctranslate2", "ctranslate2"),
}
_ROOT = Path(__file__).resolve().parent.parent.parent
# Appended, not put first: the packages of the peer's interpreter must win over ours.
_SERVE = "import sys; sys.path.append(sys.argv[1]); from cerne.bench.cpu_worker import main; main()"
_FIND = (
    "import sys; from importlib import metadata, util\n"
    "print(metadata.version(sys.argv[2]) if util.find_spec(sys.argv[1]) else '')"
)


@dataclass(frozen=True)
class Contender:
    """An engine and the interpreter that has it."""

    name: str
    python: str


def parse_pythons(options: Sequence[str]) -> dict[str, str]:
    """`PATH` (for all peers) and `PEER=PATH` options -> peer -> interpreter.

    Raises:
        InputError: no such peer or no such program.
    """
    chosen = dict.fromkeys(PEERS, sys.executable)
    for option in sorted(options, key=lambda text: "=" in text):
        name, separator, path = option.rpartition("=")
        if separator and name not in PEERS:
            raise InputError("unknown peer", value=name, allowed=", ".join(PEERS))
        if not os.access(path, os.X_OK) or Path(path).is_dir():
            raise InputError("the peer's interpreter is no program", value=path)
        for peer in [name] if separator else PEERS:
            chosen[peer] = path
    return chosen


def find_peers(
    names: Sequence[str], pythons: Mapping[str, str]
) -> tuple[list[Contender], list[str]]:
    """The peers to measure, and why others are left out.

    Args:
        names: peers that must be there; empty or `all`: those that are installed.
    Raises:
        InputError: unknown name. EnvironmentLack: a named peer, or every peer, is missing.
    """
    unknown = [name for name in names if name not in PEERS and name != "all"]
    if unknown:
        raise InputError("unknown peer", value=unknown[0], allowed=", ".join([*PEERS, "all"]))
    needed = set(names) - {"all"}
    found, missing = [], []
    for name, (module, package) in PEERS.items():
        if needed and "all" not in names and name not in needed:
            continue
        python = pythons[name]
        done = subprocess.run(
            [python, "-c", _FIND, module, package], capture_output=True, text=True, check=False
        )
        if done.returncode == 0 and done.stdout.strip():
            found.append(Contender(name, python))
            continue
        missing.append(f"{name} is left out: {package} is not installed for {Path(python).name}")
        if name in needed:
            raise EnvironmentLack(
                f"the peer {name} is not installed",
                hint=f"pip install {package}, or --peer-python {name}=PATH of one that has it",
            )
    if not found:
        packages = " ".join(package for _, package in PEERS.values())
        raise EnvironmentLack(
            "no peer is installed",
            hint=f"pip install one of {packages}, or --peer-python PATH of one that has it",
        )
    return found, missing


class Worker:
    """A contender's process, alive until `close`."""

    def __init__(self, contender: Contender, threads: int) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
        environment["OMP_NUM_THREADS"] = str(threads)
        self.name = contender.name
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
        self._process = subprocess.Popen(
            [contender.python, "-c", _SERVE, str(_ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
            env=environment,
        )

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request of the protocol and wait for its answer.

        Raises:
            EngineError: the engine failed or its process ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise EngineError(f"the process of {self.name} ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineError(f"{self.name} failed: {answer['error']}; {self._last_words()}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._said.close()

    def _last_words(self) -> str:
        self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, self._said.tell() - 400))
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"
