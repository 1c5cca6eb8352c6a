"""`TrainConfig`: everything about how a model is trained, shared by pre-training and fine-tuning.

Values are validated here; what they mean is written beside each key. Leaves out the data, the
model and the run's place (recipe.py for pre-training).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from cerne.config import Config
from cerne.train.schedule import Schedule

# May change on a resume: how long or how loudly a run goes on. `steps` alone changes updates too,
# since warm-up and decay are shares of it; a resume says so.
HARMLESS_KEYS = frozenset(
    {
        "steps",
        "time_limit_s",
        "save_every",
        "keep_last",
        "val_every",
        "sample_every",
        "sample_prompts",
        "sample_tokens",
        "log_every",
        "tensorboard",
    }
)


class TrainConfig(Config):
    """The [train] section of a recipe."""

    steps: int = Field(default=1000, ge=1, le=1_000_000_000, description="number of updates")
    time_limit_s: float | None = Field(
        default=None,
        gt=0,
        description="instead of steps: seconds of training; steps is measured and written down",
    )
    batch_size: int = Field(
        default=16, ge=1, le=65536, description="rows of one micro-batch, per rank"
    )
    seq_len: int = Field(default=256, ge=2, le=1 << 20, description="tokens of one row")
    accumulate: int = Field(default=1, ge=1, le=4096, description="micro-batches of one update")

    optimizer: Literal["adamw", "muon"] = Field(
        default="adamw", description="muon: Muon on the matrices of the blocks, AdamW on the rest"
    )
    lr: float = Field(default=3e-3, gt=0, le=10, description="peak learning rate of AdamW")
    muon_lr: float = Field(default=0.02, gt=0, le=10, description="peak learning rate of Muon")
    beta1: float = Field(default=0.9, ge=0, lt=1, description="AdamW, first moment")
    beta2: float = Field(default=0.95, ge=0, lt=1, description="AdamW, second moment")
    eps: float = Field(default=1e-8, gt=0, le=1, description="AdamW, added to the root")
    weight_decay: float = Field(default=0.1, ge=0, le=10, description="decoupled, on matrices only")
    muon_weight_decay: float = Field(
        default=0.0, ge=0, le=10, description="decoupled, on Muon's matrices"
    )
    muon_momentum: float = Field(default=0.95, ge=0, lt=1, description="Muon's momentum")
    muon_momentum_ramp: int = Field(
        default=0, ge=0, description="updates over which the momentum rises from 0.85"
    )
    grad_clip: float = Field(default=1.0, gt=0, description="largest global gradient norm")
    schedule: Schedule = Field(default="cosine", description="cosine, wsd or constant")
    warmup_fraction: float = Field(
        default=0.04, ge=0, lt=1, description="share of steps that warm up"
    )
    decay_fraction: float = Field(
        default=0.2, gt=0, le=1, description="wsd: share of steps that decay"
    )
    final_factor: float = Field(default=0.0, ge=0, le=1, description="last learning rate / peak")

    compile: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="torch.compile; auto: when the run is expected to last over 2 minutes",
    )
    activation_checkpointing: bool = Field(
        default=False,
        description="recompute each block in the backward pass: less memory, more time",
    )

    log_every: int = Field(default=10, ge=1, description="updates between lines of metrics.jsonl")
    val_every: int = Field(
        default=0, ge=0, description="updates between validations; 0: first and last"
    )
    val_stride: int | None = Field(
        default=None,
        ge=1,
        description="targets scored per validation window; default seq_len (no overlap)",
    )
    save_every: int = Field(
        default=0, ge=0, description="updates between checkpoints; 0: the last only"
    )
    keep_last: int = Field(default=2, ge=0, description="checkpoints kept; 0 keeps all")
    sample_every: int = Field(default=0, ge=0, description="updates between samples; 0: none")
    sample_prompts: list[str] = Field(default_factory=lambda: ["The "], description="of samples")
    sample_tokens: int = Field(default=48, ge=1, le=4096, description="length of a sample")
    tensorboard: bool = Field(default=False, description="also write TensorBoard events")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.val_stride is not None and self.val_stride > self.seq_len:
            raise ValueError(
                f"val_stride is {self.val_stride} but at most seq_len = {self.seq_len} is allowed"
            )
        return self

    @property
    def tokens_per_step(self) -> int:
        """Positions of one update on one rank."""
        return self.batch_size * self.seq_len * self.accumulate
