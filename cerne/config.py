"""Typed configuration: pydantic models read from TOML recipes with `key=value` overrides.

`Config` is the base of every configuration object: frozen, unknown keys forbidden. `load_recipe`
reads a file, applies overrides and returns a validated object, or a ConfigError that names the key,
the value, what is allowed and the nearest known key. `dump_toml` writes the resolved object back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import pydantic
import tomli_w

from cerne.errors import ConfigError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_RECIPE_BYTES = 1 << 20


class Config(pydantic.BaseModel):
    """Base of all configuration: immutable, and an unknown key is an error."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", validate_default=True, protected_namespaces=()
    )


ConfigT = TypeVar("ConfigT", bound=Config)


def load_recipe(
    schema: type[ConfigT], path: str | Path | None, overrides: Iterable[str] = ()
) -> ConfigT:
    """Read a TOML recipe, apply `dotted.key=value` overrides, validate.

    Args:
        schema: the configuration class of the whole recipe.
        path: the TOML file, or None for defaults only.
        overrides: strings such as "train.steps=100"; a value is read as TOML, else as text.
    Raises:
        ConfigError: unreadable file, unknown key, or a value out of range.
    """
    values = _read_toml(Path(path)) if path is not None else {}
    for override in overrides:
        _apply_override(values, override)
    return build(schema, values, source=str(path) if path is not None else "options")


def build(schema: type[ConfigT], values: Mapping[str, Any], source: str = "options") -> ConfigT:
    """Validate a mapping; pydantic's errors become one ConfigError."""
    try:
        return schema.model_validate(dict(values))
    except pydantic.ValidationError as error:
        raise _explain(schema, error, source) from None


def dump_toml(config: Config) -> str:
    """The resolved configuration as TOML text; keys whose value is None are left out."""
    return tomli_w.dumps(_without_none(config.model_dump(mode="json")))


def changed_keys(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ between two configurations: key -> (old, new)."""
    left, right = _flatten(old.model_dump(mode="json")), _flatten(new.model_dump(mode="json"))
    keys = sorted(left.keys() | right.keys())
    return {k: (left.get(k), right.get(k)) for k in keys if left.get(k) != right.get(k)}


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_RECIPE_BYTES:
            raise ConfigError("recipe is too large", value=str(path), allowed="at most 1 MiB")
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return values
    except OSError as error:
        raise ConfigError(
            f"cannot read recipe: {error.strerror}",
            value=str(path),
            hint="ls recipes/ or give the path of a .toml file",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"recipe is not valid TOML: {error}", value=str(path)) from None


def _apply_override(values: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    parts = key.strip().split(".")
    if not separator or not all(parts):
        raise ConfigError(
            "an override must look like section.key=value",
            value=override,
            hint="for example train.steps=200",
        )
    node = values
    for part in parts[:-1]:
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            raise ConfigError(f"{key} cannot be set: {part} is not a section", value=override)
        node = child
    node[parts[-1]] = parse_value(text.strip())


def parse_value(text: str) -> Any:
    """A TOML value when the text is one, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def _explain(schema: type[Config], error: pydantic.ValidationError, source: str) -> ConfigError:
    first = error.errors(include_url=False)[0]
    dotted = ".".join(str(part) for part in first["loc"])
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        known = _known_keys(schema, first["loc"][:-1])
        close = nearest(str(first["loc"][-1]), known)
        hint = f"did you mean {close}?" if close else None
        return ConfigError(
            f"unknown key {dotted} in {source}{more}",
            value=first.get("input"),
            allowed=", ".join(sorted(known)) or None,
            hint=hint,
        )
    message = first["msg"].removeprefix("Value error, ")
    where = f"{dotted} in {source}" if dotted else source
    if first["type"] == "missing":
        section = "".join(f"{part}." for part in first["loc"][:-1])
        return ConfigError(
            f"{where} is missing{more}", hint=f"give {section}{first['loc'][-1]}=VALUE"
        )
    return ConfigError(f"{where} is not acceptable: {message}{more}", value=first.get("input"))


def _known_keys(schema: type[Config], location: Sequence[int | str]) -> list[str]:
    current: Any = schema
    for part in location:
        fields = getattr(current, "model_fields", {})
        if part not in fields:
            return []
        current = _config_in(fields[part].annotation)
    return list(getattr(current, "model_fields", {}))


def _config_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return annotation
    for inner in get_args(annotation):
        found = _config_in(inner)
        if found is not None:
            return found
    return None


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_none(v) for v in value]
    return value


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
