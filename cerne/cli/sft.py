"""`cerne sft`: fine-tune a model on conversations by a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from cerne.cli.app import print_json
from cerne.cli.training import train_and_report

if TYPE_CHECKING:
    from cerne.train.hooks import Hooks
    from cerne.tune.recipe import SftRecipe

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def sft(
    recipe: str = typer.Argument(..., help="A TOML recipe, for example recipes/sft.toml."),
    overrides: list[str] = typer.Argument(
        None, metavar="[KEY=VALUE]...", help="Recipe keys, for example model.path=runs/text."
    ),
    resume: bool = typer.Option(False, "--resume", help="Continue the run in run.dir, exactly."),
    fallback: bool = typer.Option(
        False, "--fallback", help="With --resume: take the newest checkpoint that is intact."
    ),
    device: str = typer.Option(None, "--device", help="The same as run.device=NAME."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Read and encode the conversations, show what would be trained."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Teach a model to answer: loss on the assistant's words and its end of turn only.

    Ctrl-C saves a checkpoint and exits with 130; --resume continues with the same bits.

    Example: cerne sft recipes/sft.toml model.path=runs/text data.path=chat.jsonl
    """
    from cerne.config import dump_toml, load_recipe
    from cerne.device import reexec_with_allocator
    from cerne.tune.recipe import SftRecipe

    overrides = [*(overrides or []), *([f"run.device={device}"] if device is not None else [])]
    resolved = load_recipe(SftRecipe, recipe, overrides)
    if dry_run:
        print(dump_toml(resolved))
        facts = _preview(resolved)
        if as_json:
            print_json({"recipe": resolved.model_dump(mode="json"), **facts})
        return
    reexec_with_allocator()
    from cerne.tune.sft import run_sft

    train_and_report(
        ["cerne", "sft", recipe, *overrides],
        resolved,
        lambda: run_sft(resolved, resume=resume, fallback=fallback, hooks=_sample_hooks(resolved)),
        counted="trained tokens",
        as_json=as_json,
    )


def _preview(recipe: SftRecipe) -> dict[str, Any]:
    """Counts of the data, and the first conversation with its trained parts in brackets."""
    from cerne.engine.locate import find_model_directory
    from cerne.tokenizer.bpe import Tokenizer
    from cerne.tune.sft import load_data

    tokenizer = Tokenizer.load(find_model_directory(recipe.model.path))
    data = load_data(recipe.data, tokenizer, recipe.train.seq_len)
    first = data.train[0]
    parts, before = [], False
    for token, trained in zip(first.ids_T.tolist(), first.mask_T.tolist(), strict=True):
        if trained != before:
            parts.append("[[" if trained else "]]")
        parts.append(tokenizer.decode([token]))
        before = trained
    shown = "".join(parts) + ("]]" if before else "")
    print(f"first conversation, trained parts in [[ ]]:\n{shown}")
    return {"data": data.report, "first": shown}


def _sample_hooks(recipe: SftRecipe) -> Hooks:
    """Hooks that ask train.sample_prompts as a user would."""
    from cerne.engine.session import LanguageModel
    from cerne.model.transformer import Transformer
    from cerne.progress import say
    from cerne.train.hooks import Hooks

    class SampleHooks(Hooks):
        def sample(self, model: Transformer, tokenizer: Any, step: int) -> list[dict[str, str]]:
            prompts = recipe.train.sample_prompts
            done = LanguageModel(model, tokenizer).batch(
                [[{"role": "user", "content": prompt}] for prompt in prompts],
                max_tokens=recipe.train.sample_tokens,
                temperature=0.0,
            )
            samples = []
            for prompt, found in zip(prompts, done, strict=True):
                samples.append({"prompt": prompt, "text": found.text})
                say(f"step {step}: {prompt} -> {found.text!r}")
            return samples

    return SampleHooks()
