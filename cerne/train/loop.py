"""`Trainer`: the loop of updates, validation, samples, metrics, checkpoints and interruption.

Inputs: a model, a loader (`next`, `state`, `load_state`), a TrainConfig and a run directory.
Outputs: metrics.jsonl, samples.jsonl and checkpoints in the run directory. Killed at any moment
and restored from its last checkpoint, a run writes the same weights, optimizer state and metrics
(all fields but TIME_FIELDS) as one that was never interrupted, on the same number of threads.
"""

from __future__ import annotations

import math
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch

from cerne.device import peak_rss_bytes
from cerne.errors import CheckpointError
from cerne.model.transformer import Transformer
from cerne.progress import Progress, say
from cerne.runs import RunDirectory, append_jsonl, read_jsonl, write_jsonl
from cerne.train.checkpoint import (
    load_optimizer,
    load_weights,
    read_checkpoint,
    save_checkpoint,
)
from cerne.train.config import TrainConfig
from cerne.train.distributed import Ranks
from cerne.train.hooks import Hooks, TensorBoardHooks
from cerne.train.objective import Objective, TrainBatch, expected_seconds, worth_compiling
from cerne.train.optim import Optimizer
from cerne.train.step import NonFiniteError, StepResult, update

TIME_FIELDS = ("rate_tok_s", "time_s", "peak_rss_bytes")
Validator = Callable[[Transformer], dict[str, float]]


