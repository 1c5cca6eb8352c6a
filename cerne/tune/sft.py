"""Supervised fine-tuning: conversations -> packed rows with assistant-only labels -> the Trainer.

Input: an SftRecipe. Output: a run directory as in pre-training. The loss is summed over assistant
tokens and divided by their number in the whole update; conversations share rows but never attend
to each other. `resume` continues the newest checkpoint exactly. Leaves out adapters and generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from cerne.config import dump_toml
from cerne.data.conversation_tokens import (
    EncodedConversation,
    EncodeReport,
    encode_conversations,
    is_held_out,
)
from cerne.data.conversations import (
    Conversation,
    ConversationConfig,
    conversation_sources,
    read_conversations,
)
from cerne.data.loader import ConversationLoader, iterate_once
from cerne.data.memory import MemoryStore
from cerne.data.packing import Batch
from cerne.data.report import RowReport
from cerne.device import resolve_device, resolve_precision, set_threads
from cerne.engine.locate import find_model_directory
from cerne.errors import ConfigError, DataError
from cerne.model.hf import load_model, parent_of, read_provenance
from cerne.model.loss import cross_entropy_sum
from cerne.model.transformer import Transformer
from cerne.progress import human_count, say
from cerne.runs import RunDirectory, atomic_write
from cerne.tokenizer.bpe import Tokenizer
from cerne.tokenizer.chat import check_padding, template_facts
from cerne.train.distributed import join_ranks
from cerne.train.hooks import Hooks
from cerne.train.loop import Trainer, TrainResult, Validator
from cerne.train.pretrain import checkpoint_to_resume, resumed_recipe, train_from
from cerne.tune.recipe import SftRecipe


@dataclass(frozen=True)
class SftData:
    """Encoded conversations and what became of all rows."""

    train: list[EncodedConversation]
    val: list[EncodedConversation]
    report: dict[str, Any]


def run_sft(
    recipe: SftRecipe,
    *,
    resume: bool = False,
    fallback: bool = False,
    hooks: Hooks | None = None,
) -> TrainResult:
    """Fine-tune by a recipe.

    Args:
        resume: continue the run in run.dir from its newest checkpoint.
        fallback: with resume, take the newest checkpoint that is intact.
        hooks: samples and reports.
    Raises:
        ConfigError: a changed recipe on resume, a run.dir already in use, or a seq_len beyond the
            model's context. DataError: no usable conversation. TokenizerError: no chat template.
        CheckpointError: nothing to resume, or a damaged file.
    """
    ranks = join_ranks()
    device = resolve_device(recipe.run.device)
    dtype, reason = resolve_precision(recipe.run.precision, device)
    threads = set_threads(recipe.run.threads)
    run = RunDirectory(recipe.run.dir)
    checkpoint = checkpoint_to_resume(run, resume, fallback)
    if checkpoint is not None:
        recipe = resumed_recipe(run, recipe)
        start, parents = checkpoint, read_provenance(checkpoint).get("parents", [])
    else:
        start = find_model_directory(recipe.model.path)
        parents = [parent_of(start)]
        if ranks.first:
            atomic_write(run.path / "recipe.toml", dump_toml(recipe))
    model, tokenizer = load_model(start), Tokenizer.load(start)
    _check_length(model, recipe)
    data = load_data(recipe.data, tokenizer, recipe.train.seq_len)
    model.to(device)
    train = recipe.train
    loader = _loader(data.train, tokenizer, recipe, ranks.rank, ranks.size)
    if ranks.first:
        epochs = train.steps * train.tokens_per_step * ranks.size / max(1, loader.pairs_per_epoch)
        say(
            f"model {human_count(model.config.num_parameters())} parameters from {start}; {device},"
            f" {threads} threads, {str(dtype).removeprefix('torch.')} ({reason}); at most"
            f" {epochs:.1f} passes over the conversations"
        )
    trainer = Trainer(
        model,
        loader,
        train,
        run,
        hooks=hooks,
        tokenizer=tokenizer,
        validator=answer_loss(data.val, tokenizer, recipe, dtype) if data.val else None,
        device=device,
        dtype=dtype,
        seed=recipe.run.seed,
        meta={
            "parents": parents,
            "recipe": recipe.model_dump(mode="json"),
            "data": data.report,
        },
        ranks=ranks,
    )
    return train_from(trainer, recipe, checkpoint)


def load_data(config: ConversationConfig, tokenizer: Tokenizer, seq_len: int) -> SftData:
    """Read, check, split and encode the conversations; says what was left out.

    Args:
        seq_len: T of a row; a conversation may have one token more (its last is only a label).
    """
    warning = check_padding(tokenizer)
    if warning is not None:
        say(f"note: {warning}")
    added = template_facts(tokenizer).default_system
    if added:
        say(f"note: the chat template adds a system message of its own: {added!r}")
    report = RowReport(
        config.max_bad_fraction,
        hint="correct the rows, or data.format, or raise data.max_bad_fraction",
    )
    everything = list(read_conversations(config.paths, config, report))
    if config.val_path is not None:
        train, val = everything, list(read_conversations(config.val_paths, config, report))
    else:
        train = [c for c in everything if not is_held_out(c, config.val_fraction)]
        val = [c for c in everything if is_held_out(c, config.val_fraction)]
    if not train:
        raise DataError(
            "every conversation fell into the held-out share, so there is nothing to train on",
            value=f"{len(val)} conversations",
            hint="data.val_fraction=0, or more conversations",
        )
    if not val and config.val_fraction > 0:
        say("note: no conversation fell into the held-out share, so nothing is validated")
    for example in report.examples:
        say(f"left out: {example}")
    if report.bad > len(report.examples):
        say(f"left out: {report.bad - len(report.examples)} more rows")
    facts: dict[str, Any] = {
        "rows": report.to_json(),
        "sources": conversation_sources((*config.paths, *config.val_paths)),
    }
    encoded = {}
    for part, conversations in (("train", train), ("val", val)):
        encoded[part], counts = _encode(part, conversations, config, tokenizer, seq_len)
        facts[part] = counts.to_json()
    return SftData(encoded["train"], encoded["val"], facts)


def answer_loss(
    val: list[EncodedConversation], tokenizer: Tokenizer, recipe: SftRecipe, dtype: torch.dtype
) -> Validator:
    """A validator: mean nats per assistant token of the held-out conversations."""
    store = _store(val, tokenizer)
    train = recipe.train

    def validate(model: Transformer) -> dict[str, float]:
        nats, tokens = 0.0, 0
        for batch in iterate_once(store, train.seq_len, train.batch_size, packing="best-fit"):
            loss_sum, num_valid = batch_loss(model, batch, dtype)
            nats, tokens = nats + float(loss_sum), tokens + num_valid
        return {"val_loss": nats / tokens}

    return validate


def batch_loss(
    model: Transformer, batch: Batch, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, int]:
    """Summed nats of a packed batch's labels, and how many there are."""
    device = next(model.parameters()).device
    ids_BT, labels_BT, positions_BT, documents_BT = (
        torch.from_numpy(array).to(device)
        for array in (batch.ids_BT, batch.labels_BT, batch.positions_BT, batch.documents_BT)
    )
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        hidden_BTD = model(ids_BT, positions_BT, documents_BT)
        return cross_entropy_sum(model, hidden_BTD, labels_BT)


