"""Which stages of a demo are done, on disk, so that a killed demo goes on where it stopped.

`demo.json` in the demo's folder holds the plan's seed and minutes and, per stage, its result and
the seconds it took over all attempts. It is replaced as a whole after every change.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cerne.errors import CheckpointError, ConfigError
from cerne.runs import atomic_write

FILE = "demo.json"
FORMAT_VERSION = 1


class DemoState:
    """The state file of one demo.

    Args:
        folder: of the demo.
        facts: what must be the same on a resume (seed, minutes).
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.path = folder / FILE
        self.facts = facts
        self.results: dict[str, Any] = {}
        self.times_s: dict[str, float] = {}

    @classmethod
    def begin(cls, folder: Path, facts: dict[str, Any]) -> DemoState:
        """A new demo.

        Raises:
            ConfigError: the folder holds one already.
        """
        state = cls(folder, facts)
        if state.path.exists():
            raise ConfigError(
                "the folder already holds a demo",
                value=str(folder),
                hint="--resume continues it; --dir NAME starts another; or remove the folder",
            )
        state._save()
        return state

    @classmethod
    def resume(cls, folder: Path, facts: dict[str, Any]) -> DemoState:
        """The demo in the folder.

        Raises:
            CheckpointError: there is none. ConfigError: it was begun with other settings.
        """
        state = cls(folder, facts)
        try:
            saved = json.loads(state.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CheckpointError(
                "there is no demo to resume", value=str(folder), hint="cerne demo without --resume"
            ) from None
        except ValueError as error:
            raise CheckpointError(
                f"the demo's state file is damaged: {error}",
                value=str(state.path),
                hint="remove the folder and start again",
            ) from None
        for key, value in facts.items():
            if saved["facts"][key] != value:
                raise ConfigError(
                    f"the demo was begun with another {key}",
                    value=value,
                    allowed=str(saved["facts"][key]),
                )
        state.results, state.times_s = saved["results"], saved["times_s"]
        return state

    def done(self, stage: str) -> bool:
        return stage in self.results

    def finish(self, stage: str, result: Any) -> None:
        """Record a stage's result; it is not run again."""
        self.results[stage] = result
        self._save()

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the time spent inside to the stage, also when it is interrupted."""
        begin_s = time.monotonic()
        try:
            yield
        finally:
            used_s = time.monotonic() - begin_s
            self.times_s[stage] = self.times_s.get(stage, 0.0) + used_s
            self._save()

    def _save(self) -> None:
        content = {
            "format_version": FORMAT_VERSION,
            "facts": self.facts,
            "results": self.results,
            "times_s": self.times_s,
        }
        atomic_write(self.path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
