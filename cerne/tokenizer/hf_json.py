"""`tokenizer.json` as the `tokenizers` package writes it: read with every field checked, written so
that the package gives equal ids.

Only byte-level BPE is read; another model, normaliser or pre-tokenizer is refused by name, because
guessing would give other ids silently. Special tokens keep their ids and lose nothing else: text
never becomes one here, whatever the flags say. Truncation and padding settings are not applied.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cerne.errors import TokenizerError
from cerne.tokenizer.byte_level import to_bytes, to_characters
from cerne.tokenizer.patterns import pattern_of, pre_tokenizer_json
from cerne.tokenizer.post_processor import affixes_of, post_processor_json
from cerne.tokenizer.special import AddedToken, default_roles
from cerne.tokenizer.vocabulary import MAX_TOKENS, Vocabulary

MAX_FILE_BYTES = 1 << 28

# Each key of the model object either is used here or cannot change ids when all bytes are tokens.
_MODEL_KEYS = {
    "type", "vocab", "merges", "dropout", "unk_token", "continuing_subword_prefix",
    "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
}  # fmt: skip


def vocabulary_from_json(data: bytes, source: str) -> Vocabulary:
    """Parses tokenizer.json. Roles are those that the file itself tells; see hf_config.

    Raises:
        TokenizerError: the file is damaged, hostile or of an unsupported kind.
    """
    root = parse_object(data, source)
    try:
        return _vocabulary(root)
    except TokenizerError as error:
        raise TokenizerError(f"{source}: {error}") from error


def parse_object(data: bytes, source: str) -> dict[str, Any]:
    """A JSON object from untrusted bytes: bounded in size and depth.

    Raises:
        TokenizerError: it is not one.
    """
    if len(data) > MAX_FILE_BYTES:
        raise TokenizerError(
            f"{source} is too large", value=len(data), allowed=f"{MAX_FILE_BYTES} bytes"
        )
    try:
        root = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TokenizerError(
            f"{source} is no readable JSON: {error}", hint="download or save it again"
        ) from error
    if not isinstance(root, dict):
        raise TokenizerError(f"{source} holds no JSON object", value=root)
    return root


def vocabulary_to_json(vocabulary: Vocabulary) -> bytes:
    """tokenizer.json of a vocabulary; equal vocabularies give equal bytes.

    Raises:
        TokenizerError: it has pieces, which are not written.
    """
    if vocabulary.pieces is not None:
        raise TokenizerError(
            "a SentencePiece vocabulary is not written as tokenizer.json",
            hint="keep it in its GGUF file",
        )
    added = {token.id: token for token in vocabulary.added}
    tokens = vocabulary.token_bytes
    end = len(tokens)
    while end > 0 and end - 1 in added:
        end -= 1
    # `tokenizers` numbers added tokens on from the vocabulary; with an unused id that goes wrong.
    if any(not tokens[i] and i not in added for i in range(end)):
        end = len(tokens)
    written = {
        i: added[i].content if i in added else to_characters(tokens[i])
        for i in range(end)
        if i in added or tokens[i]
    }
    pairs = [[written[a], written[b]] for a, b in vocabulary.merges.tolist()]
    root = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_json(token) for token in vocabulary.added],
        "normalizer": None if vocabulary.normalizer is None else {"type": "NFC"},
        "pre_tokenizer": pre_tokenizer_json(vocabulary.pattern),
        "post_processor": post_processor_json(vocabulary),
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": vocabulary.ignore_merges,
            "vocab": {token: i for i, token in written.items()},
            "merges": pairs,
        },
    }
    return json.dumps(root, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n"


_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}


def _added_json(token: AddedToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "content": token.content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": token.normalized,
        "special": token.special,
    }


def _vocabulary(root: dict[str, Any]) -> Vocabulary:
    model = _checked_model(root.get("model"))
    pattern = pattern_of(root.get("pre_tokenizer"))
    _check_decoder(root.get("decoder"))
    added = read_added_tokens(root.get("added_tokens"))
    ids = _vocabulary_ids(model.get("vocab"))
    tokens = place_tokens(ids, added)
    bos, eos = affixes_of(root.get("post_processor"))
    roles = default_roles(token.content for token in added if token.special)
    return Vocabulary(
        token_bytes=tokens,
        merges=_merges(model.get("merges"), ids),
        pattern=pattern,
        added=added,
        roles=roles.with_affixes(bos, eos),
        normalizer=_normalizer(root.get("normalizer")),
        ignore_merges=model.get("ignore_merges") is True,
    )


def _checked_model(model: Any) -> dict[str, Any]:
    if not isinstance(model, dict):
        raise TokenizerError("there is no model object", value=model)
    # Old files leave the type out.
    kind = model.get("type", "BPE")
    if kind != "BPE":
        raise TokenizerError("the model type is not supported", value=kind, allowed="BPE")
    unknown = sorted(set(model) - _MODEL_KEYS)
    if unknown:
        raise TokenizerError(
            "the model has unknown keys", value=unknown, allowed=", ".join(sorted(_MODEL_KEYS))
        )
    if model.get("dropout") not in (None, 0, 0.0):
        raise TokenizerError(
            "the model drops merges at random", value=model["dropout"], allowed="dropout null"
        )
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key) not in (None, ""):
            raise TokenizerError(f"{key} is not supported", value=model[key], allowed="null")
    return model


def _check_decoder(decoder: Any) -> None:
    steps = [decoder]
    if isinstance(decoder, dict) and decoder.get("type") == "Sequence":
        steps = decoder.get("decoders", [])
    if not isinstance(steps, list) or len(steps) != 1 or not isinstance(steps[0], dict):
        raise TokenizerError("the decoder is not supported", value=decoder, allowed="ByteLevel")
    if steps[0].get("type") != "ByteLevel":
        raise TokenizerError("the decoder is not supported", value=decoder, allowed="ByteLevel")


def _normalizer(normalizer: Any) -> Literal["nfc"] | None:
    steps = [] if normalizer is None else [normalizer]
    if isinstance(normalizer, dict) and normalizer.get("type") == "Sequence":
        steps = normalizer.get("normalizers", [])
    if steps == []:
        return None
    if steps == [{"type": "NFC"}]:
        return "nfc"
    raise TokenizerError("the normalizer is not supported", value=normalizer, allowed="NFC or none")


def token_id(value: Any) -> int:
    """A token id from untrusted JSON.

    Raises:
        TokenizerError: it is no whole number in range.
    """
    if type(value) is not int or not 0 <= value < MAX_TOKENS:
        raise TokenizerError("a token id is wrong", value=value, allowed=f"0 to {MAX_TOKENS - 1}")
    return value


def _vocabulary_ids(vocab: Any) -> dict[str, int]:
    if not isinstance(vocab, dict) or not vocab:
        raise TokenizerError("there is no vocabulary", value=vocab)
    if len({token_id(value) for value in vocab.values()}) != len(vocab):
        raise TokenizerError("two tokens have the same id")
    return vocab


def read_added_tokens(entries: Any) -> tuple[AddedToken, ...]:
    """The `added_tokens` list in order of id.

    Raises:
        TokenizerError: an entry is malformed, or a plain token has a matching rule of its own.
    """
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise TokenizerError("added_tokens is no list", value=entries)
    return tuple(sorted(map(added_token, entries), key=lambda token: token.id))


def added_token(entry: Any) -> AddedToken:
    """One added token from untrusted JSON."""
    content = entry.get("content") if isinstance(entry, dict) else None
    if not isinstance(content, str) or not content:
        raise TokenizerError("an added token has no content", value=entry)
    try:
        content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TokenizerError("an added token is no Unicode text", value=content) from error
    special = entry.get("special") is True
    flags = [name for name in ("single_word", "lstrip", "rstrip") if entry.get(name) is True]
    if flags and not special:
        raise TokenizerError(
            "an added token that text can become has an unsupported flag",
            value=f"{content}: {', '.join(flags)}",
        )
    return AddedToken(
        token_id(entry.get("id")), content, special, entry.get("normalized", not special) is True
    )


def place_tokens(ids: dict[str, int], added: tuple[AddedToken, ...]) -> list[bytes]:
    """Bytes by id, b"" for added tokens and unused ids.

    Raises:
        TokenizerError: an added token contradicts the vocabulary.
    """
    content_of = {token.id: token.content for token in added}
    size = 1 + max(max(ids.values()), max(content_of, default=0))
    tokens = [b""] * size
    for written, index in ids.items():
        if index not in content_of:
            tokens[index] = to_bytes(written)
        elif content_of[index] != written:
            raise TokenizerError(f"id {index} is two tokens", value=(written, content_of[index]))
    for token in added:
        if ids.get(token.content, token.id) != token.id:
            raise TokenizerError(
                "an added token has two ids", value=(token.content, ids[token.content], token.id)
            )
    return tokens


def _merges(merges: Any, ids: dict[str, int]) -> npt.NDArray[np.uint32]:
    if not isinstance(merges, list):
        raise TokenizerError("merges is no list", value=merges)
    pairs = np.empty((len(merges), 2), dtype=np.uint32)
    for rank, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2:
            raise TokenizerError(f"merge {rank} is no pair of tokens", value=merge)
        left, right = parts
        if not isinstance(left, str) or not isinstance(right, str):
            raise TokenizerError(f"merge {rank} is no pair of tokens", value=merge)
        for token in (left, right, left + right):
            if token not in ids:
                raise TokenizerError(
                    f"merge {rank} names a token that the vocabulary lacks", value=token
                )
        pairs[rank] = ids[left], ids[right]
    return pairs
