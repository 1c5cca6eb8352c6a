"""Everything that defines a tokenizer, as plain data: what files are read into and written from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from cerne.errors import TokenizerError
from cerne.native.tokenizer import PATTERNS
from cerne.tokenizer.special import AddedToken, Roles

MAX_TOKENS = 1 << 24


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A byte-level BPE vocabulary.

    Attributes:
        token_bytes: bytes by id; b"" where the id is an added token or not used.
        merges: pairs of ids in order of priority, uint32 [M, 2].
        pattern: pre-tokenization, one of cerne.native.tokenizer.PATTERNS.
        added: added tokens in order of id.
        roles: which control token does what.
        normalizer: "nfc" when text is brought into Unicode form C first (Qwen2).
        ignore_merges: a pre-token that is a whole token is emitted as it is (Llama 3).
        chat_template: Jinja source, or None.
    """

    token_bytes: Sequence[bytes]
    merges: npt.NDArray[np.uint32]
    pattern: str
    added: tuple[AddedToken, ...]
    roles: Roles
    normalizer: Literal["nfc"] | None = None
    ignore_merges: bool = False
    chat_template: str | None = None

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
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
        self._check_bytes()
        self._check_roles()

    def _check_bytes(self) -> None:
        single = {token for token in self.token_bytes if len(token) == 1}
        missing = [byte for byte in range(256) if bytes([byte]) not in single]
        if missing:
            raise TokenizerError(
                f"the vocabulary lacks {len(missing)} of the 256 single bytes, so some text "
                "could not be encoded without loss",
                value=[f"0x{byte:02x}" for byte in missing[:8]],
                hint="train with the whole byte alphabet",
            )

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