def _encode(
    part: str,
    conversations: list[Conversation],
    config: ConversationConfig,
    tokenizer: Tokenizer,
    seq_len: int,
) -> tuple[list[EncodedConversation], EncodeReport]:
    if not conversations:
        return [], EncodeReport()
    encoded, counts = encode_conversations(
        conversations,
        tokenizer,
        seq_len + 1,
        config.too_long,
        total=len(conversations),
        allow_none=part == "val",
    )
    say(f"{part}: {counts.line()}")
    if not encoded:
        say("note: no held-out conversation fits into train.seq_len, so nothing is validated")
    for example in counts.examples:
        say(f"left out: {example}")
    return encoded, counts


def _loader(
    examples: list[EncodedConversation],
    tokenizer: Tokenizer,
    recipe: SftRecipe,
    rank: int,
    world_size: int,
) -> ConversationLoader:
    return ConversationLoader(
        _pairs(examples),
        recipe.train.seq_len,
        recipe.train.batch_size,
        _pad_id(tokenizer),
        seed=recipe.run.seed,
        rank=rank,
        world_size=world_size,
        vocab_size=tokenizer.vocab_size,
    )


def _store(examples: list[EncodedConversation], tokenizer: Tokenizer) -> MemoryStore:
    return MemoryStore(_pairs(examples), _pad_id(tokenizer), tokenizer.vocab_size)


def _pairs(examples: list[EncodedConversation]) -> list[tuple[Any, Any]]:
    return [(e.ids_T.tolist(), e.mask_T.tolist()) for e in examples]


def _pad_id(tokenizer: Tokenizer) -> int:
    """What fills rows. Any id would do: padding is told by its document number -1."""
    return tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0


def _check_length(model: Transformer, recipe: SftRecipe) -> None:
    limit = model.config.max_position_embeddings
    if recipe.train.seq_len > limit:
        raise ConfigError(
            "train.seq_len is longer than the model's context",
            value=recipe.train.seq_len,
            allowed=f"at most {limit}",
            hint=f"train.seq_len={limit}",
        )
