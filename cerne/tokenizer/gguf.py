"""The tokenizer inside a GGUF file: `tokenizer.ggml.*` and `tokenizer.chat_template`.

In: an open file. Out: a Vocabulary that gives llama.cpp's ids. Every length, id and name is
checked; what llama.cpp guesses or warns about is an error here. Kinds: `gpt2` (byte-level BPE) and
`llama` (SentencePiece). Leaves out WordPiece, Unigram and RWKV vocabularies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cerne.errors import TokenizerError
from cerne.native.gguf import GgufFile
from cerne.tokenizer.byte_level import is_written, to_bytes
from cerne.tokenizer.gguf_names import ALWAYS_CONTROL, pre_tokenizer
from cerne.tokenizer.special import END_OF_TURN_NAMES, AddedToken, Roles
from cerne.tokenizer.vocabulary import Pieces, Vocabulary

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5
# Files write "no such token" as -1 in an unsigned field.
_NO_ID = 2**32 - 1
# Key of the id of each role.
_ROLE_KEYS = {"bos": "bos", "eos": "eos", "pad": "padding", "end_of_turn": "eot"}


def vocabulary_from_gguf(file: GgufFile) -> Vocabulary:
    """The vocabulary of a GGUF file.

    Raises:
        TokenizerError: there is none, it is damaged, or of a kind that is not supported.
    """
    try:
        kind = _value(file, "model", str)
        reader = _READERS.get(str(kind))
        if reader is None:
            raise TokenizerError(
                "the file has no tokenizer" if kind is None else "the tokenizer is not supported",
                value=kind,
                allowed=", ".join(_READERS) + " in tokenizer.ggml.model",
            )
        return reader(file)
    except TokenizerError as error:
        raise TokenizerError(f"{file.path}: {error}") from error


@dataclasses.dataclass(frozen=True)
class _Tokens:
    """What every kind has: texts and types by id, the roles, and which ids are control tokens."""

    texts: list[str]
    types: list[int]
    roles: Roles
    added: tuple[AddedToken, ...]


def _byte_level(file: GgufFile) -> Vocabulary:
    pre = pre_tokenizer(_value(file, "pre", str))
    tokens = _tokens(file, Roles(add_bos=pre.add_bos))
    merges = _strings(file, "merges")
    added = {token.id for token in tokens.added}
    named = {i: text for i, text in enumerate(tokens.texts) if text and i not in added}
    ids = {text: i for i, text in named.items()}
    if len(ids) != len(named):
        twice = next(text for i, text in named.items() if ids[text] != i)
        raise TokenizerError("a token occurs twice", value=twice)
    pairs = _pairs(merges, ids, {token.content for token in tokens.added})
    used = set(pairs.reshape(-1).tolist())
    token_bytes = [b""] * len(tokens.texts)
    for i, text in named.items():
        # What is not made of the byte alphabet, or fills the vocabulary up, no text becomes.
        if i in used or (tokens.types[i] != _UNUSED and is_written(text)):
            token_bytes[i] = to_bytes(text)
    return Vocabulary(
        token_bytes=token_bytes,
        merges=pairs,
        pattern=pre.pattern,
        added=tokens.added,
        roles=tokens.roles,
        ignore_merges=pre.ignore_merges,
        chat_template=_template(file),
        longest_first=True,
    )


def _sentence_piece(file: GgufFile) -> Vocabulary:
    tokens = _tokens(file, Roles(add_bos=True), {"bos": 1, "eos": 2})
    scores = _numbers(file, "scores", len(tokens.texts)).astype(np.float32)
    ids = {text: i for i, text in enumerate(tokens.texts)}
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    missing = [name for name in names if name not in ids]
    if missing:
        raise TokenizerError(
            f"{len(missing)} of the 256 byte tokens are missing, so some text could not be encoded",
            value=missing[:8],
        )
    token_bytes = [
        text.replace("\u2581", " ").encode("utf-8", "surrogateescape") for text in tokens.texts
    ]
    for byte, name in enumerate(names):
        token_bytes[ids[name]] = bytes([byte])
    for token in tokens.added:
        token_bytes[token.id] = b""
    return Vocabulary(
        token_bytes=token_bytes,
        merges=np.empty((0, 2), dtype=np.uint32),
        pattern="",
        added=tokens.added,
        roles=tokens.roles,
        chat_template=_template(file),
        longest_first=True,
        pieces=Pieces(
            scores=scores,
            byte_ids=np.array([ids[name] for name in names], dtype=np.uint32),
            space_prefix=_value(file, "add_space_prefix", bool, True),
        ),
    )


_READERS: dict[str, Callable[[GgufFile], Vocabulary]] = {
    "gpt2": _byte_level,
    "llama": _sentence_piece,
}


def _tokens(file: GgufFile, roles: Roles, defaults: dict[str, int] | None = None) -> _Tokens:
    """Reads what every kind has. `defaults` are the roles' ids where the file is silent."""
    texts = _strings(file, "tokens")
    types = _types(file, len(texts))
    add_bos = _value(file, "add_bos_token", bool, roles.add_bos)
    ids = {role: _role_id(file, key, len(texts)) for role, key in _ROLE_KEYS.items()}
    for role, index in (defaults if defaults is not None else {}).items():
        if f"tokenizer.ggml.{_ROLE_KEYS[role]}_token_id" not in file and index < len(texts):
            ids[role] = index
    # Some files name a common token, ",", as a begin or padding that nobody uses.
    for role in ("pad",) if add_bos else ("pad", "bos"):
        named = ids[role]
        if named is not None and types[named] == _NORMAL and "tokenizer.ggml.token_type" in file:
            ids[role] = None
    control = {i for i, kind in enumerate(types) if kind in (_UNKNOWN, _CONTROL)}
    control |= {i for i, text in enumerate(texts) if text in ALWAYS_CONTROL}
    control |= {index for index in ids.values() if index is not None}
    plain = {i for i, kind in enumerate(types) if kind == _USER_DEFINED} - control
    added = []
    for i in sorted(control | plain):
        if texts[i]:
            added.append(AddedToken(i, _unicode(texts[i], i), special=i in control))
    names = {role: None if i is None or not texts[i] else texts[i] for role, i in ids.items()}
    if names["end_of_turn"] is None:
        there = {texts[i] for i in control}
        names["end_of_turn"] = next((name for name in END_OF_TURN_NAMES if name in there), None)
    roles = dataclasses.replace(
        roles,
        pad=names["pad"],
        eos=names["eos"],
        bos=names["bos"],
        end_of_turn=names["end_of_turn"],
        add_bos=add_bos and ("tokenizer.ggml.add_bos_token" in file or names["bos"] is not None),
        add_eos=_value(file, "add_eos_token", bool, False),
    )
    return _Tokens(texts, types, roles, tuple(added))


