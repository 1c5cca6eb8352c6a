"""Stop strings: at every split, earliest end wins, nothing leaks, a partial end is flushed."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerne.engine.stops import StopMatcher
from cerne.errors import ConfigError


def run(stops, parts):
    """Returns (text, stopped, list of emitted parts)."""
    matcher = StopMatcher(stops)
    out = []
    for part in parts:
        out.append(matcher.push(part))
        if matcher.stopped:
            break
    out.append(matcher.flush())
    return "".join(out), matcher.stopped, out


def plain(stops, text):
    """The rule in one scan: the match that ends first, of equal ends the longest."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - len(max(ending, key=len))], True
    return text, False


def splits(text):
    """Every way to cut a text into consecutive non-empty parts."""
    for count in range(len(text)):
        for cuts in combinations(range(1, len(text)), count):
            edges = (0, *cuts, len(text))
            yield [text[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize(
    ("stops", "text", "expected"),
    [
        (["\n\n"], "ab\n\ncd", "ab"),
        (["END"], "EEENDx", "EE"),
        (["aab"], "aaaab", "aa"),
        (["</s>", "<"], "ab</s>", "ab"),
        (["abcd", "bc"], "xabcd", "xa"),
        (["bcd", "abcd"], "xabcd", "x"),
        (["stop"], "no st", "no st"),
        (["日本"], "x日本語", "x"),
        (["a", "b", "c", "d", "e"], "xyze", "xyz"),
    ],
)
def test_case84_every_token_split_gives_one_result(stops, text, expected):
    assert plain(stops, text)[0] == expected
    for parts in splits(text):
        got, stopped, out = run(stops, parts)
        assert got == expected
        assert stopped == (expected != text)
        assert not any(stop in "".join(out) for stop in stops)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=5),
    st.lists(st.text("abc", max_size=5), max_size=8),
)
def test_case84_equals_one_scan_over_the_whole_text(stops, parts):
    got, stopped, _ = run(stops, parts)
    assert (got, stopped) == plain(stops, "".join(parts))


def test_text_is_emitted_as_soon_as_it_cannot_become_a_stop():
    matcher = StopMatcher(["abc"])
    assert matcher.push("xa") == "x"
    assert matcher.push("b") == ""
    assert matcher.push("d") == "abd"
    assert matcher.push("ab") == ""
    assert matcher.flush() == "ab"


def test_nothing_comes_after_a_stop():
    matcher = StopMatcher(["."])
    assert matcher.push("a.b") == "a"
    assert matcher.push("more") == ""
    assert matcher.flush() == ""


def test_no_stops_pass_everything():
    assert run([], ["a", "", "b"])[:2] == ("ab", False)


def test_case85_an_empty_stop_string_is_an_error():
    with pytest.raises(ConfigError, match="empty"):
        StopMatcher(["ok", ""])


def test_a_long_repetitive_stop_is_linear():
    stop = "a" * 20000 + "b"
    matcher = StopMatcher([stop])
    emitted = sum(len(matcher.push("a" * 1000)) for _ in range(60))
    assert emitted == 60000 - 20000
    assert matcher.push("b") == "" and matcher.stopped
