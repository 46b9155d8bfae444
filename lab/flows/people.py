"""People of a class come and go: with their namespace, their queue, and their key of the object store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import NotFoundError, RefusedError
from lab.people.registry import FOLDER, Invitation, Newcomer, Person, Registry
from lab.people.rights import home, policy, rights
from lab.store.setup import OWN
from lab.topology import BUCKET

if TYPE_CHECKING:
    from lab.lab import Lab
    from lab.store.admin import MinioAdministration

QUEUE = "default"
"""LocalQueue of each person's namespace: jobs that name none go there, as Kueue has it."""

EXAMPLE = "classroom"
"""The example whose ClusterQueue of this name everybody shares, unless the teacher made another one."""


@dataclass(frozen=True)
class Removal:
    """What became of a person who was removed."""

    name: str
    stopped: tuple[str, ...]
    """Jobs that were stopped."""
    objects: int
    """Stored objects of hers: those that were kept, or deleted."""
    deleted: bool


class Classroom:
    """The people of one lab that is up with `--class`."""

    def __init__(self, lab: Lab, registry: Registry | None = None) -> None:
        """Look whether the lab is up for a class. Raises LabDownError; RefusedError for one that is not."""
        self._lab = lab
        spec = lab.runtime.spec()
        if not spec.classroom:
            hint = "`labctl down`, then `labctl up --class`"
            raise RefusedError(f"lab {lab.name} is not for a class: it was started without --class", hint)
        self.registry = registry or Registry(folder_of(lab))

    @property
    def address(self) -> str:
        """The gateway's address, by which people use the class from this machine."""
        return self._lab.endpoints().gateway

    def add(self, newcomers: Iterable[Newcomer]) -> tuple[Invitation, ...]:
        """Add people, all or none; returns them with their tokens, which are nowhere else.

        Raises RefusedError for a name that is taken, ClusterError, StoreError.
        """
        invitations = self.registry.invite(newcomers)
        people = [invitation.person for invitation in invitations]
        with contextlib.ExitStack() as undo:
            self.provide(people, undo)
            self.registry.add(people)
            undo.pop_all()
        return invitations

    def provide(self, people: Sequence[Person], undo: contextlib.ExitStack | None = None) -> None:
        """Make what these people lack of queues and keys. `undo` gets what takes back that which was made."""
        undo = undo or contextlib.ExitStack()
        queues = self._missing_queues([person.name for person in people])
        if queues:
            self._lab.queues.apply([("class.yaml", "\n---\n".join(json.dumps(one) for one in queues))])
            undo.callback(self._delete_queues, [_key(one) for one in queues if one["kind"] == "LocalQueue"])
        if (admin := self._administration()) is not None:
            for person in people:
                undo.callback(_take_key, admin, person)
                name = policy_name(person.name)
                admin.put_policy(name, policy(BUCKET, rights(person.role, person.name)))
                admin.put_user(person.key, name)

    def remove(self, name: str, *, delete: bool) -> Removal:
        """Remove a person: her token ends first, then her jobs, her queue and her key.

        Her stored objects are deleted only with `delete`. What failed half-way is finished by the same call
        again. Raises NotFoundError, ClusterError, StoreError.
        """
        person = self.registry.close(name)
        stopped = tuple(self._stop_jobs(name))
        objects = self.objects(name)
        if delete:
            self._lab.store.delete_prefix(home(name))
        self._delete_queues([("LocalQueue", name, QUEUE)])
        if (admin := self._administration()) is not None:
            _take_key(admin, person)
        self.registry.forget(name)
        return Removal(name, stopped, objects, delete)

    def objects(self, name: str) -> int:
        """Number of stored objects in a person's folder. Raises StoreError."""
        return len(self._lab.store.list(home(name)))

    def jobs(self) -> Mapping[str, int]:
        """Namespace -> number of its jobs that have not ended."""
        counts: dict[str, int] = {}
        for row in self._lab.queues.list().workloads:
            counts[row.namespace] = counts.get(row.namespace, 0) + 1
        return counts

    def _stop_jobs(self, name: str) -> Iterable[str]:
        for row in self._lab.queues.list().workloads:
            if row.namespace == name:
                with contextlib.suppress(RefusedError, NotFoundError):  # it ended meanwhile
                    self._lab.queues.cancel(row.workload, f"{name} was removed from the class")
                    yield row.name

    def _missing_queues(self, names: Iterable[str]) -> list[Mapping[str, Any]]:
        """The objects that these people's queues lack: those that are there are the teacher's."""
        there = {_key(one) for one in self._lab.queues.objects()}
        queues = [_local_queue(name) for name in names if ("LocalQueue", name, QUEUE) not in there]
        if not queues or ("ClusterQueue", "", EXAMPLE) in there:
            return queues
        return [*(one for one in self._shared() if _key(one) not in there), *queues]

    def _shared(self) -> list[Mapping[str, Any]]:
        """What all queues of a class share, sized by this lab."""
        from kueue.reading import read
        from kueue.writing import objects
        from lab.flows.queues.examples import example

        made = read([(EXAMPLE, example(EXAMPLE, self._lab.runtime.spec()).text)]).setup
        return [one for one in objects(made) if one["kind"] not in ("LocalQueue", "Namespace")]

    def _delete_queues(self, keys: Iterable[tuple[str, str, str]]) -> None:
        for key in keys:
            with contextlib.suppress(NotFoundError, RefusedError):  # deleted already; or finished jobs use it
                self._lab.queues.delete([key])

    def _administration(self) -> MinioAdministration | None:
        """The store's users; None where the store is the lab's own server, which reads the list itself."""
        from lab.store.admin import MinioAdministration

        if self._lab.store.ping().startswith(OWN):
            return None
        return MinioAdministration(self._lab.endpoints().s3, self._lab.runtime.store_owner())


def folder_of(lab: Lab) -> Path:
    """The folder with the list of the people of a lab. Raises UnsupportedError where there is none."""
    return lab.runtime.folder() / FOLDER


def policy_name(person: str) -> str:
    """The name of a person's policy in the store."""
    return f"raylab-person-{person}"


def _take_key(admin: MinioAdministration, person: Person) -> None:
    admin.remove_person(person.key.access_key, policy_name(person.name))


def _local_queue(namespace: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"namespace": namespace, "name": QUEUE},
        "spec": {"clusterQueue": EXAMPLE},
    }


def _key(item: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = item.get("metadata") or {}
    return str(item["kind"]), str(metadata.get("namespace", "")), str(metadata.get("name", ""))
