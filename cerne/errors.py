"""The errors that cerne raises on purpose.

Each message says what is wrong, the value, what is allowed and what to do next. Anything else that
escapes is a bug. Exit codes of the command line: 0 done, 2 the input is wrong, 3 the environment
lacks something, 1 a bug, 130 interrupted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_INTERRUPTED = 130


class CerneError(Exception):
    """Base of every deliberate error.

    Args:
        what: what is wrong, one sentence without a final stop.
        value: the offending value, shown shortened.
        allowed: what would have been accepted.
        hint: the next thing to try, often a command.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        value: object = None,
        allowed: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.what = what
        self.value = value
        self.allowed = allowed
        self.hint = hint
        super().__init__(self._text())

    def _text(self) -> str:
        parts = [self.what]
        if self.value is not None:
            parts.append(f"got {shorten(self.value)}")
        if self.allowed is not None:
            parts.append(f"allowed: {self.allowed}")
        if self.hint is not None:
            parts.append(f"try: {self.hint}")
        return "; ".join(parts)


class InputError(CerneError):
    """The user's input is wrong (exit code 2)."""

    exit_code = 2


class ConfigError(InputError):
    """A recipe or an option is wrong."""


class DataError(InputError):
    """A data file is missing, malformed or empty."""


class TokenizerError(InputError):
    """A tokenizer cannot be trained, read or applied."""


class ModelError(InputError):
    """A model configuration or directory is not usable."""


class CheckpointError(InputError):
    """A checkpoint is missing, damaged or of another run."""


class EngineError(InputError):
    """Generation cannot go on, for example at the end of the context."""


class TrainingError(InputError):
    """Training had to stop, for example at a non-finite loss."""


class EnvironmentLack(CerneError):  # noqa: N818 - says what it is: the environment lacks something
    """The machine lacks a device, a package or a program (exit code 3)."""

    exit_code = 3


def shorten(value: object, limit: int = 120) -> str:
    """repr(value) cut in the middle to `limit` characters: the end of a path says most."""
    text = repr(value)
    half = (limit - 3) // 2
    return text if len(text) <= limit else f"{text[:half]}...{text[-half:]}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when nothing is close."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return matches[0] if matches else None
