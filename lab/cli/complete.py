"""What the shell completes. Nothing here touches the network or a running lab."""

from __future__ import annotations

import click

from lab.topology import GRAFANA, HEAD, JUPYTER, PROMETHEUS, STORE, LabSpec, worker


def service_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The services of a lab of the usual size."""
    names = [HEAD, *(worker(i) for i in range(LabSpec.workers)), STORE, PROMETHEUS, GRAFANA, JUPYTER]
    return [name for name in names if name.startswith(incomplete)]


def target_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The services that a fault can hit."""
    return [name for i in range(LabSpec.workers) if (name := worker(i)).startswith(incomplete)]


def workload_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The workloads of the workspace."""
    from lab.workloads import MANIFEST, WORKSPACE

    names = sorted(path.parent.name for path in WORKSPACE.glob(f"*/{MANIFEST}"))
    return [name for name in names if name.startswith(incomplete)]


def parameter_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """`name=` for every parameter of the workload that is being submitted."""
    from lab.errors import LabError
    from lab.workloads import find_workload

    try:
        parameters = find_workload(str(ctx.params.get("workload") or "")).parameters
    except LabError:
        return []
    return [f"{p.name}=" for p in parameters if p.name.startswith(incomplete)]
