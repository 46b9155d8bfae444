"""Recipes: their manifests, their parameters, the command line they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.recipes import Parameter, find_recipe, load_recipe, recipes
from lab.errors import NotFoundError, UsageError


def manifest(folder: Path, document: Any) -> Path:
    folder.mkdir(parents=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "recipe.json").write_text(text)
    return folder


GOOD = {
    "summary": "A test",
    "command": ["python", "train.py"],
    "parameters": {
        "epochs": {"type": "int", "default": 20, "minimum": 1, "maximum": 100},
        "lr": {"type": "float", "default": 0.001, "minimum": 0},
        "gpus": {"type": "float", "default": None},
        "tag": {"default": "x"},
    },
}


def test_defaults_become_the_command_line_and_none_leaves_it_to_the_script(tmp_path: Path) -> None:
    recipe = load_recipe(manifest(tmp_path / "w", GOOD))

    assert recipe.arguments({}) == (
        *("python", "train.py", "--epochs", "20"),
        *("--lr", "0.001", "--tag", "x"),
    )


def test_settings_win_over_defaults(tmp_path: Path) -> None:
    recipe = load_recipe(manifest(tmp_path / "w", GOOD))

    argv = recipe.arguments({"epochs": "3", "lr": "1e-4", "gpus": "0.5", "tag": ""})

    assert argv[2:] == ("--epochs", "3", "--lr", "0.0001", "--gpus", "0.5", "--tag", "")


def test_an_unknown_parameter_lists_the_known_ones(tmp_path: Path) -> None:
    recipe = load_recipe(manifest(tmp_path / "w", GOOD))

    with pytest.raises(UsageError, match=r"-p epoch=") as caught:
        recipe.arguments({"epoch": "3"})
    assert "epochs, lr, gpus, tag" in caught.value.hint


@pytest.mark.parametrize(
    ("parameter", "text", "message"),
    [
        (Parameter("int", 1, name="n", minimum=1), "0", "at least 1$"),
        (Parameter("int", 1, name="n", minimum=1, maximum=9), "10", "at least 1 and at most 9"),
        (Parameter("int", 1, name="n", maximum=9), "99999999999999999999", "at most 9"),
        (Parameter("int", 1, name="n"), "1.5", "a whole number"),
        (Parameter("int", 1, name="n"), "", "a whole number"),
        (Parameter("float", 1, name="n"), "much", "a number"),
        (Parameter("float", 1, name="n", minimum=0), "nan", "at least 0"),
        (Parameter("float", 1, name="n", maximum=1), "inf", "at most 1"),
        (Parameter("float", 1, name="n", maximum=1), "nan", "at most 1"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(parameter: Parameter, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"-p n={text}: must be {message}"):
        parameter.parse(text)


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        (Parameter("int", 1, name="n", minimum=1, maximum=9), "9", 9),
        (Parameter("int", 1, name="n", minimum=-1), "-1", -1),
        (Parameter("float", 1, name="n", minimum=0), "0", 0.0),
        (Parameter("str", None, name="n", minimum=5), "any", "any"),
    ],
)
def test_a_value_at_its_limit_is_taken(parameter: Parameter, text: str, value: object) -> None:
    assert parameter.parse(text) == value


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "not JSON"),
        ([], "malformed"),
        ({"command": ["true"]}, "malformed: summary is missing"),
        ({"summary": "s"}, "malformed: command is missing"),
        ({"summary": "s", "command": "python train.py"}, "command should be a list, not 'python train.py'"),
        ({"summary": "s", "command": []}, "`command` is empty"),
        ({**GOOD, "parameters": {"a": 1}}, "malformed: parameters.a should be an object, not 1"),
        ({**GOOD, "parameters": {"a": {"type": "bool"}}}, r"parameters\.a\.type: 'bool' is not one of int"),
    ],
)
def test_a_malformed_manifest_is_named(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"recipe.json: .*{message}"):
        load_recipe(manifest(tmp_path / "w", document))


def test_a_folder_without_manifest_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="No such file"):
        load_recipe(tmp_path)


def test_an_unknown_recipe_lists_the_known_ones(tmp_path: Path) -> None:
    for name in ("b", "a"):
        manifest(tmp_path / name, GOOD)
    (tmp_path / "notes").mkdir()

    assert [w.name for w in recipes(tmp_path)] == ["a", "b"]
    assert find_recipe("a", tmp_path).name == "a"
    for name in ("c", "notes", "../a", ""):
        with pytest.raises(NotFoundError) as caught:
            find_recipe(name, tmp_path)
        assert "known: a, b;" in caught.value.hint


def test_the_defaults_of_the_recipes_in_the_box_are_within_their_own_limits() -> None:
    shipped = recipes()

    assert "digits" in [w.name for w in shipped]
    for recipe in shipped:
        for parameter in recipe.parameters:
            assert parameter.help, parameter.name
            if parameter.default is not None:
                assert parameter.parse(str(parameter.default)) == parameter.default
        assert (recipe.folder / recipe.command[1]).is_file()


def test_the_ranks_of_a_recipe_and_what_each_asks_for_follow_its_settings() -> None:
    digits = find_recipe("digits")

    assert digits.demand({}) == (1, {"CPU": 1.0})
    assert digits.demand({"workers": "2", "gpus": "0.5"}) == (2, {"CPU": 1.0, "GPU": 0.5})


def test_ranks_and_resources_name_parameters_that_exist(tmp_path: Path) -> None:
    document = {"summary": "s", "command": ["python"], "resources": {"GPU": "gpus"}}

    with pytest.raises(UsageError, match="'gpus'"):
        load_recipe(manifest(tmp_path / "w", document))


@pytest.mark.parametrize("name", ["absent", "x" * 300])
def test_a_workspace_that_is_not_there_is_no_empty_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFoundError, match="there is no folder") as caught:
        recipes(tmp_path / name)
    assert "RAYLAB_WORKSPACE" in caught.value.hint


def test_a_way_to_survive_faults_has_its_own_command_and_changes_some_parameters(tmp_path: Path) -> None:
    way = {
        "command": ["python", "survivors.py"],
        "parameters": {"epochs": {"type": "int", "default": 7}, "tag": None},
    }
    recipe = load_recipe(manifest(tmp_path / "w", {**GOOD, "fault_tolerance": {"torchft": way}}))
    assert recipe.tolerating("") is recipe
    variant = recipe.tolerating("torchft")
    assert variant.arguments({}) == ("python", "survivors.py", "--epochs", "7", "--lr", "0.001")
    with pytest.raises(UsageError, match="no such parameter"):
        variant.arguments({"tag": "y"})
    with pytest.raises(UsageError, match="--fault-tolerance magic"):
        recipe.tolerating("magic")


def test_digits_survives_with_two_to_eight_workers() -> None:
    variant = find_recipe("digits").tolerating("torchft")
    argv = variant.arguments({})
    assert argv[:4] == ("python", "steps.py", "--way", "torchft")
    assert argv[argv.index("--workers") + 1] == "2"
    for workers in ("1", "9"):
        with pytest.raises(UsageError, match=r"least 2 .* most 8"):
            variant.arguments({"workers": workers})
