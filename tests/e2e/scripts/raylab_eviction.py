"""An extension in one file: a fault, a command and a check of `doctor`, as a wheel has it."""

import click

from lab.cli.context import App, LabCommand, pass_app
from lab.extension import LOOK, Command, Extension
from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits
from lab.topology import Check


class Eviction(Fault):
    """The node gets two seconds' notice."""

    kind = FaultKind(
        name="eviction",
        summary="the node gets two seconds' notice, and is killed",
        scope=Scope.NODE,
        revert="the node is started again and joins the cluster as a new one",
        expected=Expected.NODE_LOST,
        traits=Traits("was evicted", ends_node=True),
    )

    def inject(self, scene: Scene) -> None:
        scene.runtime.stop(scene.target, timeout=2.0)


@click.command("spot", cls=LabCommand)
@pass_app
def spot(app: App) -> None:
    """Show what a spot machine costs."""
    app.out.document({"price": 0.25})


COMMANDS = (spot,)


def notice(lab: object) -> Check:
    """Tell whether a lab is there to be evicted from."""
    return Check("spot", "passed" if lab else "skipped", "the lab is up" if lab else "no lab is up")


EXTENSION = Extension(
    "eviction",
    commands=(Command(LOOK, "spot", "raylab_eviction", "Show what a spot machine costs."),),
    faults=("raylab_eviction",),
    checks=("raylab_eviction:notice",),
)
