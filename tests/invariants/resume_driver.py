"""Runs trainings that are killed and resumed, each in a forked child; prints one JSON object.

Usage: resume_driver.py FOLDER OPTIMIZER COMPILE HISTORIES. With muon, an epoch is exactly five
updates of two micro-batches, so that every save is at the very end of an epoch. A child dies by
SIGKILL at a chosen event, so nothing of it can clean up. Used by test_case15_resume.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
from train_tools import tiny_loader, tiny_model, train_config, trainer_in

from cerne.runs import RunDirectory
from cerne.train.hooks import Hooks

STEPS, SAVE_EVERY = 23, 5
Event = tuple[str, int]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Killer(Hooks):
    """Kills this process at an event: ("logged", 7) or ("saved", 10)."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def logged(self, record: dict[str, Any]) -> None:
        if self.event == ("logged", record["step"]):
            die()

    def saved(self, checkpoint: Path, step: int) -> None:
        if self.event == ("saved", step):
            die()


def run(folder: Path, event: Event, optimizer: str, compiled: str, resume: bool) -> None:
    """Train, from the start or from `latest`, until the event."""
    config = train_config(
        steps=STEPS,
        save_every=SAVE_EVERY,
        val_every=4,
        log_every=3,
        accumulate=2,
        keep_last=0,
        optimizer=optimizer,
        compile=compiled,
    )
    trainer = trainer_in(
        folder,
        config,
        model=tiny_model(),
        loader=tiny_loader(even=optimizer == "muon"),
        hooks=Killer(event),
        validator=lambda model: {"val_bpb": float(sum(p.abs().sum() for p in model.parameters()))},
    )
    if event[0] == "writing":
        kill_while_writing(event[1])
    if resume:
        latest = RunDirectory(folder).latest()
        assert latest is not None
        trainer.restore(latest)
    trainer.train()


def kill_while_writing(which: int) -> None:
    """Die in the middle of the `which`-th tensor file written from now on."""
    original: Callable[..., None] = safetensors.torch.save_file
    count = 0

    def save_file(tensors: Any, path: Any, **options: Any) -> None:
        nonlocal count
        count += 1
        original(tensors, path, **options)
        if count == which:
            data = Path(path).read_bytes()
            Path(path).write_bytes(data[: len(data) // 2])
            die()

    safetensors.torch.save_file = save_file


def in_child(*arguments: Any) -> int:
    """Run in a forked child; returns the signal that ended it, 0 for a normal end."""
    pid = os.fork()
    if pid == 0:
        try:
            run(*arguments)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(3)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    return 100 * os.WEXITSTATUS(status)


def main() -> None:
    folder, optimizer, compiled = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    loader, ends = tiny_loader(even=optimizer == "muon"), []
    for step in range(1, STEPS + 1):
        epoch = loader.epoch
        for _ in range(2):
            loader.next()
        if loader.epoch != epoch:
            ends.append(step)
    histories = json.loads(sys.argv[4])
    outcome: dict[str, Any] = {"epoch_ends": ends, "signals": {}}
    outcome["signals"]["whole"] = [in_child(folder / "whole", ("", 0), optimizer, compiled, False)]
    for name, events in histories.items():
        signals = []
        for number, event in enumerate([*events, ["", 0]]):
            arguments = (tuple(event), optimizer, compiled, number > 0)
            signals.append(in_child(folder / name, *arguments))
        outcome["signals"][name] = signals
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
