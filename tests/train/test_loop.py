"""The loop: what it logs, counts, stops at, calls and leaves alone."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from train_tools import (
    ListLoader,
    ragged_batch,
    tiny_loader,
    tiny_model,
    train_config,
    trainer_in,
    weights_digest,
)

from cerne.errors import CheckpointError, EnvironmentLack, TrainingError
from cerne.model.transformer import Transformer
from cerne.runs import RunDirectory, read_jsonl
from cerne.train.distributed import Ranks
from cerne.train.hooks import Hooks
from cerne.train.loop import Interrupted
from cerne.train.schedule import lr_factor


def records(folder: Path) -> list[dict[str, Any]]:
    return RunDirectory(folder).read_metrics()


class Probe(Hooks):
    """Notes every call; draws random numbers as a sampler would."""

    def __init__(self) -> None:
        self.logged_steps: list[int] = []
        self.saved_steps: list[int] = []
        self.training_flags: list[bool] = []

    def logged(self, record: dict[str, Any]) -> None:
        self.logged_steps.append(record["step"])

    def validated(self, model: Transformer, step: int) -> dict[str, float]:
        self.training_flags.append(model.training)
        return {"val_extra": float(step)}

    def sample(self, model: Transformer, tokenizer: Any, step: int) -> list[dict[str, str]]:
        self.training_flags.append(model.training)
        return [{"prompt": "a", "text": f"{torch.rand(3).sum():.3f}"}]

    def saved(self, checkpoint: Path, step: int) -> None:
        self.saved_steps.append(step)


def test_records_and_hooks(tmp_path: Path) -> None:
    probe = Probe()
    config = train_config(steps=7, log_every=2, val_every=3, save_every=4, sample_every=5)
    trainer = trainer_in(tmp_path, config, hooks=probe, validator=lambda model: {"val_bpb": 2.5})
    result = trainer.train()
    found = records(tmp_path)
    assert [r["step"] for r in found] == [0, 2, 3, 4, 6, 7] == probe.logged_steps
    assert [r["step"] for r in found if "val_bpb" in r] == [0, 3, 6, 7]
    assert found[2]["val_extra"] == 3.0
    assert set(found[3]) == {
        "step", "tokens", "loss", "lr", "grad_norm", "rate_tok_s", "time_s", "peak_rss_bytes",
    }  # fmt: skip
    assert found[3]["lr"] == pytest.approx(
        3e-3 * lr_factor(3, 7, schedule="cosine", warmup_fraction=0.04)
    )
    assert probe.saved_steps == [4, 7]
    assert probe.training_flags == [False] * len(probe.training_flags)
    samples = (tmp_path / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["step"] for line in samples] == [0, 5, 7]
    assert result.validation == {"val_bpb": 2.5, "val_extra": 7.0}
    assert result.loss == found[-1]["loss"]


def test_case100_tokens_reported_are_tokens_consumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = [[16, 3], [1, 9], [16, 16], [2, 5], [7, 7], [0, 4]]
    loader = ListLoader([ragged_batch(row, 16, seed) for seed, row in enumerate(lengths)])
    result = trainer_in(tmp_path, train_config(steps=3, accumulate=2), loader=loader).train()
    assert result.tokens == sum(map(sum, lengths)) == 86
    assert [r["tokens"] for r in records(tmp_path)] == [29, 68, 86]
    assert "train  86/86 100%" in capsys.readouterr().err


def test_logged_loss_is_the_mean_over_the_tokens_since_the_last_line(tmp_path: Path) -> None:
    loaders = [tiny_loader(), tiny_loader()]
    trainer_in(tmp_path / "each", train_config(steps=4), loader=loaders[0]).train()
    trainer_in(tmp_path / "two", train_config(steps=4, log_every=2), loader=loaders[1]).train()
    each, two = records(tmp_path / "each"), records(tmp_path / "two")
    counts = np.diff([0] + [r["tokens"] for r in each])
    sums = counts * [r["loss"] for r in each]
    assert two[0]["loss"] == pytest.approx(sums[:2].sum() / counts[:2].sum())
    assert two[1]["loss"] == pytest.approx(sums[2:].sum() / counts[2:].sum())


def test_case56_validation_and_samples_do_not_change_training(tmp_path: Path) -> None:
    def digest(name: str, **options: Any) -> str:
        changes = options.pop("changes", {})
        trainer = trainer_in(tmp_path / name, train_config(steps=5, **changes), **options)
        trainer.train()
        return weights_digest(trainer.model)

    def validate(model: Transformer) -> dict[str, float]:
        torch.manual_seed(1)
        return {"val_bpb": float(model(torch.zeros(1, 4, dtype=torch.long)).sum())}

    plain = digest("plain")
    busy = digest(
        "busy", hooks=Probe(), validator=validate, changes={"val_every": 1, "sample_every": 1}
    )
    assert plain == busy


def test_training_learns(tmp_path: Path) -> None:
    loader = ListLoader([ragged_batch([16, 16], 16)])
    config = train_config(steps=60, lr=0.02, optimizer="muon")
    trainer_in(tmp_path, config, loader=loader, model=tiny_model(dropout=0.0)).train()
    found = records(tmp_path)
    assert found[0]["loss"] == pytest.approx(math.log(61), rel=0.02)
    assert found[-1]["loss"] < 0.5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_saves_and_resumes(tmp_path: Path, number: int) -> None:
    class Interrupter(Hooks):
        def logged(self, record: dict[str, Any]) -> None:
            if record["step"] == 3:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    whole = trainer_in(tmp_path / "whole")
    whole.train()
    with pytest.raises(Interrupted, match="step 3 is saved"):
        trainer_in(tmp_path / "cut", hooks=Interrupter()).train()
    assert signal.getsignal(number) is before
    again = trainer_in(tmp_path / "cut")
    latest = RunDirectory(tmp_path / "cut").latest()
    assert latest is not None
    again.restore(latest)
    again.train()
    assert weights_digest(again.model) == weights_digest(whole.model)


def test_ranks_stop_measuring_together(tmp_path: Path) -> None:
    class Slowest(Ranks):
        def any_true(self, value: bool) -> bool:
            asked.append(value)
            return len(asked) == 7

    asked: list[bool] = []
    loader = ListLoader([ragged_batch([16, 16], 16)])
    made: list[int] = []
    trainer = trainer_in(tmp_path, loader=loader, ranks=Slowest())
    plain = trainer._make_update
    trainer._make_update = lambda batches: (made.append(1), plain(batches))[1]  # type: ignore[method-assign]
    trainer.choose_steps(1e-6)
    assert len(made) == 7
    assert asked == [False, False, True, True, True, True, True]


def test_killed_saves_are_removed_at_the_start(tmp_path: Path) -> None:
    left = tmp_path / "checkpoints" / ".step-000004.abc"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    trainer_in(tmp_path).train()
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-000008"]


def test_choosing_steps_by_time_changes_nothing_else(tmp_path: Path) -> None:
    measured = trainer_in(tmp_path / "measured", train_config(optimizer="muon"))
    steps = measured.choose_steps(0.2)
    assert measured.config.steps == steps >= 1
    assert measured.step == 0
    measured.train()
    named = trainer_in(tmp_path / "named", train_config(optimizer="muon", steps=steps))
    named.train()
    assert weights_digest(measured.model) == weights_digest(named.model)


def test_samples_with_unicode_line_ends_survive_a_resume(tmp_path: Path) -> None:
    class Odd(Hooks):
        def sample(self, model: Transformer, tokenizer: Any, step: int) -> list[dict[str, str]]:
            return [{"prompt": "a", "text": "one\u2028two\x85three"}]

    config = train_config(steps=4, sample_every=2, save_every=2)
    trainer_in(tmp_path, config, hooks=Odd()).train()
    again = trainer_in(tmp_path, config, hooks=Odd())
    again.restore(RunDirectory(tmp_path).checkpoint_path(2))
    found = read_jsonl(tmp_path / "samples.jsonl")
    assert [s["step"] for s in found] == [0, 2]
    assert found[1]["text"] == "one\u2028two\x85three"


def test_samples_on_a_full_disk_are_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").symlink_to("/dev/full")
    trainer = trainer_in(tmp_path, train_config(sample_every=1), hooks=Probe())
    with pytest.raises(EnvironmentLack, match="No space left on device"):
        trainer._sample()


def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    checkpoint = trainer_in(tmp_path).train().checkpoint
    again = trainer_in(tmp_path)
    again.ranks = Ranks(0, 2)
    with pytest.raises(CheckpointError, match=r"number of processes; got 2; allowed: 1"):
        again.restore(checkpoint)


def test_all_labels_ignored_is_an_error_not_nan(tmp_path: Path) -> None:
    loader = ListLoader([ragged_batch([0, 0], 16)])
    trainer = trainer_in(tmp_path, loader=loader)
    before = weights_digest(trainer.model)
    with pytest.raises(TrainingError, match="step 1 has no token to train on"):
        trainer.train()
    assert weights_digest(trainer.model) == before


def test_tensorboard_events_on_request(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    trainer_in(tmp_path, train_config(steps=2, tensorboard=True)).train()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    logged = {r["step"]: r["loss"] for r in records(tmp_path)}
    for event in events.Scalars("loss"):
        assert event.value == pytest.approx(logged[event.step], rel=1e-6)
    assert len(events.Scalars("loss")) == 2


def test_tensorboard_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(EnvironmentLack, match=r"pip install 'cerne\[tensorboard\]'"):
        trainer_in(tmp_path, train_config(tensorboard=True))


def test_resume_past_the_end_makes_no_update(tmp_path: Path) -> None:
    first = trainer_in(tmp_path)
    checkpoint = first.train().checkpoint
    again = trainer_in(tmp_path, train_config(steps=8))
    again.restore(checkpoint)
    inode = checkpoint.stat().st_ino
    assert again.train().checkpoint == checkpoint
    assert checkpoint.stat().st_ino == inode  # not written anew
    assert weights_digest(again.model) == weights_digest(first.model)
    with pytest.raises(CheckpointError):
        again.restore(tmp_path / "nowhere")


def test_a_result_without_a_metrics_file_has_no_loss(tmp_path: Path) -> None:
    first = trainer_in(tmp_path)
    checkpoint = first.train().checkpoint
    (tmp_path / "metrics.jsonl").unlink()
    again = trainer_in(tmp_path, train_config(steps=8))
    again.restore(checkpoint)
    result = again.train()
    assert math.isnan(result.loss)
    assert (result.step, result.checkpoint) == (8, checkpoint)
