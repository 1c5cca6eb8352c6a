"""`cerne inspect MODEL`: what a model holds, what it costs and where it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from cerne.cli.app import print_json
from cerne.cli.inspect_gguf import Rows, gguf_sections

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def inspect(
    model: str = typer.Argument(
        ..., help="A model directory, a run directory, a GGUF file or a model package."
    ),
    verify: bool = typer.Option(True, help="Check digests; compute that of a GGUF file."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Show configuration, parameters, FLOPs, memory, tokenizer, parents and digests of a model.

    Example: cerne inspect runs/demo/checkpoints/step-000500
    """
    from cerne.engine.locate import find_model

    found = find_model(model)
    facts, sections = _gguf(found, verify) if found.is_file() else _directory(found, verify)
    for title, rows in sections:
        print(title)
        width = max(len(name) for name, _ in rows)
        for name, text in rows:
            print(f"  {name:<{width}}  {text}")
    if as_json:
        print_json(facts)


def _gguf(path: Path, verify: bool) -> tuple[dict[str, Any], list[tuple[str, Rows]]]:
    from cerne.model.gguf import inspect_gguf

    facts = inspect_gguf(path, verify)
    return facts, gguf_sections(facts)


def _directory(folder: Path, verify: bool) -> tuple[dict[str, Any], list[tuple[str, Rows]]]:
    from cerne.model.inspect import inspect_model

    facts = inspect_model(folder, verify)
    facts["tokenizer"] = _tokenizer(folder)
    return facts, _sections(facts)


def _tokenizer(folder: Path) -> dict[str, Any] | None:
    if not (folder / "tokenizer.json").is_file():
        return None
    from cerne.tokenizer.bpe import Tokenizer

    tokenizer = Tokenizer.load(folder)
    return {
        "vocab_size": tokenizer.vocab_size,
        "sha256": tokenizer.digest,
        "special_tokens": tokenizer.special_tokens,
        "has_chat_template": bool(tokenizer.chat_template),
    }


def _sections(facts: dict[str, Any]) -> list[tuple[str, Rows]]:
    parameters, stored, cost = facts["parameters"], facts["stored"], facts["cost"]
    total = parameters["total"]
    sections = [
        (
            "configuration",
            [(name, str(value)) for name, value in facts["config"].items() if value is not None],
        ),
        (
            "parameters",
            [
                (name, f"{count:,} ({100 * count / total:.1f} %)")
                for name, count in parameters.items()
            ],
        ),
        (
            "weights",
            [
                ("tensors", f"{stored['tensors']} of {', '.join(stored['dtypes'])}"),
                ("size", _bytes(stored["tensor_bytes"])),
                *((f"sha256 {name}", digest) for name, digest in stored["sha256"].items()),
                ("checked", ", ".join(facts["digests_checked"]) or "no digests recorded"),
            ],
        ),
        ("cost", _cost_rows(cost)),
        ("tokenizer", _tokenizer_rows(facts["tokenizer"])),
        ("origin", _origin_rows(facts["provenance"])),
    ]
    return sections


def _cost_rows(cost: dict[str, Any]) -> Rows:
    rows = [
        (f"training, rows of {tokens}", f"{flops / 1e6:,.1f} MFLOP per token")
        for tokens, flops in cost["training_flops_per_token"].items()
    ]
    cache = cost["kv_bytes_per_token"]
    return [
        *rows,
        ("forward, full context", f"{cost['forward_flops_per_token'] / 1e6:,.1f} MFLOP per token"),
        (
            "key/value cache",
            f"{cache['float32']:,} B per token in float32, {cache['bfloat16']:,} B in bfloat16; "
            f"{_bytes(cost['kv_bytes_full_context_float32'])} for a full context",
        ),
        (
            "memory to run",
            f"{_bytes(cost['inference_bytes']['as_stored'])} as stored, "
            f"{_bytes(cost['inference_bytes']['float32'])} in float32 (weights + full cache)",
        ),
        (
            "memory to train",
            f"{_bytes(cost['training_bytes_adamw_float32'])} with AdamW in float32, "
            "plus activations",
        ),
    ]


def _tokenizer_rows(tokenizer: dict[str, Any] | None) -> Rows:
    if tokenizer is None:
        return [("none", "no tokenizer.json in the folder")]
    specials = ", ".join(f"{name}={at}" for name, at in tokenizer["special_tokens"].items())
    return [
        ("vocabulary", f"{tokenizer['vocab_size']:,} ids"),
        ("control tokens", specials or "none"),
        ("chat template", "yes" if tokenizer["has_chat_template"] else "no"),
        ("sha256", tokenizer["sha256"]),
    ]


def _origin_rows(provenance: dict[str, Any]) -> Rows:
    if not provenance:
        return [("unknown", "no cerne.json: made by another program")]
    code = provenance.get("code", {})
    rows = [
        ("created", str(provenance.get("created"))),
        ("code", f"cerne {code.get('version')} commit {code.get('commit')}"),
    ]
    for parent in provenance.get("parents", []):
        rows.append(("parent", f"{parent.get('name')} sha256 {parent.get('sha256')}"))
    known = {"created", "code", "parents", "sha256", "format_version", "model"}
    rows += [(name, _short(value)) for name, value in provenance.items() if name not in known]
    return rows


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _bytes(size: float) -> str:
    """Bytes in the largest binary unit below them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"
