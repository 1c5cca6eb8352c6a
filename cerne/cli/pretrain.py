"""`cerne pretrain`: train a model on text by a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from cerne.cli.app import print_json
from cerne.cli.training import train_and_report

if TYPE_CHECKING:
    from cerne.train.hooks import Hooks
    from cerne.train.recipe import PretrainRecipe

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def pretrain(
    recipe: str = typer.Argument(..., help="A TOML recipe, for example recipes/text.toml."),
    overrides: list[str] = typer.Argument(
        None, metavar="[KEY=VALUE]...", help="Recipe keys, for example train.steps=500."
    ),
    resume: bool = typer.Option(False, "--resume", help="Continue the run in run.dir, exactly."),
    fallback: bool = typer.Option(
        False, "--fallback", help="With --resume: take the newest checkpoint that is intact."
    ),
    init_from: str = typer.Option(
        None, "--init-from", metavar="MODEL", help="Start a new run from a model's weights."
    ),
    device: str = typer.Option(None, "--device", help="The same as run.device=NAME."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show the recipe and sizes, and stop."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on the last line."),
) -> None:
    """Train a model on text: tokenizer, token shards, model, checkpoints in run.dir.

    Ctrl-C saves a checkpoint and exits with 130; --resume continues with the same bits. Start with
    torchrun --nproc-per-node N -m cerne pretrain ... to train on several processes.

    Example: cerne pretrain recipes/text.toml data.path=book.txt train.time_limit_s=300
    """
    from cerne.config import dump_toml, load_recipe
    from cerne.device import reexec_with_allocator
    from cerne.train.recipe import PretrainRecipe

    overrides = [*(overrides or []), *([f"run.device={device}"] if device is not None else [])]
    resolved = load_recipe(PretrainRecipe, recipe, overrides)
    if dry_run:
        print(dump_toml(resolved))
        facts = _sizes(resolved)
        print("".join(f"# {key}: {value}\n" for key, value in facts.items()), end="")
        if as_json:
            print_json({"recipe": resolved.model_dump(mode="json"), **facts})
        return
    reexec_with_allocator()
    from cerne.engine.locate import find_model_directory
    from cerne.train.pretrain import run_pretrain

    train_and_report(
        ["cerne", "pretrain", recipe, *overrides],
        resolved,
        lambda: run_pretrain(
            resolved,
            resume=resume,
            fallback=fallback,
            init_from=find_model_directory(init_from) if init_from is not None else None,
            hooks=_sample_hooks(resolved),
        ),
        counted="tokens",
        as_json=as_json,
    )


def _sizes(recipe: PretrainRecipe) -> dict[str, Any]:
    """What the recipe amounts to, before anything is read."""
    train = recipe.train
    config = recipe.model.resolve(train.seq_len, vocab_size=recipe.tokenizer.vocab_size)
    tokens = train.tokens_per_step * train.steps
    return {
        "parameters": config.num_parameters(),
        "tokens_per_step": train.tokens_per_step,
        "training_tokens": tokens,
        "training_flops": config.flops_per_token(train.seq_len) * tokens,
        "optimizer_and_weight_bytes": 16 * config.num_parameters(),
    }


def _sample_hooks(recipe: PretrainRecipe) -> Hooks:
    """Hooks that continue train.sample_prompts with the engine."""
    from cerne.engine.session import LanguageModel
    from cerne.model.transformer import Transformer
    from cerne.progress import say
    from cerne.train.hooks import Hooks

    class SampleHooks(Hooks):
        def sample(self, model: Transformer, tokenizer: Any, step: int) -> list[dict[str, str]]:
            language_model = LanguageModel(model, tokenizer)
            done = language_model.batch(
                recipe.train.sample_prompts,
                max_tokens=recipe.train.sample_tokens,
                temperature=0.8,
                seed=recipe.run.seed,
            )
            pairs = zip(recipe.train.sample_prompts, done, strict=True)
            samples = [{"prompt": prompt, "text": found.text} for prompt, found in pairs]
            for sample in samples:
                say(f"step {step}: {sample['prompt']}{sample['text']!r}")
            return samples

    return SampleHooks()
