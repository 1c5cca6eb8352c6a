"""`cerne chat`: talk with a model in the terminal, or line by line through a pipe."""

from __future__ import annotations

from typing import Annotated

import typer

from cerne.cli import sampling_options as options
from cerne.cli.app import print_json

app = typer.Typer(rich_markup_mode=None, add_completion=False)
DEFAULT_TEMPERATURE = 0.7


@app.command()
def chat(
    model: Annotated[str, typer.Argument(help="A model directory or a run directory.")],
    system: Annotated[str | None, typer.Option("--system", help="The system message.")] = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = DEFAULT_TEMPERATURE,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    repetition_penalty: options.RepetitionPenalty = None,
    presence_penalty: options.PresencePenalty = None,
    frequency_penalty: options.FrequencyPenalty = None,
    stop: options.Stop = None,
    seed: options.Seed = None,
    json_schema: options.JsonSchema = None,
    regex: options.Regex = None,
    grammar: options.Grammar = None,
    device: options.Device = "cpu",
    threads: options.Threads = None,
    precision: options.Precision = "fp32",
    context: options.Context = None,
    as_json: options.AsJson = False,
) -> None:
    """Talk with a model. /help lists the commands; Ctrl-C stops an answer, Ctrl-D ends.

    From a pipe, each line is a message and gets one answer:
    echo "Who are you?" | cerne chat runs/demo
    """
    from cerne.engine.chat_loop import chat_loop
    from cerne.engine.interface import SamplingParams
    from cerne.engine.session import load

    chosen = options.given(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        stop=stop,
        seed=seed,
        json_schema=json_schema,
        regex=regex,
        grammar=grammar,
    )
    params = SamplingParams.of(**chosen)
    loaded = load(model, device=device, threads=threads, precision=precision, context=context)
    messages = chat_loop(loaded, params, system=system)
    if as_json:
        print_json({"messages": messages})
