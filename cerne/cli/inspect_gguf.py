"""The tables that `cerne inspect FILE.gguf` prints."""

from __future__ import annotations

from typing import Any

from cerne.engine.printable import printable

Rows = list[tuple[str, str]]


def gguf_sections(facts: dict[str, Any]) -> list[tuple[str, Rows]]:
    """Titles and rows from the facts of `cerne.model.gguf.inspect_gguf`."""
    return [
        ("model", _model_rows(facts)),
        ("weights", _weight_rows(facts["weights"])),
        ("tokenizer", _tokenizer_rows(facts["tokenizer"])),
        ("file", _file_rows(facts)),
    ]


def _model_rows(facts: dict[str, Any]) -> Rows:
    rows = {
        "architecture": facts["architecture"],
        "name": facts["name"],
        "license": facts["license"],
        "context": facts["context"],
        **facts["sizes"],
    }
    return [(name, _shown(value)) for name, value in rows.items()]


def _weight_rows(weights: dict[str, Any]) -> Rows:
    types = [(name, _weights_text(group)) for name, group in weights["types"].items()]
    return [*types, ("all", _weights_text(weights))]


def _weights_text(group: dict[str, Any]) -> str:
    bits = group["bits_per_weight"]
    text = f"{group['tensors']:,} tensors, {group['weights']:,} weights, {group['bytes']:,} B"
    return text if bits is None else f"{text}, {bits:.2f} bits per weight"


def _tokenizer_rows(tokenizer: dict[str, Any] | None) -> Rows:
    if tokenizer is None:
        return [("none", "the file has no tokenizer")]
    kind = _shown(tokenizer["kind"])
    if tokenizer["pre"] is not None:
        kind += f", pre-tokenizer {_shown(tokenizer['pre'])}"
    ids = ", ".join(f"{name}={_shown(at)}" for name, at in tokenizer["ids"].items())
    return [
        ("kind", kind),
        ("vocabulary", f"{tokenizer['vocab_size']:,} ids, {tokenizer['merges']:,} merges"),
        ("control tokens", ids if ids else "none named"),
        ("adds begin, end", f"{_shown(tokenizer['adds_bos'])}, {_shown(tokenizer['adds_eos'])}"),
        ("chat template", "yes" if tokenizer["has_chat_template"] else "no"),
    ]


def _file_rows(facts: dict[str, Any]) -> Rows:
    rows = [
        ("format", f"GGUF {facts['version']}, aligned to {facts['alignment']:,}"),
        ("size", f"{facts['file_bytes']:,} B"),
        ("metadata", f"{facts['metadata_keys']:,} keys"),
    ]
    return rows if facts["sha256"] is None else [*rows, ("sha256", facts["sha256"])]


def _shown(value: Any) -> str:
    """A value of the file on one line: it is untrusted text and may be long."""
    if value is None:
        return "not said"
    text = printable(str(value)).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= 200 else text[:197] + "..."
