"""People of a class come and go: with their namespace, their queue, and their key of the object store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kueue.writing import VERSION, key_of, objects
from lab.api.people import Removal
from lab.errors import LabDownError, NotFoundError, RefusedError, WaitTimeoutError
from lab.host.clock import MONOTONIC, Clock, settle
from lab.host.files import lock
from lab.host.interrupts import held_back
from lab.host.quantities import plural
from lab.people.links import SECONDS_OF_DAY, Link, address_of
from lab.people.registry import FOLDER, LINK, Invitation, Newcomer, Person, Registry
from lab.people.rights import policy, rights, work
from lab.store.setup import STAND_IN
from lab.topology import BUCKET

if TYPE_CHECKING:
    from lab.lab import Lab
    from lab.store.admin import MinioAdministration

LOCK = "class.lock"
"""File beside the list of people, held while people are added or removed."""

QUEUE = "default"
"""LocalQueue of each person's namespace: jobs that name none go there, as Kueue has it."""

STOP_SECONDS = 60.0
"""Deadline for the jobs of somebody who is removed to end."""

PATIENCE_SECONDS = 120.0
"""Longest wait for another labctl that adds or removes people."""

EXAMPLE = "classroom"
"""The example whose ClusterQueue of this name everybody shares, unless the teacher made another one."""


T = TypeVar("T")
Keep: TypeAlias = Callable[[Sequence[T]], None]
"""Keeps what is known only now, before it holds good: what this raises leaves the class as it was."""


