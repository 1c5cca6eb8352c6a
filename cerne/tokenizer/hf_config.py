"""`tokenizer_config.json` (and `chat_template.jinja`): the roles of control tokens, the rule for
the beginning of a text and the chat template, as transformers' AutoTokenizer reads them.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from cerne.errors import TokenizerError
from cerne.tokenizer.hf_json import added_token, parse_object
from cerne.tokenizer.special import Roles
from cerne.tokenizer.vocabulary import Vocabulary

FILE_NAME = "tokenizer_config.json"
_TEMPLATE_FILE = "chat_template.jinja"
_MAX_TEMPLATE_BYTES = 1 << 20


def with_config(vocabulary: Vocabulary, folder: Path) -> Vocabulary:
    """The vocabulary with what the folder's configuration files say; they may be missing.

    Raises:
        TokenizerError: a file is damaged, or a role names an unknown token.
    """
    path = folder / FILE_NAME
    config = parse_object(path.read_bytes(), str(path)) if path.is_file() else {}
    try:
        template = _template(config.get("chat_template"), folder)
        return dataclasses.replace(
            _with_more_tokens(vocabulary, config.get("added_tokens_decoder")),
            roles=_roles(vocabulary.roles, config),
            chat_template=template,
        )
    except TokenizerError as error:
        raise TokenizerError(f"{path}: {error}") from error


def config_to_json(vocabulary: Vocabulary) -> bytes:
    """tokenizer_config.json of a vocabulary."""
    roles = vocabulary.roles
    named = {roles.pad, roles.eos, roles.bos}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": roles.pad,
        "eos_token": roles.eos,
        "bos_token": roles.bos,
        "unk_token": None,
        "add_bos_token": roles.add_bos,
        "add_eos_token": roles.add_eos,
        "additional_special_tokens": [
            token.content
            for token in vocabulary.added
            if token.special and token.content not in named
        ],
        "clean_up_tokenization_spaces": False,
    }
    if vocabulary.chat_template is not None:
        config["chat_template"] = vocabulary.chat_template
    return json.dumps(config, ensure_ascii=False, indent=2).encode("utf-8") + b"\n"


def _roles(known: Roles, config: dict[str, Any]) -> Roles:
    changes: dict[str, Any] = {}
    for role in ("pad", "eos", "bos"):
        if f"{role}_token" in config:
            changes[role] = _content(config[f"{role}_token"], role)
    for flag in ("add_bos", "add_eos"):
        if isinstance(config.get(f"{flag}_token"), bool):
            changes[flag] = config[f"{flag}_token"]
    return dataclasses.replace(known, **changes)


def _content(value: Any, role: str) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    if value is None or isinstance(value, str):
        return value
    raise TokenizerError(f"the {role}_token is no text", value=value)


def _with_more_tokens(vocabulary: Vocabulary, decoder: Any) -> Vocabulary:
    """Adds tokens that only the configuration lists (transformers adds them, too)."""
    if decoder is None:
        return vocabulary
    if not isinstance(decoder, dict):
        raise TokenizerError("added_tokens_decoder is no object", value=decoder)
    added = {token.id: token for token in vocabulary.added}
    tokens = list(vocabulary.token_bytes)
    for key, entry in decoder.items():
        if not key.isdecimal() or not isinstance(entry, dict):
            raise TokenizerError("added_tokens_decoder is malformed", value=(key, entry))
        token = added_token({**entry, "id": int(key)})
        if token.id in added:
            if added[token.id].content != token.content:
                raise TokenizerError(
                    f"id {token.id} is two tokens", value=(added[token.id].content, token.content)
                )
            continue
        added[token.id] = token
        tokens.extend([b""] * (token.id + 1 - len(tokens)))
        tokens[token.id] = b""
    return dataclasses.replace(
        vocabulary, token_bytes=tokens, added=tuple(added[i] for i in sorted(added))
    )


def _template(value: Any, folder: Path) -> str | None:
    path = folder / _TEMPLATE_FILE
    if path.is_file():
        if path.stat().st_size > _MAX_TEMPLATE_BYTES:
            raise TokenizerError("the chat template is too large", value=str(path))
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise TokenizerError("the chat template is no UTF-8 text", value=str(path)) from error
    if isinstance(value, list):
        # Several named templates: the one for plain chat.
        named = {
            entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)
        }
        value = named.get("default")
    if value is None or isinstance(value, str):
        return value
    raise TokenizerError("the chat template is no text", value=value)
