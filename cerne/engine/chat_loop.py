"""A conversation in a terminal, or line by line through a pipe.

On a terminal: a prompt, streamed answers, Ctrl-C stops an answer, Ctrl-D ends. From a pipe: one
line in, one answer out. Lines that begin with `/` are commands; `//` begins a message with a slash.
When the context is full the oldest turns are forgotten, and a notice says so. Notices go to
standard error, answers to standard output.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cerne.engine.interface import ContextOverflowError, SamplingParams
from cerne.engine.printable import printable
from cerne.errors import CerneError, InputError, nearest
from cerne.progress import say
from cerne.runs import atomic_write

if TYPE_CHECKING:
    from cerne.engine.session import LanguageModel

HELP = """\
/reset         forget the conversation
/system TEXT   set the system message and forget the conversation; without TEXT: none
/save FILE     write the conversation as one JSON line, as `cerne sft` reads it
/seed N        set the seed of the random numbers
/help          this list
/quit          end (also Ctrl-D); Ctrl-C stops an answer"""
# Share of the context kept free for the answer when max_tokens is not given.
ANSWER_SHARE = 4

Message = dict[str, str]


def chat_loop(
    model: LanguageModel,
    params: SamplingParams | None = None,
    *,
    system: str | None = None,
    source: TextIO | None = None,
    out: TextIO | None = None,
    interactive: bool | None = None,
) -> list[Message]:
    """Talk until the input ends; returns the messages of the last conversation.

    Args:
        model: answers; needs a chat template.
        params: sampling parameters; answer number k uses seed + k.
        system: the system message.
        source, out: where lines come from and answers go; None: standard input and output.
        interactive: show prompts; None: when input and output are a terminal.
    Raises:
        TokenizerError: the model has no usable chat template. InputError: a pipe's bytes are not
            UTF-8.
    """
    lines = sys.stdin if source is None else source
    target = sys.stdout if out is None else out
    chat = Chat(model, params or SamplingParams(), target, system)
    model.encode([{"role": "user", "content": "?"}])
    if (lines.isatty() and target.isatty()) if interactive is None else interactive:
        talk_in_terminal(chat, _line_reader(lines))
    else:
        _read_pipe(chat, lines)
    return chat.messages


def _read_pipe(chat: Chat, lines: TextIO) -> None:
    try:
        for line in lines:
            if not chat.take(line.rstrip("\r\n")):
                return
    except UnicodeDecodeError as error:
        raise InputError(
            "the input is not UTF-8 text",
            value=error.object[error.start : error.start + 4],
            hint="convert it with iconv -t UTF-8",
        ) from None


def talk_in_terminal(chat: Chat, read: Callable[[], str]) -> None:
    say("/help lists the commands; Ctrl-D ends")
    while True:
        try:
            if not chat.take(read()):
                return
        except EOFError:
            chat.out.write("\n")
            return
        except KeyboardInterrupt:
            say("\n(Ctrl-D or /quit ends the chat)")


def _line_reader(lines: TextIO) -> Callable[[], str]:
    if lines is sys.stdin:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives input() a line editor
        return lambda: input("you> ")

    def read() -> str:
        line = lines.readline()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    return read


@dataclass
class Chat:
    """The state of one conversation."""

    model: LanguageModel
    params: SamplingParams
    out: TextIO
    system: str | None = None
    turns: list[Message] = field(default_factory=list)
    answered: int = 0

    @property
    def messages(self) -> list[Message]:
        """The conversation, the system message first."""
        head = [] if self.system is None else [{"role": "system", "content": self.system}]
        return head + self.turns

    def take(self, line: str) -> bool:
        """Handle one line of input; false when the chat shall end. Errors are shown, not raised."""
        try:
            if line.startswith("/") and not line.startswith("//"):
                return self._command(line)
            if line.strip():
                self._answer(line[1:] if line.startswith("//") else line)
        except CerneError as error:
            say(f"error: {error}")
        return True

    def _answer(self, text: str) -> None:
        self.turns.append({"role": "user", "content": text})
        try:
            self._make_room()
            answer = self._stream()
        except (CerneError, KeyboardInterrupt):
            self.turns.pop()
            raise
        if answer:
            self.turns.append({"role": "assistant", "content": answer})
        else:
            self.turns.pop()
            say("(no answer; your message is not kept)")

    def _stream(self) -> str:
        """Print an answer as it grows; returns its text, or what was there when it was stopped."""
        seed = (self.params.seed + self.answered) % 2**64
        pieces = self.model.stream(self.messages, self.params, seed=seed)
        self.answered += 1
        parts: list[str] = []
        notice = ""
        try:
            for piece in pieces:
                parts.append(piece.text)
                self.out.write(printable(piece.text))
                self.out.flush()
                if piece.finish_reason == "length":
                    notice = "(cut: the answer reached its limit of tokens)"
        except KeyboardInterrupt:
            notice = "(stopped)"
        self.out.write("\n")
        self.out.flush()
        if notice:
            say(notice)
        return "".join(parts)

    def _make_room(self) -> None:
        """Forget the oldest turns until the prompt and an answer fit; says how many."""
        context = self.model.context
        wanted = self.params.max_tokens
        reserve = max(1, context // ANSWER_SHARE) if wanted is None else wanted
        forgotten = 0
        while (length := len(self.model.encode(self.messages))) + reserve > context:
            if len(self.turns) == 1:
                if wanted is not None or length >= context:
                    raise ContextOverflowError(length, wanted, context)
                break
            drop = 2 if len(self.turns) > 2 else 1
            del self.turns[:drop]
            forgotten += drop
        if forgotten:
            say(
                f"(context of {context} tokens full: the oldest {forgotten} messages are forgotten)"
            )

    def _command(self, line: str) -> bool:
        name, _, rest = line[1:].partition(" ")
        rest = rest.strip()
        commands: dict[str, Callable[[str], None]] = {
            "reset": self._reset,
            "system": self._set_system,
            "save": self._save,
            "seed": self._set_seed,
            "help": lambda _: say(HELP),
        }
        if name == "quit":
            return False
        if name not in commands:
            close = nearest(name, [*commands, "quit"])
            raise InputError(
                "no such command",
                value=f"/{name}",
                allowed=", ".join(f"/{known}" for known in (*commands, "quit")),
                hint=f"did you mean /{close}?" if close else "// begins a message with a slash",
            )
        commands[name](rest)
        return True

    def _reset(self, _: str) -> None:
        self.turns.clear()
        say("(the conversation is forgotten)")

    def _set_system(self, text: str) -> None:
        self.system = text or None
        self.turns.clear()
        say("(system message set; the conversation is forgotten)")

    def _save(self, name: str) -> None:
        if not name:
            raise InputError("/save needs a file name", hint="/save talk.jsonl")
        path = Path(name).expanduser()
        if path.exists():
            raise InputError("the file exists", value=str(path), hint="another name")
        atomic_write(path, json.dumps({"messages": self.messages}, ensure_ascii=False) + "\n")
        say(f"(saved {len(self.messages)} messages in {path})")

    def _set_seed(self, text: str) -> None:
        if not text.isdecimal():
            raise InputError("/seed needs a number", value=text, allowed="0 to 2**64 - 1")
        self.params = SamplingParams.of(self.params, seed=int(text))
        self.answered = 0
        say(f"(seed {self.params.seed})")