class Loader(Protocol):
    """An endless source of batches whose position is a small JSON object."""

    def next(self) -> TrainBatch: ...

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: dict[str, Any]) -> None: ...


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM: a checkpoint was saved."""

    def __init__(self, checkpoint: Path, step: int) -> None:
        super().__init__(f"interrupted; step {step} is saved in {checkpoint}")
        self.checkpoint, self.step = checkpoint, step


@dataclass(frozen=True)
class TrainResult:
    """How a run ended. `loss` is the last logged one, NaN where metrics.jsonl has none."""

    step: int
    tokens: int
    loss: float
    validation: dict[str, float]
    time_s: float
    checkpoint: Path


class Trainer:
    """Trains a model in place.

    Args:
        model: float32 parameters on `device`.
        loader: batches of this rank.
        config: how to train; `steps` is the whole run's length.
        run: where to write.
        hooks: samples, extra validation, reports.
        tokenizer: saved into checkpoints and passed to the sample hook.
        validator: model -> numbers such as {"val_bpb": 2.1}, at step 0, every val_every, the end.
        device, dtype: where and in what to compute.
        seed: of dropout.
        meta: for cerne.json.
        ranks: this process among others.
    """

    def __init__(
        self,
        model: Transformer,
        loader: Loader,
        config: TrainConfig,
        run: RunDirectory,
        *,
        hooks: Hooks | None = None,
        tokenizer: Any = None,
        validator: Validator | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        meta: Mapping[str, Any] | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        self.model, self.loader, self.config, self.run = model, loader, config, run
        self.ranks = ranks if ranks is not None else Ranks()
        self.hooks = hooks if hooks is not None else Hooks()
        if config.tensorboard and self.ranks.first:
            self.hooks = TensorBoardHooks(self.hooks, run.path / "tensorboard")
        self.tokenizer, self.validator = tokenizer, validator
        self.device = device if device is not None else torch.device("cpu")
        self.dtype, self.seed = dtype, seed
        self.meta = dict(meta) if meta is not None else {}
        self.optimizer = Optimizer(model.named_parameters(), config)
        self.ranks.copy_from_first([p.data for p in model.parameters()])
        expected_s = config.time_limit_s
        if expected_s is None:
            flops = model.config.flops_per_token(config.seq_len) * config.tokens_per_step
            expected_s = expected_seconds(flops * config.steps, torch.get_num_threads())
        compiled = worth_compiling(config.compile, expected_s, self.device.type == "cuda")
        self.objective = Objective(
            model,
            self.device,
            dtype,
            compiled=compiled,
            checkpointing=config.activation_checkpointing,
        )
        self.step, self.tokens, self.time_s = 0, 0, 0.0
        self._window = {"loss_sum": 0.0, "tokens": 0}
        self._window_s = 0.0
        self._validation: dict[str, float] = {}
        self._signal: int | None = None
        self._restored: Path | None = None

    # -- state ---------------------------------------------------------------------------------

    def restore(self, checkpoint: Path) -> None:
        """Continue from a checkpoint: weights, optimizer, data position, counters, metrics file.

        Raises:
            CheckpointError: a damaged file, another architecture, optimizer or number of ranks.
        """
        state = read_checkpoint(checkpoint)
        if len(state["loaders"]) != self.ranks.size:
            raise CheckpointError(
                "this checkpoint was written by another number of processes",
                value=self.ranks.size,
                allowed=str(len(state["loaders"])),
            )
        load_weights(checkpoint, self.model)
        load_optimizer(checkpoint, self.optimizer)
        self.loader.load_state(state["loaders"][self.ranks.rank])
        self.step, self.tokens, self.time_s = state["step"], state["tokens"], state["time_s"]
        self._window, self._validation = dict(state["window"]), dict(state["validation"])
        for key, now in self._surroundings().items():
            if state["surroundings"][key] != now:
                say(
                    f"note: {key} was {state['surroundings'][key]} and is {now}: "
                    "the resumed run will differ in the last bits"
                )
        self._forget_after(self.step)
        self._restored = checkpoint

    def _forget_after(self, step: int) -> None:
        """Drop records of updates that a killed process made after its last checkpoint."""
        if not self.ranks.first:
            return
        self.run.truncate_metrics(step)
        path = self.run.samples_path
        if path.exists():
            write_jsonl(path, [s for s in read_jsonl(path) if s["step"] <= step])

    def save(self) -> Path:
        """Write a checkpoint of the present state (on the first rank) and return its path."""
        state = {
            "step": self.step,
            "tokens": self.tokens,
            "time_s": self.time_s,
            "loaders": self.ranks.gather(self.loader.state()),
            "rng": {"kind": "counter", "seed": self.seed, "step": self.step},
            "window": self._window,
            "validation": self._validation,
            "surroundings": self._surroundings(),
        }
        target = self.run.checkpoint_path(self.step)
        if self.ranks.first:
            save_checkpoint(
                self.run,
                self.step,
                self.model,
                self.optimizer,
                state,
                tokenizer=self.tokenizer,
                meta=self.meta,
                keep_last=self.config.keep_last,
            )
            self.hooks.saved(target, self.step)
        self.ranks.wait()
        return target

    def _surroundings(self) -> dict[str, Any]:
        return {
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "compiled": self.objective.compiled,
            "dtype": str(self.dtype),
        }

    def choose_steps(self, time_limit_s: float, probe_s: float = 4.0) -> int:
        """Set the run's length to what fits into `time_limit_s` seconds of updates.

        Measures real updates and then puts weights, optimizer and data position back, so that the
        run is the same as one whose recipe names that number of steps.
        """
        weights = [p.detach().clone() for p in self.optimizer.parameters]
        moments = {n: t.clone() for n, t in self.optimizer.state_tensors().items()}
        place = self.loader.state()
        times_s: list[float] = []
        enough = False
        while not enough:
            begin_s = time.perf_counter()
            batches = [self.loader.next() for _ in range(self.config.accumulate)]
            self._make_update(batches)
            times_s.append(time.perf_counter() - begin_s)
            own = len(times_s) >= 3 and sum(times_s) >= min(probe_s, time_limit_s / 10)
            enough = self.ranks.any_true(own)  # all ranks stop together: updates are collective
        with torch.no_grad():
            for parameter, value in zip(self.optimizer.parameters, weights, strict=True):
                parameter.copy_(value)
        self.optimizer.load_state_tensors(moments)
        self.optimizer.zero_grad()
        self.loader.load_state(place)
        typical_s = statistics.median(times_s)
        typical_s = self.ranks.sum_number(typical_s) / self.ranks.size
        steps = max(1, int(time_limit_s / typical_s))
        self.config = self.config.model_copy(update={"steps": steps})
        return steps

    def warm_up(self) -> float:
        """Compile forward and backward before the clock runs; returns the seconds it took."""
        begin_s = time.perf_counter()
        place = self.loader.state()
        self.model.train()
        self.objective.backward(self.loader.next(), 0.0)
        self.optimizer.zero_grad()
        self.loader.load_state(place)
        return time.perf_counter() - begin_s

    # -- the loop ------------------------------------------------------------------------------

    def train(self) -> TrainResult:
        """Run the remaining updates.

        Raises:
            TrainingError: a non-finite loss or gradient (logged; weights unchanged).
            Interrupted: after Ctrl-C or SIGTERM, with a checkpoint saved.
        """
        config = self.config
        # Nothing trained, nothing saved: replacing a folder is not wholly atomic.
        saved = self._restored
        if self.ranks.first:
            self.run.remove_partial()
        if self.step == 0:
            self._forget_after(-1)
            self._validate()
            self._log_start()
            self._sample()
        positions = config.steps * config.tokens_per_step * self.ranks.size
        if self.objective.compiled and self.step < config.steps:
            say(f"compiled in {self.warm_up():.0f} s")
        self.model.train()
        with self._signals(), Progress("train", positions, "tok", self.tokens) as bar:
            while self.step < config.steps:
                result = self._update()
                # Rows hold padding and masked labels too, so the end is told by the mean so far.
                bar.total = self.tokens / self.step * config.steps
                bar.advance(result.tokens)
                if self._due(config.val_every):
                    self._validate()
                if self._due(config.log_every) or self._due(config.val_every):
                    self._log(result, bar)
                if config.sample_every and self._due(config.sample_every):
                    self._sample()
                saved = None
                if self._due(config.save_every):
                    saved = self.save()
                if self.ranks.any_true(self._signal is not None):
                    raise Interrupted(saved if saved is not None else self.save(), self.step)
        checkpoint = saved if saved is not None else self.save()
        records = self.run.read_metrics() if self.ranks.first else []
        return TrainResult(
            self.step,
            self.tokens,
            float(records[-1].get("loss", math.nan)) if records else math.nan,
            self._validation,
            self.time_s,
            checkpoint,
        )

    def _update(self) -> StepResult:
        begin_s = time.perf_counter()
        batches = [self.loader.next() for _ in range(self.config.accumulate)]
        try:
            result = self._make_update(batches)
        except NonFiniteError as error:
            if self.ranks.first:
                bad = error.result
                self.run.metrics(
                    {
                        "step": error.step,
                        "loss": bad.loss_sum / bad.tokens,
                        "grad_norm": bad.grad_norm,
                        "stopped": error.what,
                    }
                )
            raise
        used_s = time.perf_counter() - begin_s
        self.step += 1
        self.tokens += result.tokens
        self.time_s += used_s
        self._window["loss_sum"] += result.loss_sum
        self._window["tokens"] += result.tokens
        self._window_s += used_s
        return result

    def _make_update(self, batches: list[TrainBatch]) -> StepResult:
        return update(
            self.step,
            batches,
            self.objective,
            self.optimizer,
            self.config,
            self.ranks,
            self.seed,
        )

    def _due(self, every: int) -> bool:
        return self.step == self.config.steps or (every > 0 and self.step % every == 0)

    def _validate(self) -> None:
        if self.ranks.first:
            self._validation = {}
            was_training = self.model.training
            self.model.eval()
            with torch.no_grad():
                if self.validator is not None:
                    self._validation = self.validator(self.model)
                self._validation |= self.hooks.validated(self.model, self.step)
            self.model.train(was_training)
        self.ranks.wait()

    def _log_start(self) -> None:
        if self.ranks.first and self._validation:
            record = {"step": 0, "tokens": 0, **self._validation}
            self.run.metrics(record)
            self.hooks.logged(record)

    def _log(self, result: StepResult, bar: Progress) -> None:
        window_tokens = int(self._window["tokens"])
        loss = self._window["loss_sum"] / window_tokens
        record: dict[str, Any] = {
            "step": self.step,
            "tokens": self.tokens,
            "loss": loss,
            "lr": result.lr,
            "grad_norm": result.grad_norm,
            **(self._validation if self._due(self.config.val_every) else {}),
            "rate_tok_s": window_tokens / self._window_s if self._window_s > 0 else 0.0,
            "time_s": self.time_s,
            "peak_rss_bytes": peak_rss_bytes(),
        }
        self._window, self._window_s = {"loss_sum": 0.0, "tokens": 0}, 0.0
        if self.ranks.first:
            self.run.metrics(record)
            self.hooks.logged(record)
            shown = "".join(f"  {key} {value:.3f}" for key, value in self._validation.items())
            bar.note(f"step {self.step}  loss {loss:.3f}{shown}")

    def _sample(self) -> None:
        if not self.ranks.first or self.config.sample_every == 0:
            return
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad():
            samples = self.hooks.sample(self.model, self.tokenizer, self.step)
        self.model.train(was_training)
        append_jsonl(self.run.samples_path, [{"step": self.step, **sample} for sample in samples])

    # -- interruption --------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM ends after the present update; the second one at once."""

        def note(number: int, frame: FrameType | None) -> None:
            if self._signal is not None:
                raise KeyboardInterrupt
            self._signal = number
            say("\nfinishing this update and saving; press Ctrl-C again to stop without saving")

        self._signal = None
        try:
            before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: the caller handles signals
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
