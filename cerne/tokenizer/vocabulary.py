"""Everything that defines a tokenizer, as plain data: what files are read into and written from."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from cerne.errors import TokenizerError
from cerne.native.tokenizer import PATTERNS, NativeTokenizer
from cerne.tokenizer.special import AddedToken, Roles

MAX_TOKENS = 1 << 24
# How pieces write a space: U+2581.
SPACE = "\u2581".encode()


@dataclasses.dataclass(frozen=True)
class Pieces:
    """What makes a vocabulary one of SentencePiece's BPE kind.

    Attributes:
        scores: by id, float32 [V]: neighbours that together have the highest score merge first.
        byte_ids: the token of each byte, for text that has no other, uint32 [256].
        space_prefix: text gets a space before it, at the beginning and behind an added token.
    """

    scores: npt.NDArray[np.float32]
    byte_ids: npt.NDArray[np.uint32]
    space_prefix: bool


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A vocabulary: byte-level BPE, or SentencePiece when it has `pieces`.

    Attributes:
        token_bytes: bytes by id; b"" where the id is an added token or not used.
        merges: pairs of ids in order of priority, uint32 [M, 2]; none when it has pieces.
        pattern: pre-tokenization, one of cerne.native.tokenizer.PATTERNS; "" when it has pieces.
        added: added tokens in order of id.
        roles: which control token does what.
        normalizer: "nfc" when text is brought into Unicode form C first (Qwen2).
        ignore_merges: a pre-token that is a whole token is emitted as it is (Llama 3).
        chat_template: Jinja source, or None.
        longest_first: plain added tokens are cut out of text the longest first, wherever it is
            (GGUF); else from left to right (tokenizer.json).
        pieces: the scores and byte tokens of a SentencePiece vocabulary.
    """

    token_bytes: Sequence[bytes]
    merges: npt.NDArray[np.uint32]
    pattern: str
    added: tuple[AddedToken, ...]
    roles: Roles
    normalizer: Literal["nfc"] | None = None
    ignore_merges: bool = False
    chat_template: str | None = None
    longest_first: bool = False
    pieces: Pieces | None = None

    @functools.cached_property
    def missing_bytes(self) -> bytes:
        """Bytes that no token holds: encoding leaves them out, as all other programs do."""
        if self.pieces is not None:
            return b""
        single = {token for token in self.token_bytes if len(token) == 1}
        return bytes(byte for byte in range(256) if bytes([byte]) not in single)

    def __post_init__(self) -> None:
        if self.pieces is not None:
            self._check_pieces(self.pieces)
        elif self.pattern not in PATTERNS:
            raise TokenizerError("unknown pattern", value=self.pattern, allowed=", ".join(PATTERNS))
        ids = [token.id for token in self.added]
        if ids != sorted(set(ids)) or (ids and ids[-1] >= len(self.token_bytes)):
            raise TokenizerError("added tokens have equal or unordered ids", value=ids)
        contents = [token.content for token in self.added]
        if len(set(contents)) != len(contents):
            raise TokenizerError("an added token occurs twice", value=contents)
        if len(self.token_bytes) > MAX_TOKENS:
            raise TokenizerError(
                "the vocabulary is too large",
                value=len(self.token_bytes),
                allowed=f"at most {MAX_TOKENS} tokens",
            )
        if self.pieces is None and len(self.missing_bytes) == 256:
            raise TokenizerError("the vocabulary has no token for any single byte")
        self._check_roles()

    def _check_pieces(self, pieces: Pieces) -> None:
        size = len(self.token_bytes)
        if self.pattern or len(self.merges) or self.ignore_merges:
            raise TokenizerError("a vocabulary of pieces has no pattern and no merges")
        if pieces.scores.shape != (size,) or np.isnan(pieces.scores).any():
            raise TokenizerError(
                "the scores are not one number a token",
                value=pieces.scores.shape,
                allowed=str(size),
            )
        if pieces.byte_ids.shape != (256,) or int(pieces.byte_ids.max()) >= size:
            raise TokenizerError("the byte tokens are not 256 ids of the vocabulary")

    def _check_roles(self) -> None:
        control = {token.content for token in self.added if token.special}
        for role in ("pad", "eos", "bos", "end_of_turn"):
            name = getattr(self.roles, role)
            if name is not None and name not in control:
                raise TokenizerError(
                    f"the {role} token is not a special token of the vocabulary",
                    value=name,
                    allowed=", ".join(sorted(control)[:20]) or "no special token is there",
                )
        for flag, role in (("add_bos", "bos"), ("add_eos", "eos")):
            if getattr(self.roles, flag) and getattr(self.roles, role) is None:
                raise TokenizerError(f"{flag} is set, but there is no {role} token")


def native_tokenizer(vocabulary: Vocabulary) -> NativeTokenizer:
    """The encoder and decoder of a vocabulary, without its added tokens.

    Raises:
        TokenizerError: the core refuses the tokens, the merges or the scores.
    """
    pieces = vocabulary.pieces
    if pieces is None:
        options = {"ignore_merges": int(vocabulary.ignore_merges)}
        return NativeTokenizer(
            vocabulary.token_bytes, vocabulary.merges, vocabulary.pattern, options
        )
    written = [token.replace(b" ", SPACE) for token in vocabulary.token_bytes]
    for byte, token_id in enumerate(pieces.byte_ids.tolist()):
        written[token_id] = b"<0x%02X>" % byte
    return NativeTokenizer(written, (), scores=pieces.scores)


def pieces_digest(vocabulary: Vocabulary, pieces: Pieces) -> str:
    """Hex SHA-256 of all that decides about the ids and the text of a SentencePiece vocabulary."""
    rules = {
        "added": [dataclasses.astuple(token) for token in vocabulary.added],
        "roles": dataclasses.asdict(vocabulary.roles),
        "chat_template": vocabulary.chat_template,
        "longest_first": vocabulary.longest_first,
        "space_prefix": pieces.space_prefix,
        "tokens": len(vocabulary.token_bytes),
    }
    whole = hashlib.sha256(json.dumps(rules, sort_keys=True).encode("ascii") + b"\n")
    lengths = np.array([len(token) for token in vocabulary.token_bytes])
    whole.update(lengths.astype("<u4").tobytes() + b"".join(vocabulary.token_bytes))
    whole.update(pieces.scores.astype("<f4").tobytes() + pieces.byte_ids.astype("<u4").tobytes())
    return whole.hexdigest()
