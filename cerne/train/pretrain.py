"""Pre-training from a recipe: text -> tokenizer -> token shards -> model -> Trainer.

Input: a PretrainRecipe. Output: a run directory with recipe.toml (resolved), tokenizer/, data/,
metrics.jsonl and checkpoints. `resume` continues the newest checkpoint exactly; `init_from` starts
a new run from a model's weights and tokenizer. Leaves out generation: samples come from the hooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from cerne.config import dump_toml, load_recipe
from cerne.data.collect import collect
from cerne.data.loader import PackedLoader
from cerne.data.prepare import Prepared, open_prepared, prepare, read_prepared
from cerne.data.shards import Shards
from cerne.device import resolve_device, resolve_precision, set_threads
from cerne.errors import CheckpointError, ConfigError
from cerne.model.hf import load_model, parent_of, read_provenance
from cerne.model.transformer import Transformer
from cerne.progress import human_count, say
from cerne.runs import RunDirectory, atomic_write
from cerne.tokenizer.bpe import Tokenizer
from cerne.train.checkpoint import newest_intact, read_checkpoint
from cerne.train.distributed import Ranks, fair_threads, join_ranks
from cerne.train.hooks import Hooks
from cerne.train.loop import Trainer, TrainResult, Validator
from cerne.train.recipe import PretrainRecipe, TrainRecipe, check_unchanged
from cerne.train.validate import score_documents

TrainRecipeT = TypeVar("TrainRecipeT", bound=TrainRecipe)


def run_pretrain(
    recipe: PretrainRecipe,
    *,
    resume: bool = False,
    fallback: bool = False,
    init_from: str | Path | None = None,
    hooks: Hooks | None = None,
) -> TrainResult:
    """Pre-train by a recipe.

    Args:
        resume: continue the run in run.dir from its newest checkpoint.
        fallback: with resume, take the newest checkpoint that is intact.
        init_from: model directory whose weights and tokenizer a new run starts from.
        hooks: samples and reports.
    Raises:
        ConfigError: resume with init_from, a changed recipe, or a run.dir already in use.
        CheckpointError: nothing to resume, or a damaged file.
    """
    if resume and init_from is not None:
        raise ConfigError(
            "--resume and --init-from exclude each other",
            allowed="--resume continues a run; --init-from starts a new one from weights",
        )
    ranks = join_ranks()
    device = resolve_device(recipe.run.device)
    dtype, reason = resolve_precision(recipe.run.precision, device)
    threads = set_threads(recipe.run.threads if recipe.run.threads is not None else fair_threads())
    run = RunDirectory(recipe.run.dir)
    checkpoint = checkpoint_to_resume(run, resume, fallback)
    if checkpoint is not None:
        recipe = resumed_recipe(run, recipe)
    elif ranks.first:
        atomic_write(run.path / "recipe.toml", dump_toml(recipe))
    tokenizer, data = _tokens(recipe, run, ranks, init_from, keep=checkpoint is not None)
    model, parents = _model(recipe, tokenizer, init_from, checkpoint)
    model.to(device)
    if ranks.first:
        say(
            f"model {human_count(model.config.num_parameters())} parameters; {device}, {threads} "
            f"threads, {str(dtype).removeprefix('torch.')} ({reason}); training tokens "
            f"{human_count(data.train.num_tokens)}, vocabulary {tokenizer.vocab_size}"
        )
    train = recipe.train
    trainer = Trainer(
        model,
        PackedLoader(
            data.train,
            train.seq_len,
            train.batch_size,
            seed=recipe.run.seed,
            rank=ranks.rank,
            world_size=ranks.size,
            packing=recipe.data.packing,
        ),
        train,
        run,
        hooks=hooks,
        tokenizer=tokenizer,
        validator=bits_per_byte(data.val, recipe, dtype) if data.val is not None else None,
        device=device,
        dtype=dtype,
        seed=recipe.run.seed,
        meta={
            "parents": parents,
            "recipe": recipe.model_dump(mode="json"),
            "data": {
                "train": data.train.digest,
                "val": data.val.digest if data.val is not None else None,
                "sources": data.train.meta.get("source_sha256"),
            },
        },
        ranks=ranks,
    )
    return train_from(trainer, recipe, checkpoint)


def bits_per_byte(val: Shards, recipe: PretrainRecipe, dtype: torch.dtype) -> Validator:
    """A validator that scores every held-out document by the policy of validate.py."""

    def validate(model: Transformer) -> dict[str, float]:
        score = score_documents(
            model,
            held_out_documents(val),
            val.num_bytes,
            start_token=val.eos_token_id,
            seq_len=recipe.train.seq_len,
            stride=recipe.train.val_stride,
            dtype=dtype,
        )
        return {"val_bpb": score.bits_per_byte}

    return validate


def held_out_documents(val: Shards) -> Iterator[NDArray[np.unsignedinteger[Any]]]:
    """Token ids of each document without its document-end token, read one at a time."""
    for index in range(val.num_documents):
        ids_T = val.document(index)
        yield ids_T[:-1] if len(ids_T) and ids_T[-1] == val.eos_token_id else ids_T


def checkpoint_to_resume(run: RunDirectory, resume: bool, fallback: bool) -> Path | None:
    """The checkpoint that --resume means; None for a new run, whose folder must be unused."""
    if not resume:
        if run.saved():
            raise ConfigError(
                "run.dir already holds a run",
                value=str(run.path),
                hint="--resume continues it; or give another run.dir; or remove the folder",
            )
        return None
    checkpoint = newest_intact(run) if fallback else run.latest()
    if checkpoint is None:
        raise CheckpointError(
            "there is no checkpoint to resume",
            value=str(run.path),
            allowed="a run.dir with checkpoints/step-NNNNNN",
            hint="start without --resume",
        )
    if not fallback:
        read_checkpoint(checkpoint)
    return checkpoint


def resumed_recipe(run: RunDirectory, given: TrainRecipeT) -> TrainRecipeT:
    """The given recipe after the check against the saved one; a measured length stays.

    Says so when a changed length moves the learning rate or a changed time limit does nothing.
    """
    saved = load_recipe(type(given), run.path / "recipe.toml")
    check_unchanged(saved, given)
    old, new = saved.train, given.train
    if new.time_limit_s is not None:
        if new.time_limit_s != old.time_limit_s:
            say(
                f"note: train.time_limit_s chooses the length only when a run starts; this one "
                f"keeps its {old.steps} steps. To change them give train.steps and no time limit"
            )
        new = new.model_copy(update={"steps": old.steps})
        given = given.model_copy(update={"train": new})
    if new.steps != old.steps and (new.schedule != "constant" or new.warmup_fraction > 0):
        say(
            f"note: train.steps was {old.steps} and is {new.steps}: warm-up and decay are shares "
            "of it, so from here the learning rate is that of the new length"
        )
    return given


def train_from(trainer: Trainer, recipe: TrainRecipe, checkpoint: Path | None) -> TrainResult:
    """Train on from a checkpoint, or from the start: then a time limit chooses the length, which
    is written into the run's recipe.toml."""
    train = recipe.train
    if checkpoint is not None:
        trainer.restore(checkpoint)
        say(f"resuming {checkpoint} at step {trainer.step} of {train.steps}")
    elif train.time_limit_s is not None:
        steps = trainer.choose_steps(train.time_limit_s)
        recipe = recipe.model_copy(update={"train": train.model_copy(update={"steps": steps})})
        say(f"time limit {train.time_limit_s:g} s: {steps} steps")
        if trainer.ranks.first:
            atomic_write(trainer.run.path / "recipe.toml", dump_toml(recipe))
    return trainer.train()


