"""What happens to text before merging in other people's tokenizers: plain added tokens are cut out
first, the rest may be brought into Unicode form C.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from cerne.tokenizer.special import AddedToken


class Segmenter:
    """Splits text into stretches to merge and ids that are already known. Thread-safe.

    Args:
        plain: added tokens that text becomes; the longest wins where two begin.
        nfc: bring text into form C.
    """

    def __init__(self, plain: Sequence[AddedToken], nfc: bool) -> None:
        self._nfc = nfc
        raw = {t.content: t.id for t in plain if not (nfc and t.normalized)}
        self._raw, self._raw_ids = _matcher(raw), raw
        cooked = {_form_c(t.content): t.id for t in plain if nfc and t.normalized}
        self._cooked, self._cooked_ids = _matcher(cooked), cooked
        self.is_trivial = not nfc and not raw

    def split(self, text: bytes) -> Iterator[bytes | int]:
        """Stretches of bytes and ids in order; stretches are never empty.

        Invalid bytes are kept as they are (form C leaves their stand-ins alone).
        """
        for piece in _split(self._raw, self._raw_ids, text):
            if isinstance(piece, int) or not self._nfc or piece.isascii():
                yield from [piece] if isinstance(piece, int) else self._split_cooked(piece)
                continue
            normal = _form_c(piece.decode("utf-8", "surrogateescape"))
            yield from self._split_cooked(normal.encode("utf-8", "surrogateescape"))

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
