"""The chat loop: pipe, commands, Ctrl-C, forgetting, escape codes, saved files."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from cerne.engine.chat_loop import Chat, chat_loop, talk_in_terminal
from cerne.engine.interface import Choice, Piece, SamplingParams
from cerne.engine.printable import printable
from cerne.errors import InputError


class Parrot:
    """Answers with what it was asked; one token a character."""

    def __init__(self, context=10_000, answer=None, interrupt_at=None):
        self.context, self.answer, self.interrupt_at = context, answer, interrupt_at
        self.asked = []
        self.seeds = []

    def encode(self, messages):
        return [0] * sum(len(m["content"]) + 1 for m in messages)

    def stream(self, messages, params, seed):
        self.asked.append([dict(m) for m in messages])
        self.seeds.append(seed)
        text = messages[-1]["content"] if self.answer is None else self.answer
        for i, character in enumerate(text):
            if i == self.interrupt_at:
                raise KeyboardInterrupt
            done = None
            if i == len(text) - 1:
                done = Choice(0, text, (0,), "stop")
            yield Piece(character, (0,), finish_reason=done and "stop", choice=done)


def talk(text, model=None, **options):
    out = io.StringIO()
    model = model or Parrot()
    messages = chat_loop(model, source=io.StringIO(text), out=out, interactive=False, **options)
    return out.getvalue(), messages, model


def test_one_line_in_one_answer_out():
    out, messages, _ = talk("hello\n\nhow are you\n")
    assert out == "hello\nhow are you\n"
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2


def test_bytes_that_are_no_utf8_are_one_error():
    source = io.TextIOWrapper(io.BytesIO(b"hello\n\xff\xfe\n"), encoding="utf-8")
    with pytest.raises(InputError, match="not UTF-8"):
        chat_loop(Parrot(), source=source, out=io.StringIO(), interactive=False)


def test_history_and_system_message_are_sent(capsys):
    _, _, model = talk("one\ntwo\n/system be kind\nthree\n/reset\nfour\n", system="be brief")
    assert [[m["content"] for m in asked] for asked in model.asked] == [
        ["be brief", "one"],
        ["be brief", "one", "one", "two"],
        ["be kind", "three"],
        ["be kind", "four"],
    ]


def test_seeds_differ_by_answer_and_can_be_set():
    _, _, model = talk("a\nb\n/seed 100\nc\nd\n", params=SamplingParams(seed=7))
    assert model.seeds == [7, 8, 100, 101]


def test_quit_ends_and_a_double_slash_is_text():
    out, _, _ = talk("//etc\n/quit\nnever\n")
    assert out == "/etc\n"


def test_a_wrong_command_is_explained_and_the_chat_goes_on(capsys):
    out, _, _ = talk("/sed 3\n/seed x\n/save\nstill here\n")
    assert out == "still here\n"
    notices = capsys.readouterr().err
    assert "did you mean /seed" in notices
    assert "needs a number" in notices
    assert "needs a file name" in notices


def test_saved_conversations_are_training_data(tmp_path, capsys):
    path = tmp_path / "talk.jsonl"
    talk(f"ol\u00e1\n/save {path}\n/save {path}\n")
    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {
        "messages": [
            {"role": "user", "content": "ol\u00e1"},
            {"role": "assistant", "content": "ol\u00e1"},
        ]
    }
    assert "the file exists" in capsys.readouterr().err


def test_escape_codes_in_answers_are_shown_not_obeyed():
    out, messages, _ = talk("x\n", Parrot(answer="a\x1b[31mred\x07\u202e\x9bZ\tok"))
    assert out == "a\\x1b[31mred\\x07\\u202e\\x9bZ\tok\n"
    assert messages[-1]["content"].startswith("a\x1b[31m")
    assert printable("line\nline\ttab \u00e9\U0001f40b") == "line\nline\ttab \u00e9\U0001f40b"


def test_ctrl_c_stops_the_answer_and_keeps_what_was_said(capsys):
    out, messages, _ = talk("hello\n", Parrot(interrupt_at=3))
    assert out == "hel\n"
    assert messages == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hel"},
    ]
    assert "(stopped)" in capsys.readouterr().err


def test_ctrl_c_while_the_prompt_is_encoded_keeps_the_chat(capsys):
    class Slow(Parrot):
        def encode(self, messages):
            if messages[-1]["content"] == "long":
                raise KeyboardInterrupt
            return super().encode(messages)

    lines = iter(["hello", "long", "again"])

    def read():
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    out = io.StringIO()
    chat = Chat(Slow(), SamplingParams(), out)
    talk_in_terminal(chat, read)
    assert out.getvalue() == "hello\nagain\n\n"
    assert [m["content"] for m in chat.messages] == ["hello"] * 2 + ["again"] * 2
    assert "/quit ends the chat" in capsys.readouterr().err


def test_ctrl_c_before_the_first_word_forgets_the_question(capsys):
    _, messages, _ = talk("hello\n", Parrot(interrupt_at=0))
    assert messages == []
    assert "not kept" in capsys.readouterr().err


def test_case89_the_oldest_turns_go_only_with_a_notice(capsys):
    model = Parrot(context=40)
    out, _, _ = talk("aaaa\nbbbb\ncccc\ndddd\n", model, params=SamplingParams(max_tokens=10))
    assert out == "aaaa\nbbbb\ncccc\ndddd\n"
    assert [m["content"] for m in model.asked[-1]] == ["bbbb"] * 2 + ["cccc"] * 2 + ["dddd"]
    assert "the oldest 2 messages are forgotten" in capsys.readouterr().err


def test_case89_a_message_that_cannot_fit_is_an_error_and_the_chat_goes_on(capsys):
    out, messages, _ = talk("x" * 50 + "\nok\n", Parrot(context=40))
    assert out == "ok\n"
    assert len(messages) == 2
    assert "at most 40" in capsys.readouterr().err


def test_a_full_disk_or_a_missing_folder_does_not_end_the_chat(tmp_path, capsys):
    (tmp_path / "file").write_text("", encoding="utf-8")
    out, _, _ = talk(f"a\n/save {tmp_path}/file/x\nb\n")
    assert out == "a\nb\n"
    assert "error:" in capsys.readouterr().err


def test_a_real_model_answers_reproducibly(lm):
    params = SamplingParams(max_tokens=8, seed=4)
    first, messages, _ = talk("Hi\nWhere?\n", lm, params=params)
    again, _, _ = talk("Hi\nWhere?\n", lm, params=params)
    assert first == again
    expected = lm.generate([{"role": "user", "content": "Hi"}], params).text
    assert messages[1]["content"] == expected


def test_an_answer_cut_by_the_limit_says_so(lm, capsys):
    talk("Hi\n", lm, params=SamplingParams(max_tokens=3, ignore_eos=True))
    assert "reached its limit" in capsys.readouterr().err


@pytest.fixture
def terminal(model_dir):
    """`cerne chat` in a pseudo-terminal; slow answers, so that they can be interrupted."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "cerne", "chat", str(model_dir), "--threads", "1"),
            *("--max-tokens", "200", "--temperature", "1"),
        ],
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
        env={**os.environ, "TERM": "dumb"},
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )
    os.close(child)
    state = SimpleNamespace(process=process, seen="")

    def expect(text, press=None):
        """Read until `text` comes, which is then behind us; `press` again each quiet second."""
        end = time.monotonic() + 90
        if press is not None:
            state.send(press)
        while text not in state.seen:
            assert time.monotonic() < end, state.seen
            if select.select([parent], [], [], 1)[0]:
                state.seen += os.read(parent, 4096).decode("utf-8", "replace")
            elif press is not None:
                state.send(press)
        state.seen = state.seen.partition(text)[2]

    state.expect = expect
    state.send = lambda text: os.write(parent, text.encode())
    yield state
    process.kill()
    process.wait()
    os.close(parent)


def test_terminal_ctrl_c_keeps_the_chat_and_ctrl_d_ends_it(terminal):
    terminal.expect("you> ")
    # input() sleeps through a Ctrl-C that comes after its prompt and before its wait for a key.
    terminal.expect("Ctrl-D or /quit ends the chat", press="\x03")
    terminal.expect("you> ")
    terminal.send("hello\n")
    terminal.expect("hello")
    terminal.expect("you> ")
    terminal.send("\x04")
    assert terminal.process.wait(60) == 0


def test_chat_state_is_a_plain_object():
    chat = Chat(Parrot(), SamplingParams(), io.StringIO(), system="s")
    assert chat.messages == [{"role": "system", "content": "s"}]
    assert chat.take("hi") is True
    assert chat.take("/quit") is False
