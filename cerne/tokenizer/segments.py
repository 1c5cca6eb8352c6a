"""What happens to text before merging in other people's tokenizers: plain added tokens are cut out
first, the rest may be brought into Unicode form C or get a space before it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from cerne.tokenizer.special import AddedToken


class Segmenter:
    """Splits text into stretches to merge and ids that are already known. Thread-safe.

    Args:
        plain: added tokens that text becomes. From left to right; the longest wins where two begin.
        nfc: bring text into form C.
        longest_first: cut out all occurrences of the longest token before those of shorter ones, as
            llama.cpp does; the order of ids decides between equal lengths.
        space_prefix: put a space before each stretch to merge.
    """

    def __init__(
        self,
        plain: Sequence[AddedToken],
        nfc: bool,
        longest_first: bool = False,
        space_prefix: bool = False,
    ) -> None:
        self._prefix = b" " if space_prefix else b""
        self._nfc = nfc
        self._ranked: list[tuple[bytes, int]] = []
        if longest_first:
            tokens = [(token.content.encode("utf-8"), token.id) for token in plain]
            self._ranked = sorted(tokens, key=lambda token: -len(token[0]))
            plain = ()
        raw = {t.content: t.id for t in plain if not (nfc and t.normalized)}
        self._raw, self._raw_ids = _matcher(raw), raw
        cooked = {_form_c(t.content): t.id for t in plain if nfc and t.normalized}
        self._cooked, self._cooked_ids = _matcher(cooked), cooked
        self.is_trivial = not (nfc or raw or self._ranked or space_prefix)

    def split(self, text: bytes) -> Iterator[bytes | int]:
        """Stretches of bytes and ids in order; stretches are never empty.

        Invalid bytes are kept as they are (form C leaves their stand-ins alone).
        """
        raw = self._split_ranked(text) if self._ranked else _split(self._raw, self._raw_ids, text)
        for piece in self._split_normal(raw):
            yield piece if isinstance(piece, int) else self._prefix + piece

    def _split_normal(self, raw: Iterable[bytes | int]) -> Iterator[bytes | int]:
        for piece in raw:
            if isinstance(piece, int) or not self._nfc or piece.isascii():
                yield from [piece] if isinstance(piece, int) else self._split_cooked(piece)
                continue
            normal = _form_c(piece.decode("utf-8", "surrogateescape"))
            yield from self._split_cooked(normal.encode("utf-8", "surrogateescape"))

    def _split_ranked(self, text: bytes) -> list[bytes | int]:
        pieces: list[bytes | int] = [text] if text else []
        for content, token_id in self._ranked:
            if content not in text:
                continue
            before, pieces = pieces, []
            for piece in before:
                if isinstance(piece, int):
                    pieces.append(piece)
                    continue
                first, *others = piece.split(content)
                if first:
                    pieces.append(first)
                for other in others:
                    pieces.append(token_id)
                    if other:
                        pieces.append(other)
        return pieces

    def _split_cooked(self, text: bytes) -> Iterator[bytes | int]:
        return _split(self._cooked, self._cooked_ids, text)


def _form_c(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _matcher(tokens: dict[str, int]) -> re.Pattern[bytes] | None:
    if not tokens:
        return None
    longest_first = sorted((content.encode("utf-8") for content in tokens), key=len, reverse=True)
    return re.compile(b"|".join(map(re.escape, longest_first)))


def _split(
    matcher: re.Pattern[bytes] | None, ids: dict[str, int], text: bytes
) -> Iterator[bytes | int]:
    position = 0
    for match in matcher.finditer(text) if matcher is not None else ():
        if match.start() > position:
            yield text[position : match.start()]
        yield ids[match.group().decode("utf-8")]
        position = match.end()
    if position < len(text):
        yield text[position:]
