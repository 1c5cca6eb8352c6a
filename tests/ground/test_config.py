"""Recipes: overrides, unknown keys, ranges, round trip."""

from __future__ import annotations

from pathlib import Path

import pydantic
import pytest

from cerne.config import Config, changed_keys, dump_toml, load_recipe
from cerne.errors import ConfigError


class Train(Config):
    steps: int = pydantic.Field(default=10, ge=1, le=1000)
    lr: float = 0.1
    note: str | None = None


class Recipe(Config):
    train: Train = Train()
    name: str = "x"


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_file_then_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, "name = 'a'\n[train]\nsteps = 5\n")
    recipe = load_recipe(Recipe, path, ["train.lr=2e-3", "train.note=true story"])
    assert (recipe.name, recipe.train.steps, recipe.train.lr) == ("a", 5, 2e-3)
    assert recipe.train.note == "true story"


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean steps") as caught:
        load_recipe(Recipe, None, ["train.stepz=3"])
    assert "train.stepz" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("value", ["0", "1001", "abc", "[1]"])
def test_value_out_of_range_names_key_and_value(value: str) -> None:
    with pytest.raises(ConfigError, match=r"train\.steps"):
        load_recipe(Recipe, None, [f"train.steps={value}"])


@pytest.mark.parametrize("bad", ["train", "=3", "train..steps=3", "name.x=1"])
def test_malformed_override(bad: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load_recipe(Recipe, write(tmp_path, "name = 'a'\n"), [bad])


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_recipe(Recipe, tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_recipe(Recipe, write(tmp_path, "a = = 3"))


def test_round_trip_and_changes(tmp_path: Path) -> None:
    recipe = load_recipe(Recipe, None, ["train.steps=7", 'name="quote \\" and = sign"'])
    again = load_recipe(Recipe, write(tmp_path, dump_toml(recipe)))
    assert again == recipe
    assert changed_keys(Recipe(), recipe)["train.steps"] == (10, 7)


def test_configs_are_frozen() -> None:
    with pytest.raises(pydantic.ValidationError):
        Train().steps = 3  # type: ignore[misc]