class Classroom:
    """The people of one lab that is up with `--class`."""

    def __init__(
        self, lab: Lab, *, clock: Clock = MONOTONIC, say: Callable[[str], None] = lambda _: None
    ) -> None:
        """Look whether the lab is up for a class; `say` gets a line for each wait.

        Raises LabDownError; RefusedError for a lab that is not for a class.
        """
        self._lab, self._clock, self._say = lab, clock, say
        try:
            spec = lab.runtime.spec()
        except LabDownError as error:
            raise LabDownError(error.message, "`labctl up --class` starts it") from error
        if not spec.classroom:
            hint = "`labctl down`, then `labctl up --class`"
            raise RefusedError(f"lab {lab.name} is not for a class: it was started without --class", hint)
        self.registry = Registry(folder_of(lab))

    @property
    def address(self) -> str:
        """The address by which people use the class; the gateway's, for this machine, where it has none."""
        endpoints = self._lab.endpoints()
        return endpoints.address or endpoints.gateway

    @property
    def own_authority(self) -> bool:
        """True where people have to be given the certificate that vouches for the address."""
        return bool(self._lab.endpoints().authority)

    def invite(self, names: Sequence[str], days: int, keep: Keep[Link] = lambda _: None) -> tuple[Link, ...]:
        """A link each, with which these people sign in to the hub once; their earlier ones end.

        Raises NotFoundError, RefusedError for somebody who is being removed or a lab without a hub, and what
        `keep` raises.
        """
        endpoints = self._lab.endpoints()
        if not endpoints.hub:
            hint = "`labctl down`, then `labctl up --class --hub`"
            raise RefusedError(f"lab {self._lab.name} has no JupyterHub to sign in to", hint)
        until = self.registry.clock() + days * SECONDS_OF_DAY
        people, hub = self.registry.people(), endpoints.address or endpoints.hub

        def links(codes: Mapping[str, str]) -> tuple[Link, ...]:
            return tuple(
                Link(name, people[name].role, address_of(hub, code), until) for name, code in codes.items()
            )

        with held_back():
            return links(self.registry.grant(LINK, names, until, lambda codes: keep(links(codes))))

    def reset(self, names: Sequence[str], keep: Keep[Invitation] = lambda _: None) -> tuple[Invitation, ...]:
        """Give people new tokens, all or none; the old ones end. Raises as Registry.reset does."""
        with held_back():
            return self.registry.reset(*names, keep=keep)

    def add(
        self, newcomers: Iterable[Newcomer], keep: Keep[Invitation] = lambda _: None
    ) -> tuple[Invitation, ...]:
        """Add people, all or none; returns them with their tokens, which are nowhere else.

        Raises RefusedError for a name that is taken, SetupError while another labctl is busy with the class,
        ClusterError, StoreError, and what `keep` raises.
        """
        with self._alone("adding people to the class"):
            invitations = self.registry.invite(newcomers)
            people = [invitation.person for invitation in invitations]
            with contextlib.ExitStack() as undo:
                self._provide(people, undo)
                with held_back():
                    keep(invitations)
                    self.registry.add(people)
                    undo.pop_all()
        return invitations

    def provide(self) -> None:
        """Make what the people lack of queues and keys, as where the store is a new one.

        Those who are being removed get nothing; nothing is taken back when it fails. Raises as `add` does.
        """
        with self._alone("giving the class queues and keys"):
            people = [one for one in self.registry.people().values() if not one.leaving]
            self._provide(people, contextlib.ExitStack())

    def remove(self, name: str, *, delete: bool) -> Removal:
        """Remove a person: her token ends first, then her key, her jobs and her queue.

        Her stored objects are deleted only with `delete`, and once none of her jobs is left. What failed
        half-way is finished by the same call again. Raises NotFoundError, WaitTimeoutError while a job does
        not end, SetupError while another labctl is busy with the class, ClusterError, StoreError.
        """
        with self._alone(f"removing {name} from the class"):
            person = self.registry.close(name)
            if (admin := self._administration()) is not None:
                _take_key(admin, person)
            stopped = self._stop_jobs(name)
            self._delete_queues([("LocalQueue", name, QUEUE)])
            stopped += self._stop_jobs(name)  # those that came in while her token ended
            objects = self.objects(name)
            for prefix in work(name) if delete else ():
                self._lab.store.delete_prefix(prefix)
            if delete:
                self._lab.runtime.homes().delete(name)
            self.registry.forget(name)
        return Removal(name, stopped, objects, delete)

    def has_home(self, name: str) -> bool:
        """True for a person with a home in JupyterHub. Raises LabDownError."""
        return self._lab.runtime.homes().has(name)

    def objects(self, name: str) -> int:
        """Number of stored objects of a person, ledgers of her jobs included. Raises StoreError."""
        return sum(len(self._lab.store.list(prefix)) for prefix in work(name))

    def jobs(self) -> Mapping[str, int]:
        """Namespace -> number of its jobs that have not ended."""
        counts: dict[str, int] = {}
        for row in self._lab.queues.list().workloads:
            counts[row.namespace] = counts.get(row.namespace, 0) + 1
        return counts

    @contextlib.contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Keep other labctls from adding and removing people: what one takes back may be another one's."""

        def say(holder: str) -> None:
            self._say(f"{holder}; waiting for it, {PATIENCE_SECONDS:g} s at most")

        path = self.registry.path.with_name(LOCK)
        with lock(path, what, patience=PATIENCE_SECONDS, on_wait=say, clock=self._clock):
            yield

    def _provide(self, people: Sequence[Person], undo: contextlib.ExitStack) -> None:
        """Make what these people lack of queues and keys. `undo` gets what takes back that which was made."""
        queues = self._missing_queues([person.name for person in people])
        if queues:
            self._lab.queues.apply([("class.yaml", "\n---\n".join(json.dumps(one) for one in queues))])
            undo.callback(self._delete_queues, [key_of(one) for one in queues if one["kind"] == "LocalQueue"])
        if (admin := self._administration()) is not None:
            for person in people:
                undo.callback(_take_key, admin, person)
                name = policy_name(person.name)
                admin.put_policy(name, policy(BUCKET, rights(person.role, person.name)))
                admin.put_user(person.key, name)

    def _stop_jobs(self, name: str) -> tuple[str, ...]:
        """Stop a person's jobs and wait until none is left. Raises WaitTimeoutError."""
        stopped: dict[str, str] = {}
        said = False

        def look() -> list[str]:
            nonlocal said
            left = [row for row in self._lab.queues.list().workloads if row.namespace == name]
            if left and not said:
                said = True
                self._say(f"stopping {plural(len(left), 'job')} of {name}, {STOP_SECONDS:g} s at most")
            for row in left:
                if row.workload not in stopped:
                    with contextlib.suppress(RefusedError, NotFoundError):  # it ended meanwhile
                        self._lab.queues.cancel(row.workload, f"{name} was removed from the class")
                        stopped[row.workload] = row.name
            return [row.name for row in left]

        if left := settle(look, lambda names: not names, timeout=STOP_SECONDS, clock=self._clock):
            raise WaitTimeoutError(
                f"jobs of {name} have not ended after {STOP_SECONDS:g} s: {', '.join(left)}",
                f"nothing of hers was deleted; to go on: labctl class remove {name}",
            )
        return tuple(stopped.values())

    def _missing_queues(self, names: Iterable[str]) -> list[Mapping[str, object]]:
        """The objects that these people's queues lack: those that are there are the teacher's."""
        there = {key_of(one) for one in self._lab.queues.objects()}
        queues = [_local_queue(name) for name in names if ("LocalQueue", name, QUEUE) not in there]
        if not queues or ("ClusterQueue", "", EXAMPLE) in there:
            return queues
        return [*(one for one in self._shared() if key_of(one) not in there), *queues]

    def _shared(self) -> list[Mapping[str, object]]:
        """What all queues of a class share, sized by this lab."""
        from kueue.reading import read
        from lab.flows.queues.examples import example

        made = read([(EXAMPLE, example(EXAMPLE, self._lab.runtime.spec()).text)]).setup
        return [one for one in objects(made) if one["kind"] not in ("LocalQueue", "Namespace")]

    def _delete_queues(self, keys: Iterable[tuple[str, str, str]]) -> None:
        for key in keys:
            with contextlib.suppress(NotFoundError, RefusedError):  # deleted already; or finished jobs use it
                self._lab.queues.delete([key])

    def _administration(self) -> MinioAdministration | None:
        """The store's users; None where the store is the stand-in, which reads the list itself."""
        from lab.store.admin import MinioAdministration

        if self._lab.store.ping().startswith(STAND_IN):
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


def _local_queue(namespace: str) -> Mapping[str, object]:
    return {
        "apiVersion": VERSION,
        "kind": "LocalQueue",
        "metadata": {"namespace": namespace, "name": QUEUE},
        "spec": {"clusterQueue": EXAMPLE},
    }
