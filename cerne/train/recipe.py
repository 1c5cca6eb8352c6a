"""`PretrainRecipe`: the sections of a pre-training recipe and what may change on a resume.

[run] where and on what; [data] the text; [tokenizer] trained or loaded; [model] a preset and
changes to it; [train] how. Every key is described by its field. Leaves out doing any of it
(pretrain.py).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from cerne.config import Config, changed_keys
from cerne.data.config import DataConfig
from cerne.errors import ConfigError
from cerne.model.config import Architecture, ModelConfig
from cerne.model.presets import preset
from cerne.train.config import HARMLESS_KEYS, TrainConfig


class RunConfig(Config):
    """The [run] section: where results go and what computes them."""

    dir: str = Field(default="runs/pretrain", min_length=1, description="folder of the run")
    seed: int = Field(default=0, ge=0, lt=1 << 63, description="of weights, data order and dropout")
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="CPU threads; default all cores"
    )
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:N")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        default="auto",
        description="bf16 is autocast over float32 weights; auto: where the hardware has it",
    )


class TokenizerConfig(Config):
    """The [tokenizer] section: load one, or train one on the training text."""

    path: str | None = Field(default=None, description="folder or tokenizer.json to load instead")
    vocab_size: int = Field(default=4096, ge=264, le=1 << 20, description="with the special tokens")
    pattern: Literal["gpt2", "gpt4", "llama3", "qwen2"] = Field(
        default="qwen2", description="how text is cut into words"
    )


class ModelSection(Config):
    """The [model] section: a preset's name and what differs from it."""

    preset: str = Field(default="nano", description="nano, micro, tiny, small, medium, large")
    architecture: Architecture | None = Field(default=None, description="qwen3 has QK-norm")
    hidden_size: int | None = Field(default=None, gt=0, description="D")
    intermediate_size: int | None = Field(default=None, gt=0, description="F")
    num_hidden_layers: int | None = Field(default=None, gt=0, description="L")
    num_attention_heads: int | None = Field(default=None, gt=0, description="H")
    num_key_value_heads: int | None = Field(default=None, gt=0, description="K")
    head_dim: int | None = Field(default=None, gt=0, description="E; default D / H")
    max_position_embeddings: int | None = Field(default=None, gt=0, description="longest context")
    rope_theta: float | None = Field(
        default=None, gt=1, description="base of the rotary frequencies"
    )
    tie_word_embeddings: bool | None = Field(
        default=None, description="one matrix for input and output"
    )
    sliding_window: int | None = Field(default=None, gt=0, description="keys a query sees")
    initializer_range: float | None = Field(
        default=None, gt=0, lt=1, description="of fresh weights"
    )
    dropout: float | None = Field(
        default=None, ge=0, lt=1, description="on embeddings and branches"
    )
    attention_dropout: float | None = Field(
        default=None, ge=0, lt=1, description="on attention weights"
    )

    def resolve(self, seq_len: int, **facts: Any) -> ModelConfig:
        """The model's configuration for a tokenizer (`facts`: vocab_size and special ids)."""
        changes = {k: v for k, v in self.model_dump(exclude={"preset"}).items() if v is not None}
        config = preset(self.preset, **{**facts, **changes})
        if config.max_position_embeddings < seq_len:
            raise ConfigError(
                "train.seq_len is longer than the model's context",
                value=seq_len,
                allowed=f"at most model.max_position_embeddings={config.max_position_embeddings}",
                hint=f"model.max_position_embeddings={seq_len}",
            )
        return config


class TrainRecipe(Config):
    """What every training recipe has."""

    run: RunConfig = RunConfig()
    train: TrainConfig = TrainConfig()


class PretrainRecipe(TrainRecipe):
    """A whole pre-training recipe."""

    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelSection = ModelSection()

    @model_validator(mode="after")
    def _check(self) -> Self:
        # Fail on a wrong shape before any text is read.
        self.model.resolve(self.train.seq_len, vocab_size=self.tokenizer.vocab_size)
        return self


def check_unchanged(saved: Config, given: Config) -> None:
    """Refuse a resume whose recipe would train another model.

    Keys of `run` other than the seed and HARMLESS_KEYS of `train` may differ.
    Raises:
        ConfigError: names each changed key with both values.
    """
    changed = {
        key: values for key, values in changed_keys(saved, given).items() if not _harmless(key)
    }
    if changed:
        parts = [f"{key} was {old!r}, now {new!r}" for key, (old, new) in changed.items()]
        raise ConfigError(
            "a resumed run must keep its recipe; changed: " + "; ".join(parts),
            hint="undo the change, or start a new run.dir with --init-from CHECKPOINT",
        )


def _harmless(key: str) -> bool:
    section, _, name = key.partition(".")
    name = name.partition(".")[0]
    if section == "run":
        return name != "seed"
    return section == "train" and name in HARMLESS_KEYS
