"""The manifest of a recipe, `recipe.json`: a training script of workspace/ with its parameters.

Read without pydantic (lab.api.light): `labctl submit` and completion read every one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.api.base import Number


@dataclass(frozen=True)
class ParameterManifest:
    """A parameter, passed to the script as `--name VALUE`."""

    type: str = "str"
    """int, float or str."""
    default: int | float | str | None = None
    """None means that the script decides."""
    help: str = ""
    minimum: Number | None = None
    maximum: Number | None = None


@dataclass(frozen=True)
class WayManifest:
    """A further way of the same training."""

    command: tuple[str, ...]
    parameters: Mapping[str, ParameterManifest | None] = field(default_factory=dict)
    """They replace those of the same name; None takes one away."""
    packages: str | None = None
    """None: those of the recipe."""


@dataclass(frozen=True)
class RecipeManifest:
    """The whole file."""

    summary: str
    command: tuple[str, ...]
    parameters: Mapping[str, ParameterManifest | None] = field(default_factory=dict)
    ranks: str = ""
    """The parameter that says how many workers the training has."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Resource -> the parameter that says how much of it each worker asks of a node."""
    packages: str = ""
    """The group of requirements/ that the script needs beyond those of every lab."""
    fault_tolerance: Mapping[str, WayManifest] = field(default_factory=dict)
    """What `--fault-tolerance` may name -> the way of it."""