def _tokens(
    recipe: PretrainRecipe,
    run: RunDirectory,
    ranks: Ranks,
    init_from: str | Path | None,
    keep: bool,
) -> tuple[Tokenizer, Prepared]:
    """The tokenizer and the token shards; made by the first rank, opened by the others.

    A resumed run (`keep`) trains on the shards it began with, whatever became of their source.
    """
    shards = run.path / "data" / "tokens"
    folder = run.path / "tokenizer"
    if ranks.first and not (keep and read_prepared(shards) is not None):
        corpus = collect(recipe.data, run.path / "data" / "text")
        if keep:
            tokenizer = Tokenizer.load(folder)
        elif init_from is not None:
            tokenizer = Tokenizer.load(init_from)
        elif recipe.tokenizer.path is not None:
            tokenizer = Tokenizer.load(recipe.tokenizer.path)
        else:
            tokenizer = Tokenizer.train(
                corpus.texts("train"),
                vocab_size=recipe.tokenizer.vocab_size,
                pattern=recipe.tokenizer.pattern,
            )
        tokenizer.save(folder)
        prepare(recipe.data, tokenizer, shards, corpus=corpus)
    ranks.wait()
    return Tokenizer.load(folder), open_prepared(shards)


def _model(
    recipe: PretrainRecipe,
    tokenizer: Tokenizer,
    init_from: str | Path | None,
    checkpoint: Path | None,
) -> tuple[Transformer, list[dict[str, str]]]:
    """A fresh model, a parent's or the resumed one; and the parents for cerne.json."""
    if checkpoint is not None:  # its shape need not be [model]'s: the run may have had a parent
        return load_model(checkpoint), read_provenance(checkpoint).get("parents", [])
    if init_from is not None:
        model = load_model(init_from)
        say(f"weights, shape and tokenizer come from {init_from}; [model] is not used")
        limit = model.config.max_position_embeddings
        if recipe.train.seq_len > limit:
            raise ConfigError(
                "train.seq_len is longer than the model's context",
                value=recipe.train.seq_len,
                allowed=f"at most {limit}",
            )
        return model, [parent_of(init_from)]
    config = recipe.model.resolve(
        recipe.train.seq_len,
        vocab_size=tokenizer.vocab_size,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Transformer(config, seed=recipe.run.seed), []
