"""`cerne generate`: continue a prompt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cerne.cli import sampling_options as options
from cerne.cli.app import print_json
from cerne.errors import InputError

if TYPE_CHECKING:
    from cerne.engine.interface import Choice, Completion, SamplingParams
    from cerne.engine.session import LanguageModel, Prompt

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def generate(
    model: Annotated[str, typer.Argument(help="A model directory or a run directory.")],
    prompt: Annotated[
        str | None, typer.Argument(help="The text to continue; - or nothing: standard input.")
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="The prompt is a user's message: use the chat template.")
    ] = False,
    system: Annotated[
        str | None, typer.Option("--system", help="With --chat: the system message.")
    ] = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    repetition_penalty: options.RepetitionPenalty = None,
    presence_penalty: options.PresencePenalty = None,
    frequency_penalty: options.FrequencyPenalty = None,
    logit_bias: options.LogitBias = None,
    stop: options.Stop = None,
    seed: options.Seed = None,
    n: Annotated[int | None, typer.Option("--n", help="Independent answers.")] = None,
    beams: Annotated[
        int | None, typer.Option("--beams", help="Beam search of this width: no randomness.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", help="Beam search: above 0 favours length.")
    ] = None,
    json_schema: options.JsonSchema = None,
    regex: options.Regex = None,
    grammar: options.Grammar = None,
    logprobs: Annotated[
        int | None,
        typer.Option("--logprobs", help="Show each token's log-probability and k alternatives."),
    ] = None,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Go on past the model's stop tokens.")
    ] = False,
    stream: Annotated[
        bool | None,
        typer.Option("--stream/--no-stream", help="Print the text as it grows (where possible)."),
    ] = None,
    device: options.Device = "cpu",
    threads: options.Threads = None,
    precision: options.Precision = "fp32",
    context: options.Context = None,
    as_json: options.AsJson = False,
) -> None:
    """Continue a prompt: the continuation goes to standard output.

    Example: cerne generate runs/demo "Anna went to" --max-tokens 40 --temperature 0
    """
    from cerne.engine.interface import SamplingParams
    from cerne.engine.session import load

    if system is not None and not chat:
        raise InputError("--system needs --chat", value=system)
    chosen = options.given(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        logit_bias=logit_bias,
        stop=stop,
        seed=seed,
        json_schema=json_schema,
        regex=regex,
        grammar=grammar,
        n=n,
        beams=beams,
        length_penalty=length_penalty,
        logprobs=logprobs,
        ignore_eos=ignore_eos,
    )
    params = SamplingParams.of(**chosen)
    single = params.n == 1 and params.beams == 1
    if stream and not single:
        raise InputError("--stream needs one answer", allowed="no --n and no --beams")
    text = _read_prompt(prompt)
    loaded = load(model, device=device, threads=threads, precision=precision, context=context)
    asked = _prompt(text, chat, system)
    if single and (stream or stream is None):
        done = _stream(loaded, asked, params)
    else:
        done = loaded.generate(asked, params)
        _print_choices(done)
    if params.logprobs is not None:
        _print_logprobs(loaded, done)
    if as_json:
        print_json(as_dict(done))


def _read_prompt(prompt: str | None) -> str:
    if prompt is not None and prompt != "-":
        return prompt
    if sys.stdin.isatty():
        raise InputError("there is no prompt", hint='cerne generate MODEL "Once upon a time"')
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 at byte {error.start}") from None


def _prompt(text: str, chat: bool, system: str | None) -> Prompt:
    if not chat:
        return text
    head = [] if system is None else [{"role": "system", "content": system}]
    return [*head, {"role": "user", "content": text}]


def _show(text: str) -> None:
    """A terminal gets escape codes neutralised; a file or a pipe gets the text as it is."""
    from cerne.engine.printable import printable

    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def _stream(model: LanguageModel, prompt: Prompt, params: SamplingParams) -> Completion:
    from cerne.engine.interface import Completion, Usage

    choice: Choice | None = None
    for piece in model.stream(prompt, params):
        _show(piece.text)
        choice = piece.choice
    sys.stdout.write("\n")
    assert choice is not None
    usage = Usage(len(model.encode(prompt)), len(choice.tokens))
    return Completion((choice,), usage)


def _print_choices(done: Completion) -> None:
    for choice in done.choices:
        if len(done.choices) > 1:
            score = "" if choice.score is None else f", score {choice.score:.4f}"
            print(f"--- {choice.index + 1} of {len(done.choices)}{score}")
        _show(choice.text)
        sys.stdout.write("\n")


def _print_logprobs(model: LanguageModel, done: Completion) -> None:
    def name(token: int) -> str:
        return repr(model.tokenizer.decode([token]))

    for choice in done.choices:
        print(f"--- log-probabilities of answer {choice.index + 1}")
        for entry in choice.logprobs or ():
            others = "  ".join(f"{name(token)} {value:.3f}" for token, value in entry.top)
            print(f"{name(entry.token):<20} {entry.logprob:8.3f}   {others}")


def as_dict(done: Completion) -> dict[str, Any]:
    """A completion as JSON-ready data: the first answer's fields, then all choices."""
    choices = [
        {
            "index": choice.index,
            "text": choice.text,
            "tokens": list(choice.tokens),
            "finish_reason": choice.finish_reason,
            "score": choice.score,
            "logprobs": None
            if choice.logprobs is None
            else [
                {"token": e.token, "logprob": e.logprob, "top": [list(pair) for pair in e.top]}
                for e in choice.logprobs
            ],
            "receipt": choice.receipt,
        }
        for choice in done.choices
    ]
    usage = {
        "prompt_tokens": done.usage.prompt_tokens,
        "completion_tokens": done.usage.completion_tokens,
        "total_tokens": done.usage.total_tokens,
    }
    return {
        "text": done.text,
        "finish_reason": done.finish_reason,
        "usage": usage,
        "choices": choices,
    }
