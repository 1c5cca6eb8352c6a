"""`SftRecipe`: the sections of a fine-tuning recipe.

[run] where and on what; [model] the model to start from; [data] the conversations; [train] how, as
in pre-training. Leaves out doing any of it (sft.py).
"""

from __future__ import annotations

from pydantic import Field

from cerne.config import Config
from cerne.data.conversations import ConversationConfig
from cerne.train.config import TrainConfig
from cerne.train.recipe import RunConfig, TrainRecipe


class StartConfig(Config):
    """The [model] section: weights, shape and tokenizer come from here."""

    path: str = Field(
        default="runs/pretrain", min_length=1, description="a model directory, or a run's folder"
    )


class SftRecipe(TrainRecipe):
    """A whole fine-tuning recipe."""

    run: RunConfig = RunConfig(dir="runs/sft")
    model: StartConfig = StartConfig()
    data: ConversationConfig = ConversationConfig()
    train: TrainConfig = TrainConfig(lr=1e-3, weight_decay=0.0)
