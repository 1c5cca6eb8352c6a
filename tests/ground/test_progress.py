"""Progress lines: rate, time left, no division by zero."""

from __future__ import annotations

import pytest

from cerne import progress
from cerne.progress import Progress, human_count, human_time


def test_plain_line_has_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s[0])
    bar = Progress("train", total=1000, unit="tok", done=500)
    now_s[0] += 10
    bar.advance(100)
    bar.note("loss 2.5")
    # Only this run's work counts for the rate: 100 tokens in 10 s, 400 tokens left.
    assert bar.line() == "train  600/1k  60%  10 tok/s  10s  40s left  loss 2.5"


def test_without_total_and_without_time() -> None:
    line = Progress("read").line()
    assert line.startswith("read  0  0 it/s")
    assert "left" not in line


def test_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("x", total=3) as bar:
        bar.advance(3)
    out, err = capsys.readouterr()
    assert out == "" and "3/3 100%" in err


def test_human_forms() -> None:
    assert [human_time(s) for s in (0, 59.6, 61, 7500)] == ["0s", "1m00s", "1m01s", "2h05m"]
    assert [human_count(n) for n in (7, 1234, 2.5e6, 3e9)] == ["7", "1.23k", "2.5M", "3G"]
