"""`slow-network`: the traffic of a node is slow, late or partly lost."""

from __future__ import annotations

from lab.errors import UnsupportedError, UsageError
from lab.faults import Expected, Fault, FaultKind, Parameter, Scene, Scope, Traits, lasting
from lab.runtime.base import Feature

ALSO_NEEDED = {"delay": Feature.NETWORK_DELAY, "loss": Feature.NETWORK_LOSS}
"""Parameter -> feature that it needs."""


class SlowNetwork(Fault):
    """Slows down the network of the node, both ways. The others keep theirs."""

    kind = FaultKind(
        name="slow-network",
        summary="what the node sends and gets is slow, late or partly lost",
        scope=Scope.NODE,
        parameters=(
            lasting("how long the network is slow", 20.0),
            Parameter("rate", "Mbit/s", "the most that gets through each way; 0: no limit", 10.0, 0.0, 1e5),
            Parameter("delay", "ms", "added to every packet, each way", 0.0, 0.0, 10_000.0),
            Parameter("loss", "%", "packets that are lost, each way", 0.0, 0.0, 90.0),
        ),
        revert="the network is as before; a node that the cluster gave up is started again as a new one",
        expected=Expected.SLOWED,
        traits=Traits("got a slow network"),
        needs=(Feature.NETWORK,),
    )

    def refuse(self, scene: Scene) -> None:
        """Raise UsageError also when nothing would get slower."""
        super().refuse(scene)
        for name, feature in ALSO_NEEDED.items():
            why = scene.runtime.missing(feature) if scene.parameters[name] else ""
            if why:
                raise UnsupportedError(f"{name} is not possible here: {why}", f"-p {name}=0 -p rate=10")
        if not any(scene.parameters[name] for name in ("rate", "delay", "loss")):
            raise UsageError("rate, delay and loss are 0: nothing would be slow", "-p rate=10")

    def inject(self, scene: Scene) -> None:
        scene.runtime.impair(
            scene.target,
            delay_ms=scene.parameters["delay"],
            loss_percent=scene.parameters["loss"],
            rate_mbit=scene.parameters["rate"],
        )

    def revert(self, scene: Scene) -> None:
        scene.runtime.unimpair(scene.target)
        self.come_back(scene)
