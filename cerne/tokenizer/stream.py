"""Text from token ids that arrive one by one, never splitting a character.

The pieces together are exactly `decode` of all ids: bytes that cannot begin a character become
U+FFFD at once, an unfinished character waits (3 bytes at most) and becomes U+FFFD at the flush.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

_DECODER = codecs.getincrementaldecoder("utf-8")


class StreamDecoder:
    """One stream. Not thread-safe; make one a stream with `Tokenizer.stream()`.

    Args:
        bytes_of: the bytes of an id.
    """

    def __init__(self, bytes_of: Callable[[int], bytes]) -> None:
        self._bytes_of = bytes_of
        self._decoder = _DECODER(errors="replace")

    def push(self, token_id: int) -> str:
        """The text that this id completes; often "" in the middle of a character."""
        return self._decoder.decode(self._bytes_of(token_id))

    def flush(self) -> str:
        """What an unfinished character leaves ("" or U+FFFD). The stream can then begin anew."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


class Continuation:
    """A tokenizer's `decode` and `stream` for ids that continue other text.

    Args:
        decode: text of a list of ids.
        stream: makes a stream whose pieces together equal `decode`.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], stream: Callable[[], StreamDecoder]
    ) -> None:
        self.decode = decode
        self.stream = stream
