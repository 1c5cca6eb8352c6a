"""Training against the plain trainer, and everything that must not change its result."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerne.errors import TokenizerError
from cerne.native.tokenizer import PATTERNS, pretokenize
from cerne.native.trainer import NativeTrainer, TrainedBpe, TrainerStatistics
from cerne.tokenizer.bpe import Tokenizer
from tests.oracles.plain_bpe import BYTES_IN_ORDER, plain_train

STORY = (
    "Once upon a time there was a little fox. The fox's house had 12 doors, 345 windows and a "
    "café. Era uma vez uma raposa que não dormia; 狐は眠らない。 Жила-была лиса...\r\n\n"
)


def train_words(words: dict[bytes, int], vocab_size: int) -> TrainedBpe:
    with NativeTrainer() as trainer:
        for word, count in words.items():
            trainer.add_word(word, count)
        return trainer.train(vocab_size)


def train_text(
    pieces: Iterable[bytes], vocab_size: int = 400, **options: object
) -> tuple[TrainedBpe, TrainerStatistics]:
    with NativeTrainer(**options) as trainer:  # type: ignore[arg-type]
        for piece in pieces:
            trainer.feed(piece)
        trainer.end_document()
        return trainer.train(vocab_size), trainer.statistics()


def noisy_text(seed: int, size: int) -> bytes:
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdeéж", k=rng.randint(1, 9))) for _ in range(400)]
    parts = rng.choices([*words, "12", "\n", "  ", "!?", "'s"], k=size // 5)
    return " ".join(parts).encode()


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.one_of(
            st.text("ab", max_size=12).map(str.encode),
            st.text("abcd", max_size=9).map(str.encode),
            st.binary(max_size=6),
        ),
        st.integers(0, 50),
        max_size=25,
    ),
    st.integers(256, 330),
)
def test_merges_equal_the_plain_trainer(words: dict[bytes, int], vocab_size: int) -> None:
    trained = train_words(words, vocab_size)
    expected = plain_train(words, vocab_size)
    assert list(map(tuple, trained.merges.tolist())) == expected
    assert [token[0] for token in trained.token_bytes[:256]] == BYTES_IN_ORDER
    for (left, right), token in zip(expected, trained.token_bytes[256:], strict=True):
        assert token == trained.token_bytes[left] + trained.token_bytes[right]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_text_is_counted_as_its_pre_tokens(pattern: str) -> None:
    text = (STORY * 3).encode() + noisy_text(1, 4000)
    words = Counter(pretokenize(pattern, text))
    trained, counted = train_text([text], 300, pattern=pattern)
    assert list(map(tuple, trained.merges.tolist())) == plain_train(dict(words), 300)
    assert counted.words == len(words)
    assert counted.text_bytes == len(text)
    assert counted.word_bytes == sum(map(len, words))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pieces_and_threads_do_not_matter(pattern: str) -> None:
    # More than two rounds of 4 MiB, so that rounds, blocks and their cuts all occur.
    text = noisy_text(2, 1 << 20) + STORY.encode() * 200
    text = text * (9 * (1 << 20) // len(text) + 1)
    expected, counted = train_text([text], 500, pattern=pattern)
    assert counted.documents == 1
    rng = random.Random(3)
    cuts = sorted(rng.sample(range(len(text)), 40))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for threads, parts in ((1, pieces), (2, [text]), (3, pieces)):
        other, other_counted = train_text(parts, 500, pattern=pattern, threads=threads)
        assert other.merges.tolist() == expected.merges.tolist()
        assert other_counted == counted


def test_documents_are_not_joined() -> None:
    with NativeTrainer("gpt2", threads=2) as trainer:
        for _ in range(50):
            trainer.feed(b"ab")
            trainer.end_document()
            trainer.feed(b"")
        assert trainer.statistics().words == 1
        assert trainer.train(300).token_bytes[256:] == [b"ab"]


def test_text_without_any_place_to_cut_is_counted_whole() -> None:
    # No letter is followed by anything else for 5 MiB: longer than a round.
    text = b"ab" * (5 << 19)
    _, counted = train_text([text[i : i + 999_999] for i in range(0, len(text), 999_999)], 260)
    assert counted.words == 1
    assert counted.word_bytes == len(text)


def test_pruning_is_counted_and_independent_of_pieces_and_threads() -> None:
    letters = random.Random(5).randbytes(4_900_000).translate(bytes(b"abcdefgh" * 32))
    rare = b" ".join(letters[i : i + 7] for i in range(0, len(letters), 7))
    text = rare + b" frequent word" * 2000
    options = {"max_words": 300_000}
    trained, counted = train_text([text], 400, options=options)
    assert counted.words <= 300_000
    assert counted.pruned_words > 0
    assert counted.pruned_up_to >= 1
    assert counted.pruned_occurrences >= counted.pruned_words
    pieces = [text[i : i + 777_777] for i in range(0, len(text), 777_777)]
    for threads in (1, 2):
        other, other_counted = train_text(pieces, 400, options=options, threads=threads)
        assert other_counted == counted
        assert other.merges.tolist() == trained.merges.tolist()


def test_frequent_words_survive_the_limits() -> None:
    with NativeTrainer(options={"max_words": 10}) as trainer:
        trainer.add_word(b" the", 1000)
        for i in range(500):
            trainer.add_word(b"w%d" % i, 1)
        counted = trainer.statistics()
        assert counted.words <= 10
        assert counted.pruned_words + counted.words == 501
        assert counted.pruned_up_to == 1
        assert trainer.train(259).token_bytes[-1] == b" the"


def test_ctrl_c_and_errors_in_the_progress_function_come_through() -> None:
    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with NativeTrainer() as trainer:
        trainer.feed(noisy_text(7, 20_000))
        with pytest.raises(KeyboardInterrupt):
            trainer.train(600, fail)


def test_progress_can_stop_the_training() -> None:
    calls: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> bool:
        calls.append((done, total))
        return len(calls) == 2

    with NativeTrainer() as trainer:
        trainer.feed(noisy_text(7, 20_000))
        trained = trainer.train(900, stop)
    assert trained.stopped
    assert calls == [(256 + 64, 900), (256 + 128, 900)]
    assert len(trained.token_bytes) == 256 + 128
    with NativeTrainer() as again:
        again.feed(noisy_text(7, 20_000))
        whole = again.train(256 + 128)
    assert trained.merges.tolist() == whole.merges.tolist()


def test_more_merges_than_possible_names_how_many() -> None:
    with pytest.raises(TokenizerError, match=r"supports only 4 merges.*at most 267 for this text"):
        Tokenizer.train([b"abcd abcd"], vocab_size=1000)
    small = Tokenizer.train([b"abcd"], vocab_size=1000, allow_fewer=True)
    assert small.vocab_size == 256 + 3 + 7


@pytest.mark.parametrize("empty", [[], [b""], ["", b""], iter(())])
def test_no_text_is_an_error(empty: Iterable[str | bytes]) -> None:
    with pytest.raises(TokenizerError, match="no text to train on"):
        Tokenizer.train(empty)


def test_an_empty_file_and_a_missing_file_are_errors(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(TokenizerError, match="no text to train on"):
        Tokenizer.train(tmp_path / "empty.txt")
    for missing in (tmp_path / "absent.txt", str(tmp_path / "absent.txt")):
        with pytest.raises(TokenizerError, match="No such file"):
            Tokenizer.train([missing])
    with pytest.raises(TokenizerError, match=r"cannot be read.*corpus\.txt"):
        Tokenizer.train(["corpus.txt"])
    (tmp_path / "books.jsonl.xz").write_bytes(b"\xfd7zXZ\x00")
    with pytest.raises(TokenizerError, match="no plain text"):
        Tokenizer.train([tmp_path / "books.jsonl.xz"])


def test_files_and_texts_give_the_same(tmp_path: Path) -> None:
    first, second = STORY * 4, noisy_text(9, 5000).decode()
    (tmp_path / "a.txt").write_text(first, encoding="utf-8", newline="")
    (tmp_path / "b.txt").write_text(second, encoding="utf-8", newline="")
    texts = Tokenizer.train(iter([first, second]), vocab_size=400)
    paths = Tokenizer.train([str(tmp_path / "a.txt"), tmp_path / "b.txt"], vocab_size=400)
    assert texts.digest == paths.digest


@pytest.mark.parametrize("size", [0, 262, -1, 1 << 25])
def test_a_size_out_of_range_says_what_is_allowed(size: int) -> None:
    with pytest.raises(TokenizerError, match=r"allowed: 263 \(256 bytes \+ 7 special tokens\)"):
        Tokenizer.train([STORY], vocab_size=size)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(TokenizerError, match="unknown pattern 'gpt5'"):
        Tokenizer.train([STORY], pattern="gpt5")
    with pytest.raises(TokenizerError, match="number of threads is too small"):
        Tokenizer.train([STORY], threads=0)
    with pytest.raises(TokenizerError, match="occurs twice"):
        Tokenizer.train([STORY], special_tokens=["<|a|>", "<|a|>"])
    with pytest.raises(TokenizerError, match="unknown option 'max_word'"):
        NativeTrainer(options={"max_word": 4})
    with pytest.raises(TokenizerError, match="max_words is 1; allowed: 2"):
        NativeTrainer(options={"max_words": 1})


def test_a_trainer_trains_once() -> None:
    with NativeTrainer() as trainer:
        trainer.feed(b"some text")
        trainer.train(257)
        with pytest.raises(TokenizerError, match="training is over"):
            trainer.feed(b"more")
        with pytest.raises(TokenizerError, match="training is over"):
            trainer.train(257)
    with pytest.raises(TokenizerError, match="closed"):
        trainer.feed(b"more")


def test_binary_noise_and_one_long_line_train(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(200_000)
    tokenizer = Tokenizer.train([noise], vocab_size=500)
    assert tokenizer.decode_bytes(tokenizer.encode(noise)) == noise
    line = b"x" * 5_000_000
    tokenizer = Tokenizer.train([line], vocab_size=280)
    assert tokenizer.token_bytes(256 + 16) == b"x" * (1 << 17)
    assert tokenizer.decode_bytes(tokenizer.encode(line)) == line
