"""What others may do during training: react to records, add validations, write samples.

The trainer knows nothing of generation or reports; the command line passes a `Hooks` object whose
methods it calls on the first rank. A hook must not change weights or gradients; random numbers it
draws do not matter to training.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cerne.model.transformer import Transformer


class Hooks:
    """Does nothing; override what you need."""

    def logged(self, record: dict[str, Any]) -> None:
        """After a record was appended to metrics.jsonl."""

    def validated(self, model: Transformer, step: int) -> dict[str, float]:
        """At each validation, in eval mode without gradients; the result joins the record."""
        return {}

    def sample(self, model: Transformer, tokenizer: Any, step: int) -> list[dict[str, str]]:
        """Every `sample_every` updates: [{"prompt": ..., "text": ...}] for samples.jsonl."""
        return []

    def saved(self, checkpoint: Path, step: int) -> None:
        """After a checkpoint is complete."""


class TensorBoardHooks(Hooks):
    """Passes everything on and writes the numbers as TensorBoard events into RUN/tensorboard."""

    def __init__(self, inner: Hooks, folder: Path) -> None:
        from cerne.errors import EnvironmentLack

        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise EnvironmentLack(
                "train.tensorboard needs the package tensorboard",
                hint="pip install 'cerne[tensorboard]' or train.tensorboard=false",
            ) from None
        self._inner = inner
        self._writer = SummaryWriter(str(folder))

    def logged(self, record: dict[str, Any]) -> None:
        self._inner.logged(record)
        for key, value in record.items():
            if key != "step" and isinstance(value, (int, float)):
                self._writer.add_scalar(key, value, record["step"])
        self._writer.flush()

    def validated(self, model: Transformer, step: int) -> dict[str, float]:
        return self._inner.validated(model, step)

    def sample(self, model: Transformer, tokenizer: Any, step: int) -> list[dict[str, str]]:
        return self._inner.sample(model, tokenizer, step)

    def saved(self, checkpoint: Path, step: int) -> None:
        self._inner.saved(checkpoint, step)
