"""What the training verbs print at the end."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from cerne.cli.training import train_and_report
from cerne.train.loop import TrainResult
from cerne.train.recipe import TrainRecipe


@pytest.mark.parametrize(("loss", "written"), [(1.5, 1.5), (math.nan, None)])
def test_the_report_is_json_even_without_a_loss(
    loss: float, written: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    result = TrainResult(8, 120, loss, {"val_bpb": 2.25}, 3.0, Path("checkpoints/step-000008"))
    train_and_report(
        ["cerne", "pretrain"], TrainRecipe(), lambda: result, counted="tokens", as_json=True
    )
    line, last = capsys.readouterr().out.splitlines()
    assert line.startswith("checkpoints/step-000008: 8 steps, 120 tokens in 3.0 s, loss ")
    found = json.loads(last)
    assert found["loss"] == written
    assert (found["step"], found["tokens"], found["val_bpb"]) == (8, 120, 2.25)
