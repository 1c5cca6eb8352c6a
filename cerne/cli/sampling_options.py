"""Options that `generate` and `chat` share, and how they become sampling parameters.

An option that is not given is not passed on, so the defaults are those of `SamplingParams`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cerne.errors import ConfigError, InputError

Temperature = Annotated[
    float | None, typer.Option("--temperature", help="0 is greedy; 1 is the model's distribution.")
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Keep the k most probable tokens.")]
TopP = Annotated[float | None, typer.Option("--top-p", help="Keep this much probability.")]
MinP = Annotated[
    float | None, typer.Option("--min-p", help="Keep tokens this probable relative to the best.")
]
RepetitionPenalty = Annotated[
    float | None, typer.Option("--repetition-penalty", help="Above 1: fewer repeated tokens.")
]
PresencePenalty = Annotated[
    float | None, typer.Option("--presence-penalty", help="Off each token already generated.")
]
FrequencyPenalty = Annotated[
    float | None, typer.Option("--frequency-penalty", help="Off, per time it was generated.")
]
LogitBias = Annotated[
    list[str] | None,
    typer.Option("--logit-bias", metavar="ID=NUMBER", help="Add to a token's logit; -inf forbids."),
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", help="At most this many tokens (none: 512, or what fits)."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="The same seed gives the same text.")]
Stop = Annotated[
    list[str] | None,
    typer.Option(
        "--stop", metavar="TEXT", help="End before this text; \\n and \\t are read. Repeatable."
    ),
]
JsonSchema = Annotated[
    Path | None,
    typer.Option("--json-schema", metavar="FILE", help="The answer is JSON of this schema."),
]
Regex = Annotated[
    str | None, typer.Option("--regex", help="The whole answer matches this regular expression.")
]
Grammar = Annotated[
    Path | None,
    typer.Option(
        "--grammar", metavar="FILE", help="The answer is a sentence of this Lark grammar."
    ),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[int | None, typer.Option("--threads", help="Compute threads (none: all).")]
Precision = Annotated[str, typer.Option("--precision", help="fp32, bf16 or auto.")]
Context = Annotated[
    int | None, typer.Option("--context", help="Tokens of prompt and answer (none: the model's).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")]


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, with `stop`, `logit_bias` and named files read."""
    kept = {name: value for name, value in options.items() if value is not None}
    if "stop" in kept:
        kept["stop"] = tuple(unescape(text) for text in kept["stop"])
    if "logit_bias" in kept:
        kept["logit_bias"] = dict(_bias(text) for text in kept["logit_bias"])
    if "json_schema" in kept:
        kept["json_schema"] = _schema(kept["json_schema"])
    if "grammar" in kept:
        kept["grammar"] = _text(kept["grammar"])
    return kept


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the file cannot be read: {error}", value=str(file)) from None


def _schema(file: Path) -> Any:
    try:
        return json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        raise InputError(f"--json-schema is not JSON: {error}", value=str(file)) from None


def unescape(text: str) -> str:
    """\\n, \\t and \\\\ as the characters they stand for."""
    parts = text.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\t", "\t") for part in parts)


def _bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise ConfigError(
            "--logit-bias is not ID=NUMBER", value=text, allowed="for example 17=-inf or 17=2.5"
        ) from None
