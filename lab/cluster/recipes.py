"""Recipes: the training scripts in workspace/, each with a `recipe.json` that names its parameters.

    {"summary": "...", "command": ["python", "train.py"],
     "ranks": "workers", "resources": {"CPU": "cpus", "GPU": "gpus"},
     "parameters": {"epochs": {"type": "int", "default": 20, "minimum": 1, "maximum": 10000, "help": "..."}}}

A parameter `epochs` is passed to the script as `--epochs VALUE`. `ranks` and `resources` name the parameters
that say how many workers the training has and what each asks of a node: labctl says when none can hold it.

`fault_tolerance` has further ways of the same training: {"torchft": {"command": [...], "packages": "torchft",
"parameters": {...}}}. Parameters there replace those of the same name; null takes one away.
`packages` names a group of requirements/ that the script needs beyond those of every lab.

A folder may have more recipes than one: `llm/recipe-batch.json` is the recipe `llm-batch`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.api.light import restore
from lab.api.recipe import ParameterManifest, RecipeManifest
from lab.cluster.submission import Submission
from lab.errors import NotFoundError, UsageError
from lab.host.environment import BUILDS_ON
from lab.host.reading import SMALL, read_json
from lab.host.workspace import workspace as own_workspace

WORKSPACE_VARIABLE = "RAYLAB_WORKSPACE"
"""Names the folder of the recipes. In JupyterLab's container it is mounted elsewhere than beside the code."""

MANIFEST = "recipe.json"
TYPES: Mapping[str, type] = {"int": int, "float": float, "str": str}


@dataclass(frozen=True)
class Parameter(ParameterManifest):
    """One thing a person may set with `-p name=value`."""

    name: str = ""

    def parse(self, text: str) -> int | float | str:
        """`text` as a value of this parameter. Raises UsageError with the parameter and what is allowed."""
        try:
            value: int | float | str = TYPES[self.type](text)
        except ValueError as error:
            wanted = "a whole number" if self.type == "int" else "a number"
            raise UsageError(f"-p {self.name}={text}: must be {wanted}") from error
        if isinstance(value, (int, float)):
            low = self.minimum is not None and not value >= self.minimum
            high = self.maximum is not None and not value <= self.maximum
            if low or high:
                bounds = " and ".join(
                    f"at {word} {bound:g}"
                    for word, bound in (("least", self.minimum), ("most", self.maximum))
                    if bound is not None
                )
                raise UsageError(f"-p {self.name}={text}: must be {bounds}")
        return value


@dataclass(frozen=True)
class Recipe:
    """A training script with its defaults."""

    name: str
    summary: str
    folder: Path
    command: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    ranks: str = ""
    """The parameter that says how many ranks it trains with."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Resource -> the parameter that says how much of it each rank asks for."""
    packages: str = ""
    """The group of requirements/ that it needs beyond those of every lab."""
    ways: Mapping[str, Recipe] = field(default_factory=dict)
    """What `--fault-tolerance` may name -> the recipe that it stands for."""

    def tolerating(self, way: str) -> Recipe:
        """The recipe that survives faults in this way; itself for an empty one. Raises UsageError."""
        if way and way not in self.ways:
            known = f"it has: {', '.join(self.ways)}" if self.ways else "leave --fault-tolerance out"
            raise UsageError(f"--fault-tolerance {way}: the recipe {self.name} has no such way", known)
        return self.ways[way] if way else self

    def demand(self, settings: Mapping[str, str]) -> tuple[int, Mapping[str, float]]:
        """With these settings: how many ranks there are, and what each asks for, as far as it is known."""
        known = {p.name: p.default for p in self.parameters}
        values = {**known, **{name: text for name, text in settings.items() if name in known}}
        asked = {resource: values.get(name) for resource, name in self.resources.items()}
        return int(values.get(self.ranks) or 1), {k: float(v) for k, v in asked.items() if v is not None}

    def arguments(self, settings: Mapping[str, str]) -> tuple[str, ...]:
        """The command line with these `-p` settings over the defaults. Raises UsageError."""
        known = {p.name: p for p in self.parameters}
        for name in settings:
            if name not in known:
                raise UsageError(
                    f"-p {name}=...: {self.name} has no such parameter", f"it has: {', '.join(known)}"
                )
        argv = list(self.command)
        for parameter in self.parameters:
            text = settings.get(parameter.name)
            value = parameter.default if text is None else parameter.parse(text)
            if value is not None:
                argv += [f"--{parameter.name}", str(value)]
        return tuple(argv)

    def submission(
        self,
        settings: Mapping[str, str],
        num_cpus: float = 0,
        num_gpus: float = 0,
        job_name: str = "",
        submission_id: str = "",
    ) -> Submission:
        """The submission with these `-p` settings; Ray makes an id where none is given. Raises UsageError."""
        named = {"job_name": job_name} if job_name else {}
        return Submission(
            command=self.arguments(settings),
            working_dir=self.folder,
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            metadata={"raylab_recipe": self.name, **named},
            submission_id=submission_id,
        )


