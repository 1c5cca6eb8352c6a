"""The `[data]` section of a recipe: which text is read and how it becomes documents and shards.

Nothing here reads a file. Every key has one meaning, given in its description.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from cerne.config import Config

END_OF_TEXT_MARKER = "<|endoftext|>"

Errors = Literal["strict", "replace", "keep-bytes"]
Packing = Literal["auto", "best-fit", "stream"]
Step = Literal["newlines", "control", "nfc", "trailing-space"]


class DataConfig(Config):
    """What to read, how to cut it into documents, and what to hold out."""

    path: str | tuple[str, ...] = Field(
        default="world:en",
        description="file, folder, glob or world:LANGUAGE?documents=N&seed=S; one or a list",
    )
    field: str = Field(
        default="text",
        min_length=1,
        description="field of JSONL and Parquet rows; a list of messages is rendered as text",
    )
    document: str = Field(
        default=END_OF_TEXT_MARKER,
        min_length=1,
        description="where text files are cut into documents: file, paragraph, line, or the "
        "literal text between documents (a file without it is one document)",
    )
    val_path: str | tuple[str, ...] | None = Field(
        default=None, description="held-out text; when given, nothing is split off `path`"
    )
    val_fraction: float = Field(
        default=0.1, ge=0.0, lt=1.0, description="held-out share of the text; 0 holds nothing out"
    )
    split: Literal["auto", "tail", "documents"] = Field(
        default="auto",
        description="tail: the last bytes of the text; documents: by a hash of each document; "
        "auto: documents when there are at least 200 of them",
    )
    dedup: Literal["none", "exact", "near"] = Field(
        default="exact", description="remove repeated documents; near also removes similar ones"
    )
    dedup_threshold: float = Field(
        default=0.7, gt=0.0, le=1.0, description="Jaccard similarity of word 5-grams for `near`"
    )
    normalise: tuple[Step, ...] = Field(
        default=("newlines", "control"), description="cleaning steps, applied in a fixed order"
    )
    errors: Errors = Field(
        default="strict",
        description="invalid UTF-8: strict refuses it, replace writes U+FFFD, keep-bytes keeps it",
    )
    max_bad_fraction: float = Field(
        default=0.01, ge=0.0, le=1.0, description="largest share of unusable rows that is accepted"
    )
    packing: Packing = Field(
        default="auto",
        description="stream: windows over one long text; best-fit: whole documents into rows; "
        "auto: stream when the mean document is longer than a row",
    )

    @field_validator("path", "val_path")
    @classmethod
    def _not_empty(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if value is not None and (not value or not all(value)):
            raise ValueError("an empty path; give a file, a folder, a glob or world:en")
        return value

    @property
    def paths(self) -> tuple[str, ...]:
        """`path` as a tuple."""
        return (self.path,) if isinstance(self.path, str) else self.path

    @property
    def val_paths(self) -> tuple[str, ...]:
        """`val_path` as a tuple, empty when it is not given."""
        if self.val_path is None:
            return ()
        return (self.val_path,) if isinstance(self.val_path, str) else self.val_path
