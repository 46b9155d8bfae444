"""Completions for the shell. Nothing here touches the network or a running lab."""

from __future__ import annotations

import click

from lab.errors import LabError
from lab.services import ALERTMANAGER, GRAFANA, HEAD, JUPYTER, PROMETHEUS, QUEUE, STORE, worker
from lab.topology import LabSpec

PROGRAM = "labctl"
COMPLETE_VARIABLE = "_LABCTL_COMPLETE"
"""Environment variable by which the shell's script asks for completions."""


def service_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Services of a lab of the usual size."""
    services = (STORE, QUEUE, PROMETHEUS, ALERTMANAGER, GRAFANA, JUPYTER)
    names = [HEAD, *(worker(i) for i in range(LabSpec.workers)), *services]
    return [name for name in names if name.startswith(incomplete)]


def target_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Services that a fault can hit."""
    return [name for i in range(LabSpec.workers) if (name := worker(i)).startswith(incomplete)]


def fault_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Faults of the catalogue."""
    from lab.faults import catalogue

    return [kind.name for kind in catalogue() if kind.name.startswith(incomplete)]


def recipe_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Recipes of the workspace."""
    from lab.cluster.recipes import manifests

    names = sorted(manifests())
    return [name for name in names if name.startswith(incomplete)]


def parameter_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """`name=` for every parameter of the recipe being submitted, or of all where it is not known yet."""
    from lab.cluster.recipes import recipes

    try:
        available = recipes()
    except LabError:
        return []
    chosen = [w for w in available if w.name == ctx.params.get("recipe")] or available
    names = {f"{p.name}=" for recipe in chosen for p in recipe.parameters}
    return sorted(name for name in names if name.startswith(incomplete))
