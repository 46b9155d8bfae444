"""The network of one container: cut, connected again, slowed down.

What slows it down is set from a helper container that shares the network namespace and has NET_ADMIN, so that
no node ever has that right. The settings go with the namespace when the container is started anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.errors import EngineError, UnsupportedError
from lab.host.clock import WALL
from lab.host.files import PROBE
from lab.host.reading import parse_json
from lab.runtime.base import Feature
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.inspected import Container
from lab.topology import Struck

HELPER_SECONDS = 60.0
"""Deadline of one helper container; it takes a second."""

PROGRAM = "/opt/raylab/probe/raylab_faults/network.py"


def disconnect(engine: DockerEngine, container: Container, networks: tuple[str, ...]) -> Struck:
    """Take the container off its lab's networks. Raises EngineError."""
    first = WALL()
    if not container.cut:
        for network in networks:
            engine.act("network disconnect", [network, container.id])
    return engine.struck(container.id, ("disconnect",), Struck(first, WALL()))


def reconnect(engine: DockerEngine, container: Container, networks: tuple[str, ...]) -> None:
    """Give the container back what Compose gave it: a place on the lab's networks, and its name there.

    Docker hands out the lowest free address, so it is the one it had, unless somebody else came meanwhile.
    Raises EngineError.
    """
    if container.cut:
        for network in networks:
            engine.act("network connect", [network, container.id], f"--alias={container.service}")


def impair(
    engine: DockerEngine,
    image: str,
    container: Container,
    delay_ms: float,
    loss_percent: float,
    rate_mbit: float,
) -> None:
    """Slow a container's network down, or lose packets of it. Raises UnsupportedError, EngineError."""
    options = (f"--delay-ms={delay_ms}", f"--loss-percent={loss_percent}", f"--rate-mbit={rate_mbit}")
    code, said = _helper(engine, image, f"container:{container.id}", "impair", *options)
    if code:
        raise UnsupportedError(
            f"the network of {container.service} cannot be slowed down like this: {_last(said)}",
            "use other values: labctl fault-inject --list says what this machine can do",
        )


def unimpair(engine: DockerEngine, image: str, container: Container) -> None:
    """Take the impairment back. Raises EngineError."""
    code, said = _helper(engine, image, f"container:{container.id}", "clear")
    if code:
        raise EngineError(
            f"the network of {container.service} is still slow: {_last(said)}",
            f"`labctl restart {container.service}` gives it a new one",
        )


def abilities(engine: DockerEngine, image: str) -> Mapping[Feature, str]:
    """Reasons why this machine cannot do these to a network; empty where it can. Raises EngineError."""
    code, said = _helper(engine, image, "none", "abilities")
    try:
        support: Mapping[str, str] = {} if code else parse_json(_last(said))
        return {
            Feature.NETWORK: support["rate"],
            Feature.NETWORK_DELAY: support["delay"],
            Feature.NETWORK_LOSS: support["loss"],
        }
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(
            f"labctl cannot find out which network faults this kernel can make: {_last(said)}"
        ) from error


def _helper(engine: DockerEngine, image: str, network: str, *arguments: str) -> tuple[int, str]:
    options = (
        *("--rm", "--pull=never", f"--network={network}"),
        *("--user=0", "--cap-drop=ALL", "--cap-add=NET_ADMIN", "--security-opt=no-new-privileges:true"),
        *("--read-only", "--tmpfs=/run", "--memory=256m", "--pids-limit=32"),
        f"--mount=type=bind,source={PROBE},target=/opt/raylab/probe,readonly",
    )
    return engine.run_helper(options, image, ("python", "-I", PROGRAM, *arguments), HELPER_SECONDS)


def _last(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[-1] if lines else "no reason given"
