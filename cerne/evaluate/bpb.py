"""Bits per byte of a model on files.

Every byte of a file counts and is scored once: bpb = -sum log2 p(token) / bytes. Documents are
scored by the window policy of train/validate.py (non-overlapping windows by default; `stride`
gives each token more context and a lower figure). Text is read as it is: no cleaning, invalid
UTF-8 kept. The start of a document is predicted from the begin token of the model's own rule.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from cerne.config import Config
from cerne.data.config import DataConfig
from cerne.data.report import RowReport
from cerne.data.sources import find_sources, read_documents
from cerne.errors import ConfigError, DataError, TokenizerError
from cerne.model.hf import read_provenance
from cerne.train.validate import score_documents

if TYPE_CHECKING:
    from cerne.engine.session import LanguageModel
    from cerne.tokenizer.bpe import Tokenizer


class TextResult(Config):
    """Score of one file or glob."""

    name: str
    bits_per_byte: float
    nats_per_token: float
    bytes_per_token: float
    num_bytes: int
    num_tokens: int
    num_documents: int
    seq_len: int
    stride: int
    rate_tok_s: float


@dataclass(frozen=True)
class TextFile:
    """The documents of a path as raw bytes."""

    name: str
    documents: tuple[bytes, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all documents."""
        return sum(map(len, self.documents))

    def joined(self) -> bytes:
        """All documents, one after the other, for baselines."""
        return b"".join(self.documents)


def read_text_file(path: str, config: DataConfig | None = None) -> TextFile:
    """Read the documents of a path (file, glob, JSONL or Parquet with a text field).

    Raises:
        DataError: unreadable, damaged, or without a byte of text.
    """
    options = config if config is not None else DataConfig(path=path, errors="keep-bytes")
    report = RowReport(options.max_bad_fraction)
    documents: list[bytes] = []
    parts: list[bytes] = []
    for source in find_sources((path,)):
        for piece in read_documents(source, options, report):
            parts.append(piece.text.encode("utf-8", "surrogateescape"))
            if piece.last:
                documents.append(b"".join(parts))
                parts = []
    report.check()
    found = TextFile(Path(path).name, tuple(d for d in documents if d))
    if found.num_bytes == 0:
        raise DataError("there is no text to score", value=path)
    return found


def score_text(
    model: LanguageModel,
    text: TextFile,
    seq_len: int | None = None,
    stride: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> TextResult:
    """Bits per byte of a model on a text.

    Args:
        seq_len: most tokens of context; None: what the model was trained with, when its cerne.json
            says so, else its context.
        stride: targets scored per window; None: seq_len.
        dtype: bfloat16 computes under autocast.
    Raises:
        ConfigError: seq_len or stride out of range.
    """
    length = trained_length(model) if seq_len is None else seq_len
    step = length if stride is None else stride
    if not 1 <= length <= model.context:
        raise ConfigError(
            "seq_len is out of range", value=length, allowed=f"1 to the context, {model.context}"
        )
    if not 1 <= step <= length:
        raise ConfigError("stride is out of range", value=step, allowed=f"1 to seq_len, {length}")
    ids = model.tokenizer.encode_batch(text.documents, threads=1)
    begin_s = time.perf_counter()
    score = score_documents(
        model.network,
        [np.asarray(document, np.int64) for document in ids],
        text.num_bytes,
        start_token=start_token(model.tokenizer),
        seq_len=length,
        stride=step,
        dtype=dtype,
    )
    used_s = time.perf_counter() - begin_s
    return TextResult(
        name=text.name,
        bits_per_byte=score.bits_per_byte,
        nats_per_token=score.nats_per_token,
        bytes_per_token=text.num_bytes / score.targets,
        num_bytes=text.num_bytes,
        num_tokens=score.targets,
        num_documents=len(text.documents),
        seq_len=length,
        stride=step,
        rate_tok_s=score.targets / used_s,
    )


def start_token(tokenizer: Tokenizer) -> int:
    """The token before a document: begin of text where the model's rule has one, else its end.

    Raises:
        TokenizerError: the tokenizer has neither.
    """
    if tokenizer.vocabulary.roles.add_bos and tokenizer.bos_token_id is not None:
        return tokenizer.bos_token_id
    if tokenizer.eos_token_id is not None:
        return tokenizer.eos_token_id
    raise TokenizerError(
        "the tokenizer has no token that begins or ends a document, so the first token of a text"
        " cannot be predicted",
        hint="name an eos_token in tokenizer_config.json",
    )


def trained_length(model: LanguageModel) -> int:
    """The row length of the model's own training when it is recorded, else its context."""
    if model.folder is not None:
        recorded = read_provenance(model.folder).get("recipe", {}).get("train", {}).get("seq_len")
        if isinstance(recorded, int) and 1 <= recorded <= model.context:
            return recorded
    return model.context
