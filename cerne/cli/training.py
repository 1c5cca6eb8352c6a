"""What the training verbs share: run, say how to go on after an interruption, report the end."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from cerne.cli.app import print_json
from cerne.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from cerne.train.loop import TrainResult
    from cerne.train.recipe import TrainRecipe


def train_and_report(
    command: list[str],
    recipe: TrainRecipe,
    train: Callable[[], TrainResult],
    *,
    counted: str,
    as_json: bool,
) -> None:
    """Show the recipe, train, and print the outcome as a line and, if asked, as JSON.

    Args:
        command: the words that started this run, to be repeated with --resume.
        recipe: the resolved recipe.
        counted: what the result's tokens are, for example "trained tokens".
    Raises:
        typer.Exit: after Ctrl-C or SIGTERM, with a checkpoint saved.
    """
    from cerne.config import dump_toml
    from cerne.progress import say
    from cerne.train.distributed import join_ranks, leave_ranks
    from cerne.train.loop import Interrupted

    say(dump_toml(recipe))
    try:
        result = train()
    except Interrupted as event:
        say(f"{event}\nto go on: {shlex.join([*command, '--resume'])}")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    first = join_ranks().first
    leave_ranks()
    if not first:  # under torchrun the first process speaks for all
        return
    scores = "".join(f", {key} {value:.4f}" for key, value in result.validation.items())
    print(
        f"{result.checkpoint}: {result.step} steps, {result.tokens} {counted} in "
        f"{result.time_s:.1f} s, loss {result.loss:.4f}{scores}"
    )
    if as_json:
        print_json(
            {
                "run": recipe.run.dir,
                "checkpoint": str(result.checkpoint),
                "step": result.step,
                "tokens": result.tokens,
                "loss": result.loss if math.isfinite(result.loss) else None,
                "time_s": result.time_s,
                **result.validation,
            }
        )
