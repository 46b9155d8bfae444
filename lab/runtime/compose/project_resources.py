"""Containers, networks and volumes of one lab on the engine, and nobody else's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab.errors import RefusedError
from lab.host.clock import Clock
from lab.runtime.base import OnProgress
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.inspected import FOLDER_LABEL, LAB_LABEL, Container
from lab.runtime.compose.project import SETUP
from lab.services import STORE, is_node
from lab.topology import Progress, State

STOP_SECONDS = 5
"""Grace of a service at `down`."""


def by_service(containers: tuple[Container, ...]) -> dict[str, Container]:
    return {container.service: container for container in containers}


def check_volumes(engine: DockerEngine, project: str, folder: Path) -> tuple[str, ...]:
    """The names of a project's volumes. Raises RefusedError unless all are of the lab with that folder."""
    volumes = engine.volumes(project)
    theirs = [name for name, labels in volumes.items() if labels.get(FOLDER_LABEL) != str(folder)]
    if theirs:
        owner = volumes[theirs[0]].get(FOLDER_LABEL)
        whose = f"belong to the lab of {owner}" if owner else "were not made by labctl"
        other = ", or that lab's RAYLAB_HOME" if owner else ""
        raise RefusedError(
            f"the volumes of the Compose project {project} {whose}",
            f"choose another --lab{other}; if nobody needs what they hold: "
            f"docker volume rm {' '.join(theirs)}",
        )
    return tuple(volumes)


class Holdings:
    """One Compose project, as long as it is the lab's whose folder is given."""

    def __init__(self, engine: DockerEngine, project: str, folder: Path, clock: Clock) -> None:
        self._engine, self._project, self._folder, self._clock = engine, project, folder, clock

    def containers(self) -> dict[str, Container]:
        """The lab's containers by service. Raises RefusedError when the project is somebody else's."""
        present = self._engine.containers(self._project)
        for container in present:
            self._check_own(container)
        return by_service(present)

    def stop(self, containers: Mapping[str, Container], on_progress: OnProgress) -> tuple[str, ...]:
        """Stop what runs: the nodes at once, the rest when asked, the store last. Returns their names."""
        begin = self._clock()
        alive = {name: c for name, c in containers.items() if c.alive and name != SETUP}
        groups = (
            [name for name in alive if is_node(name)],
            [name for name in alive if not is_node(name) and name != STORE],
            [name for name in alive if name == STORE],
        )
        for number, group in enumerate(groups):
            for name in group:
                on_progress(Progress(name, State.RUNNING, "stopping", self._clock() - begin))
            asked = [alive[n].id for n in group if number and alive[n].state == "running"]
            if asked:
                self._engine.act("stop", asked, f"--time={STOP_SECONDS}", grace=STOP_SECONDS, gone=True)
            others = [alive[name].id for name in group if alive[name].id not in asked]
            if others:
                self._engine.act("kill", others, gone=True)
            for name in group:
                on_progress(Progress(name, State.EXITED, "stopped", self._clock() - begin))
        return tuple(name for group in groups for name in group)

    def remove(self, containers: Mapping[str, Container]) -> None:
        if containers:
            self._engine.act("rm", [c.id for c in containers.values()], "--force", gone=True)
        networks = self._engine.networks(self._project)
        if networks:
            self._engine.act("network rm", networks, gone=True)

    def remove_volumes(self) -> None:
        """Remove the project's volumes, and with them the stored objects.

        Raises RefusedError when one is somebody else's.
        """
        names = check_volumes(self._engine, self._project, self._folder)
        if names:
            self._engine.act("volume rm", names, gone=True)

    def check_volumes(self) -> tuple[str, ...]:
        """The project's volumes. Raises RefusedError when one is somebody else's."""
        return check_volumes(self._engine, self._project, self._folder)

    def _check_own(self, container: Container) -> None:
        folder = container.labels.get(FOLDER_LABEL)
        if LAB_LABEL in container.labels and folder == str(self._folder):
            return
        if LAB_LABEL not in container.labels:
            whose = "is not a lab's"
        elif folder:
            whose = f"is the lab of {folder}"
        else:
            whose = "was started by `docker compose` without labctl's env file"
        raise RefusedError(
            f"the Compose project {self._project} exists already and {whose}",
            f"choose another --lab, or end it: docker compose --project-name {self._project} down",
        )