def _types(file: GgufFile, count: int) -> list[int]:
    if "tokenizer.ggml.token_type" not in file:
        return [_NORMAL] * count
    types = _numbers(file, "token_type", count)
    if types.dtype.kind not in "iu":
        raise TokenizerError("tokenizer.ggml.token_type is no list of whole numbers")
    kinds: list[int] = types.tolist()
    return kinds


def _role_id(file: GgufFile, key: str, count: int) -> int | None:
    index: int | None = _value(file, f"{key}_token_id", int)
    if index is None or index in (-1, _NO_ID):
        return None
    if not 0 <= index < count:
        raise TokenizerError(
            f"tokenizer.ggml.{key}_token_id is outside the vocabulary",
            value=index,
            allowed=f"0 to {count - 1}",
        )
    return index


def _pairs(merges: Sequence[str], ids: dict[str, int], added: set[str]) -> npt.NDArray[np.uint32]:
    """The merges as ids [M, 2] in order of priority; the first of equal pairs counts."""
    pairs: dict[tuple[int, int], None] = {}
    for rank, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        try:
            pair = ids[left], ids[right]
            # What they make is a token, too.
            ids[left + right]
        except KeyError as error:
            if not left or not right:
                raise TokenizerError(f"merge {rank} is no pair of tokens", value=merge) from error
            (token,) = error.args
            what = "a control or user-defined token" if token in added else "an unknown token"
            raise TokenizerError(f"merge {rank} names {what}", value=token) from error
        pairs.setdefault(pair)
    return np.array(list(pairs), dtype=np.uint32).reshape(-1, 2)


def _template(file: GgufFile) -> str | None:
    key = "tokenizer.chat_template"
    if key not in file:
        return None
    template = file.value(key)
    if not isinstance(template, str):
        raise TokenizerError(f"{key} is no text")
    return _unicode(template, key)


def _value(file: GgufFile, name: str, kind: type, default: Any = None) -> Any:
    """A single value of a type, or the default when the file lacks it."""
    key = f"tokenizer.ggml.{name}"
    if key not in file:
        return default
    value = file.value(key)
    # bool is an int to Python; a truth value is no id.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TokenizerError(f"{key} is of the wrong type", value=value, allowed=kind.__name__)
    return value


def _strings(file: GgufFile, name: str) -> list[str]:
    key = f"tokenizer.ggml.{name}"
    value = file.value(key) if key in file else None
    if not isinstance(value, list) or not value:
        raise TokenizerError(f"the file lacks the list of texts {key}")
    return value


def _numbers(file: GgufFile, name: str, count: int) -> npt.NDArray[Any]:
    key = f"tokenizer.ggml.{name}"
    value = file.value(key) if key in file else None
    if not isinstance(value, np.ndarray):
        raise TokenizerError(f"the file lacks the list of numbers {key}")
    if len(value) != count:
        raise TokenizerError(
            f"{key} has another length than tokenizer.ggml.tokens",
            value=len(value),
            allowed=str(count),
        )
    return value


def _unicode(text: str, where: object) -> str:
    """The text, when it is valid UTF-8 in the file."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TokenizerError("a text is not valid UTF-8", value=(where, text)) from error
    return text
