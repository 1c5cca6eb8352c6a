"""What the demo trains, and for how long: two recipes and the sizes of its text and its exam.

Input: a folder, a seed and the minutes to use. Output: the recipes of pre-training and of
fine-tuning. The number of updates follows from the minutes alone, by the rate of a two-core machine
with AVX2, so that the same command gives the same model however busy the machine is. Leaves out
doing it (pipeline.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cerne.data.config import DataConfig
from cerne.data.conversations import ConversationConfig
from cerne.errors import ConfigError
from cerne.model.config import ModelConfig
from cerne.train.config import TrainConfig
from cerne.train.recipe import ModelSection, PretrainRecipe, RunConfig, TokenizerConfig
from cerne.tune.recipe import SftRecipe, StartConfig

# Updates per minute of the whole demo: about three quarters of the time goes into training.
PRETRAIN_STEPS = 100
SFT_STEPS = 480
VOCAB_SIZE = 1408
SEQ_LEN = 192
ROWS = 4  # two for each of two workers


@dataclass(frozen=True)
class DemoPlan:
    """Where and how long; everything else follows.

    Raises:
        ConfigError: minutes out of range.
    """

    folder: Path
    seed: int = 0
    minutes: float = 5.0
    threads: int | None = None

    def __post_init__(self) -> None:
        if not 0.02 <= self.minutes <= 600:
            raise ConfigError("minutes out of range", value=self.minutes, allowed="0.02 to 600")

    @property
    def exam_items(self) -> int:
        """Held-out questions per task; enough for an interval of about 8 points at full length."""
        return max(1, min(100, round(20 * self.minutes)))

    @property
    def start_dir(self) -> Path:
        """Tokenizer and fresh weights."""
        return self.folder / "start"

    @property
    def pretrain_dir(self) -> Path:
        return self.folder / "pretrain"

    def tokenizer_texts(self) -> int:
        """Stories, and conversations, that the tokenizer learns from."""
        return 300 if self.minutes < 2 else 1500

    def model_section(self) -> ModelSection:
        """The demo's shape: look-back heads need the biases of qwen2."""
        return ModelSection(
            preset="micro",
            architecture="qwen2",
            hidden_size=128,
            intermediate_size=352,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=512,
            rope_theta=1e6,
            tie_word_embeddings=False,
        )

    def model_config(
        self, vocab_size: int, eos_token_id: int | None, pad_token_id: int | None
    ) -> ModelConfig:
        return self.model_section().resolve(
            SEQ_LEN, vocab_size=vocab_size, eos_token_id=eos_token_id, pad_token_id=pad_token_id
        )

    def pretrain_recipe(self) -> PretrainRecipe:
        """Stories of the small world, told twice and talked about."""
        return PretrainRecipe(
            run=self._run(self.pretrain_dir),
            data=DataConfig(
                path=f"world:mix?documents={self._count(1000, 400)}&seed={self.seed}",
                val_fraction=0.02,
                packing="best-fit",
            ),
            tokenizer=TokenizerConfig(vocab_size=VOCAB_SIZE),
            model=self.model_section(),
            train=self._train(PRETRAIN_STEPS),
        )

    def sft_recipe(self) -> SftRecipe:
        """Conversations about stories that pre-training has not seen."""
        return SftRecipe(
            run=self._run(self.folder),
            model=StartConfig(path=str(self.pretrain_dir)),
            data=ConversationConfig(
                path=f"world:mix?conversations={self._count(3000, 200)}&seed={self.seed + 1}",
                val_fraction=0.01,
            ),
            train=self._train(SFT_STEPS),
        )

    def _count(self, per_minute: int, least: int) -> int:
        return max(least, min(50_000, round(per_minute * self.minutes)))

    def _run(self, folder: Path) -> RunConfig:
        return RunConfig(dir=str(folder), seed=self.seed, threads=self.threads, device="cpu")

    def _train(self, steps_per_minute: int) -> TrainConfig:
        return TrainConfig(
            steps=max(2, round(steps_per_minute * self.minutes)),
            batch_size=ROWS,
            seq_len=SEQ_LEN,
            optimizer="adamw",
            lr=2e-3,
            weight_decay=0.1,
            schedule="wsd",
            decay_fraction=0.4,
            warmup_fraction=0.02,
            compile="on" if self.minutes >= 2 else "off",
            log_every=20,
            sample_every=400,
            save_every=400,
        )
