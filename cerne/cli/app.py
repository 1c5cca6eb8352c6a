"""The `cerne` command: a table of verbs in walking order, each loaded only when it is called.

Every verb's module has a `typer.Typer` named `app`. Exit codes: 0 done, 2 wrong input, 3 the
environment lacks something, 1 a bug, 130 interrupted.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from cerne import __version__
from cerne.errors import EXIT_INTERRUPTED, CerneError, nearest

VERBS = {
    "demo": "the whole path in about five minutes: data, tokenizer, training, tuning, chat",
    "tokenizer": "train, encode, inspect a byte-level BPE tokenizer",
    "data": "prepare text as token shards; inspect them",
    "pretrain": "train a model on text",
    "sft": "fine-tune a model on conversations",
    "quantize": "smaller weights: 4 to 8 bits in one GGUF file",
    "convert": "a model as one GGUF file for llama.cpp and others",
    "generate": "continue a prompt",
    "chat": "talk with a model",
    "evaluate": "bits per byte, world tasks, comparison of two models",
    "bench": "measure speed side by side with the peers that are installed",
    "inspect": "what a model directory or a GGUF file holds",
    "doctor": "what this machine has and lacks",
}


class LazyVerbs(TyperGroup):
    """A command group that knows its verbs by name and imports one at a time."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"cerne.cli.{cmd_name}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in VERBS:
            close = nearest(args[0], VERBS)
            hint = f"did you mean {close}? " if close else ""
            ctx.fail(f"no such verb: {args[0]!r}; {hint}verbs: {', '.join(VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Verbs, in walking order"):
            formatter.write_dl(list(VERBS.items()))


app = typer.Typer(
    cls=LazyVerbs,
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"cerne {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and stop."
    ),
) -> None:
    """A language-model workshop for hardware that you own: text in, a model that answers out.

    Start with `cerne demo`. Each verb explains itself: `cerne VERB --help`.
    """


def print_json(result: Any) -> None:
    """Write one JSON object on the last line of standard output, for programs."""
    sys.stdout.flush()
    print(json.dumps(result, ensure_ascii=False, allow_nan=False), flush=True)


def main() -> None:
    """Run the command line and exit with the documented code."""
    try:
        app(standalone_mode=True)
    except CerneError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


if __name__ == "__main__":
    main()
