"""The native tokenizer seen from Python: losslessness, batches, offsets, threads, misuse."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from cerne.errors import TokenizerError
from cerne.native.tokenizer import PATTERNS, NativeTokenizer, pretokenize

BYTES = [bytes([byte]) for byte in range(256)]
# ab, abc, " the" by two ways, a special token and two multi-byte characters.
WORDS = [b"ab", b"abc", b" t", b"he", b" the", b"", "é".encode(), b"\xe4\xbd", "你".encode()]


def small(pattern: str = "gpt2", **options: int) -> NativeTokenizer:
    """A vocabulary of 256 bytes and WORDS."""
    tokens = BYTES + WORDS
    ids = {token: index for index, token in enumerate(tokens) if token}
    pairs = [
        (b"a", b"b"), (b"ab", b"c"), (b" ", b"t"), (b"h", b"e"), (b" t", b"he"),
        (b"\xc3", b"\xa9"), (b"\xe4", b"\xbd"), (b"\xe4\xbd", b"\xa0"),
    ]  # fmt: skip
    return NativeTokenizer(tokens, [(ids[a], ids[b]) for a, b in pairs], pattern, options)


@pytest.fixture(scope="module")
def tokenizer() -> NativeTokenizer:
    """One small tokenizer for the tests that do not change it."""
    return small()


def test_known_ids(tokenizer: NativeTokenizer) -> None:
    ids = tokenizer.encode("abcab the é你".encode())
    assert ids.dtype == np.uint32
    assert ids.tolist() == [257, 256, 260, 32, 262, 264]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_case32_every_byte_string_survives(pattern: str) -> None:
    rng = np.random.default_rng(32)
    texts = [b"", b"?", "😀你é".encode(), bytes(range(256)), b"\xed\xa0\x80", b"\xff" * 70]
    texts += [
        rng.integers(0, 256, rng.integers(1, 300), dtype=np.uint8).tobytes() for _ in range(200)
    ]
    with small(pattern) as tokenizer:
        for text in texts:
            assert tokenizer.decode(tokenizer.encode(text)) == text
            assert b"".join(pretokenize(pattern, text)) == text


def test_case31_token_lengths_sum_to_the_bytes(tokenizer: NativeTokenizer) -> None:
    text = "abc the é 你 \x80".encode() + b"\xff\x80"
    assert int(tokenizer.token_lengths(tokenizer.encode(text)).sum()) == len(text)


def test_special_ids_decode_to_nothing_and_are_never_produced(tokenizer: NativeTokenizer) -> None:
    assert tokenizer.decode([97, 261, 98]) == b"ab"
    assert tokenizer.token_lengths([261]).tolist() == [0]


def test_offsets_cut_the_text_into_its_tokens(tokenizer: NativeTokenizer) -> None:
    text = "the abc é你!".encode()
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert offsets.shape == (len(ids), 2)
    pieces = [text[begin:end] for begin, end in offsets.tolist()]
    assert b"".join(pieces) == text
    assert pieces == [tokenizer.decode([index]) for index in ids.tolist()]
    assert tokenizer.encode_with_offsets(b"")[1].shape == (0, 2)


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_batches_equal_singles(tokenizer: NativeTokenizer, threads: int | None) -> None:
    texts = [b"abc the " * (i % 7) + bytes([i % 256]) * (i % 3) for i in range(100)]
    batch = tokenizer.encode_batch(texts, threads=threads)
    assert [ids.tolist() for ids in batch] == [tokenizer.encode(text).tolist() for text in texts]


def test_empty_batches(tokenizer: NativeTokenizer) -> None:
    assert tokenizer.encode_batch([]) == []
    assert [len(ids) for ids in tokenizer.encode_batch([b"", b""])] == [0, 0]


def test_batches_work_after_a_fork() -> None:
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1]);"
        "from test_native_tokenizer import small;"
        "t = small(); texts = [b'abc the'] * 40; a = t.encode_batch(texts, threads=2);"
        "child = os.fork();"
        "b = t.encode_batch(texts, threads=2);"
        "same = all((x == y).all() for x, y in zip(a, b));"
        "child or os._exit(0 if same else 1);"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]);"
        "print('child', code, 'parent', same)"
    )
    folder = os.path.dirname(__file__)
    command = [sys.executable, "-c", program, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "child 0 parent True\n", done.stderr


def test_threads_share_one_tokenizer(tokenizer: NativeTokenizer) -> None:
    text = b"abc the hehe " * 500
    expected = tokenizer.encode(text).tolist()
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(20):
            if tokenizer.encode(text).tolist() != expected:
                wrong.append(index)

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


@pytest.mark.parametrize("char", ["a", " ", "\n", "^", "1", "é", "你"])
def test_a_megabyte_of_one_character(tokenizer: NativeTokenizer, char: str) -> None:
    text = char.encode() * (1_000_000 // len(char.encode()))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    # é and 你 are tokens of their own here; nothing else merges with itself.
    assert len(ids) == len(text) // len(char.encode())


def test_a_line_of_fifty_megabytes(tokenizer: NativeTokenizer) -> None:
    text = b"abc the, " * 5_600_000
    ids = tokenizer.encode(text)
    assert len(ids) == 4 * 5_600_000
    assert tokenizer.token_lengths(ids).sum() == len(text)


def test_returned_ids_are_the_callers_own(tokenizer: NativeTokenizer) -> None:
    first = tokenizer.encode(b"abc")
    tokenizer.encode(b"the the")
    assert first.tolist() == [257]


def test_refusals_name_the_value(tokenizer: NativeTokenizer) -> None:
    with pytest.raises(TokenizerError, match="id 999"):
        tokenizer.decode([999])
    with pytest.raises(TokenizerError, match="-1"):
        tokenizer.decode([-1])
    with pytest.raises(TokenizerError, match="number of threads"):
        tokenizer.encode_batch([b"a"], threads=0)
    with pytest.raises(TokenizerError, match="gpt5"):
        small("gpt5")
    with pytest.raises(TokenizerError, match="cash"):
        small(cash=1)
    with pytest.raises(TokenizerError, match="no token for byte 0"):
        NativeTokenizer(BYTES, [], scores=np.zeros(len(BYTES), dtype=np.float32))
    with pytest.raises(TokenizerError, match="does not make a token"):
        NativeTokenizer(BYTES, [(1, 2)])
    with pytest.raises(TokenizerError, match="gpt5"):
        pretokenize("gpt5", b"")


def test_a_closed_tokenizer_is_told() -> None:
    tokenizer = small()
    tokenizer.close()
    tokenizer.close()
    with pytest.raises(TokenizerError, match="closed"):
        tokenizer.encode(b"a")