def folder_of_recipes() -> Path:
    """The folder of the recipes: what the variable names, else the workspace. Raises what that raises."""
    chosen = os.environ.get(WORKSPACE_VARIABLE)
    return Path(chosen) if chosen else own_workspace()


def manifests(workspace: Path | None = None) -> dict[str, Path]:
    """Recipe -> its manifest: `FOLDER/recipe.json`, and `FOLDER/recipe-MORE.json` as `FOLDER-MORE`."""
    paths = {}
    for path in sorted((workspace or folder_of_recipes()).glob("*/recipe*.json")):
        if re.fullmatch(r"recipe(-[a-z0-9]+)?", path.stem):
            paths[path.parent.name + path.stem.removeprefix("recipe")] = path
    return paths


def load_recipe(folder: Path, manifest: str = MANIFEST) -> Recipe:
    """A recipe of `folder`. Raises NotFoundError; UsageError with file and entry when it is malformed."""
    path = folder / manifest
    try:
        document = read_json(path, SMALL)
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    try:
        form = restore(RecipeManifest, document)
    except ValueError as error:
        raise UsageError(f"{path}: malformed: {error}", "see lab/api/recipe.py for its form") from error
    name = folder.name + path.stem.removeprefix("recipe")
    recipe = Recipe(
        name,
        form.summary,
        folder,
        _command(form.command, path),
        _parameters(form.parameters, path),
        form.ranks,
        form.resources,
        form.packages,
    )
    ways = {
        name: replace(
            recipe,
            command=_command(way.command, path),
            parameters=_parameters({**form.parameters, **way.parameters}, path),
            packages=form.packages if way.packages is None else way.packages,
        )
        for name, way in form.fault_tolerance.items()
    }
    for parameter in filter(None, [form.ranks, *form.resources.values()]):
        if parameter not in {p.name for p in recipe.parameters}:
            raise UsageError(f"{path}: ranks and resources: there is no parameter {parameter!r}")
    for group in filter(None, [recipe.packages, *(way.packages for way in ways.values())]):
        if group not in BUILDS_ON:
            raise UsageError(f"{path}: packages: there is no group {group!r} in requirements/")
    return replace(recipe, ways=ways)


def recipes(workspace: Path | None = None) -> tuple[Recipe, ...]:
    """Every recipe of the workspace, by name. Raises NotFoundError when there is no workspace."""
    workspace = workspace or folder_of_recipes()
    if not os.path.isdir(workspace):
        raise NotFoundError(f"there is no folder {workspace}", f"{WORKSPACE_VARIABLE} says where recipes are")
    paths = manifests(workspace)
    return tuple(load_recipe(path.parent, path.name) for _, path in sorted(paths.items()))


def find_recipe(name: str, workspace: Path | None = None) -> Recipe:
    """The recipe called `name`. Raises NotFoundError that lists the known ones."""
    names = manifests(workspace)
    if name not in names:
        raise NotFoundError(
            f"there is no recipe {name!r}",
            f"known: {', '.join(sorted(names)) or 'none'}; your own script: labctl submit -- python SCRIPT",
        )
    return load_recipe(names[name].parent, names[name].name)


def _command(words: tuple[str, ...], path: Path) -> tuple[str, ...]:
    if not words:
        raise UsageError(f"{path}: malformed: `command` is empty")
    return words


def _parameters(forms: Mapping[str, ParameterManifest | None], path: Path) -> tuple[Parameter, ...]:
    return tuple(_parameter(name, form, path) for name, form in forms.items() if form is not None)


def _parameter(name: str, form: ParameterManifest, path: Path) -> Parameter:
    if form.type not in TYPES:
        raise UsageError(f"{path}: parameters.{name}.type: {form.type!r} is not one of {', '.join(TYPES)}")
    return Parameter(**vars(form), name=name)


def recipe_folder(name: str) -> Path | None:
    """The folder of the recipe called `name`; None where there is no such recipe, or no name."""
    try:
        return find_recipe(name).folder if name else None
    except NotFoundError:
        return None
