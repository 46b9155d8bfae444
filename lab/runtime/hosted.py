"""The part that runtimes which start a lab's services themselves have in common."""

from __future__ import annotations

import contextlib
import errno
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from lab.errors import (
    LabDownError,
    LabError,
    MovedError,
    NotFoundError,
    RefusedError,
    ServiceError,
    SetupError,
)
from lab.host.files import home, lock
from lab.host.secrets import JUPYTER_FILE, RAY_FILE, STORE_FILE, Secrets, load_or_make
from lab.runtime import proxy
from lab.runtime.base import OnProgress, Runtime
from lab.runtime.health import Seen, View, World
from lab.runtime.ports import LOOPBACK
from lab.runtime.starting import all_settled, settled
from lab.runtime.statefile import written
from lab.services import (
    ALERTMANAGER,
    GATEWAY,
    GRAFANA,
    HEAD,
    HUB,
    JUPYTER,
    PORTS,
    PROMETHEUS,
    QUEUE,
    STORE,
    is_worker,
)
from lab.topology import Credentials, Endpoints, LabSpec, LabStatus, Progress, ServiceStatus, State

LOCK = "lock"
"""File in the lab's folder, which whoever changes the lab holds."""

ENDING = "down.lock"
"""File that `down` holds as well, from before its turn: `up` looks at it in the end."""


class HostedState(Protocol):
    """The part of a lab's state file that every such runtime has."""

    @property
    def spec(self) -> LabSpec:
        """The settings that it was started with."""

    @property
    def ports(self) -> Mapping[str, int]:
        """Name -> number."""

    @property
    def stand_in(self) -> bool:
        """True when moto serves in place of MinIO."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts that a person should know."""


S = TypeVar("S", bound=HostedState)


class HostedRuntime(Runtime, Generic[S]):
    """One lab whose state is in files below `home()/<lab>`."""

    patience: float
    """Seconds for which another labctl that changes the lab is waited for."""

    elsewhere: str
    """State file of a lab on the other runtime."""

    def __init__(self, lab: str, folder: Path | None, world: World) -> None:
        """`folder` is where the lab keeps its things; by default its folder in `home()`."""
        super().__init__(lab)
        self._folder = (folder or home() / lab).absolute()
        self._world, self._clock = world, world.clock
        self._chosen_beside = written(self._folder / self.elsewhere)

    @abstractmethod
    def _find(self) -> tuple[S | None, tuple[str, ...]]:
        """The lab's state, and notes about it. Raises StateError when it runs without."""

    @abstractmethod
    def _up(self) -> S:
        """The state of a lab of which something runs. Raises LabDownError."""

    @abstractmethod
    def _services(self, current: S) -> tuple[str, ...]:
        """The services of the lab, in the order of starting."""

    @abstractmethod
    def _seen(self, current: S) -> dict[str, Seen]:
        """Process or container of each service now."""

    def spec(self) -> LabSpec:
        return self._up().spec

    def endpoints(self) -> Endpoints:
        """Addresses of the lab. Nodes in containers can be reached from the lab's own network only."""
        current, secrets = self._up(), self._secrets()
        address = current.spec.address
        view = View(current.ports, current.stand_in, secrets, self._world)
        gcs, client = current.ports.get("gcs"), current.ports.get("client")
        return Endpoints(
            dashboard=view.url(HEAD),
            gcs=f"{LOOPBACK}:{gcs}" if gcs else f"{HEAD}:{PORTS['gcs'].usual}",
            s3=view.url(STORE),
            credentials=secrets.store,
            ray_token=secrets.ray_token,
            ray_token_file=str(self._folder / "secrets" / RAY_FILE),
            jupyter=f"{view.url(JUPYTER)}/?token={secrets.jupyter_token}",
            prometheus=view.url(PROMETHEUS),
            alertmanager=view.url(ALERTMANAGER),
            grafana=view.url(GRAFANA),
            grafana_password=secrets.grafana_password if view.url(GRAFANA) else "",
            queue=view.url(QUEUE),
            gateway=view.url(GATEWAY) if current.spec.classroom else "",
            address=address.url if address else "",
            authority=str(proxy.authority(self._folder)) if address and address.own_authority else "",
            hub=view.url(HUB) if current.spec.hub else "",
            ray_client=f"ray://{LOOPBACK}:{client}" if client else "",
        )

    def folder(self) -> Path:
        return self._folder

    @contextlib.contextmanager
    def _alone(self, what: str, on_progress: OnProgress, *, ending: bool = False) -> Iterator[None]:
        """Change what runs of the lab, and its state file, as the only labctl; `what` is said to others.

        It has to be read afresh then. Another one that does so is waited for; with `ending` an `up` whose
        turn it is hears of that. Raises SetupError, and MovedError when the other one started the lab on the
        other runtime.
        """

        def waits(holder: str) -> None:
            on_progress(Progress(f"lab {self.lab}", State.STARTING, f"waiting: {holder}"))

        with contextlib.ExitStack() as held:
            for name in (ENDING, LOCK) if ending else (LOCK,):
                path, patience = self._folder / name, self.patience
                held.enter_context(lock(path, what, patience=patience, on_wait=waits, clock=self._clock))
            try:
                self._refuse_moved()
                yield
            finally:
                with contextlib.suppress(OSError):
                    if ending:
                        (self._folder / ENDING).unlink(missing_ok=True)
                    self._remove_folder()  # made by the lock alone, where there is no lab any more

    def _refuse_moved(self) -> None:
        if written(self._folder / self.elsewhere) not in (None, self._chosen_beside):
            raise MovedError(
                f"lab {self.lab} was started on the other runtime meanwhile",
                f"`labctl status --lab {self.lab}` shows what runs; then try again",
            )

    def _refuse_ending(self) -> None:
        """Refuse to go on with an `up` that a `down` waits for. Raises RefusedError."""
        if not (self._folder / ENDING).exists():
            return
        try:
            with lock(self._folder / ENDING, f"starting lab {self.lab}"):
                return
        except SetupError as error:
            raise RefusedError(
                f"lab {self.lab} was started, but does not stay up: {error.message}",
                "`labctl up` again, once that is done",
            ) from error

    def _remove_folder(self) -> None:
        """Remove the folder, if nothing but the lock is in it; whoever waits for that makes it anew.

        Raises OSError.
        """
        if {entry.name for entry in self._folder.iterdir()} <= {LOCK}:
            (self._folder / LOCK).unlink(missing_ok=True)
            try:
                self._folder.rmdir()
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # then another labctl is at work in it already
                    raise

    def store_owner(self) -> Credentials:
        return self._secrets().root

    def set_training_key(self, enabled: bool) -> None:
        """Let the store refuse the training key, or accept it again, as a stand-in does once restarted."""
        from lab.store.admin import MinioAdministration

        self._check_runs(STORE)
        endpoints, root = self.endpoints(), self._secrets().root
        MinioAdministration(endpoints.s3, root).set_user_enabled(endpoints.credentials.access_key, enabled)

    def _load(self) -> S | None:
        return self._find()[0]

    def _not_running(self, service: str) -> LabDownError:
        return LabDownError(f"{service} is not running", f"`labctl restart {service}` starts it")

    @abstractmethod
    def _check_runs(self, service: str) -> object:
        """Refuse a service that does not run, or is not there. Raises LabDownError, NotFoundError."""

    def _check_known(self, current: S, service: str) -> None:
        names = self._services(current)
        if service not in names:
            raise NotFoundError(f"lab {self.lab} has no service {service!r}", f"it has: {', '.join(names)}")

    def _secrets(self) -> Secrets:
        """The secrets that the lab was started with. Raises ServiceError; new ones would open nothing."""
        folder = self._folder / "secrets"
        try:
            missing = [name for name in (STORE_FILE, RAY_FILE, JUPYTER_FILE) if not (folder / name).exists()]
        except OSError as error:
            raise ServiceError(f"cannot look into {folder}: {error.strerror}", "check its owner") from error
        if missing:
            hint = "`labctl down`, then `labctl up` makes a new one"
            raise ServiceError(f"the secret {folder / missing[0]} is missing", hint)
        return load_or_make(folder)

    def _view(self, current: S) -> tuple[View, tuple[str, ...]]:
        """All that is needed to ask its services, and a note where that lacks the secrets."""
        secrets: Secrets | None = None
        problem: tuple[str, ...] = ()
        try:
            secrets = self._secrets()
        except LabError as error:
            problem = (f"{error.message}; {error.hint}",)
        address = current.spec.address.url if current.spec.address else ""
        view = View(current.ports, current.stand_in, secrets, self._world, current.spec.gcs_ft, address)
        return view, problem

    def _status(self, current: S, seen: Mapping[str, Seen], notes: tuple[str, ...]) -> LabStatus:
        view, problem = self._view(current)
        statuses, _ = view.statuses(seen)
        up = any(s.state not in (State.ABSENT, State.EXITED) for s in statuses)
        all_notes = (*current.notes, *notes, *problem)
        return LabStatus(self.lab, self.kind, up, statuses, current.spec.gpu, all_notes)

    def _nothing(self, notes: tuple[str, ...] = ()) -> LabStatus:
        """The status of a lab that is down."""
        return LabStatus(self.lab, self.kind, False, (), LabSpec(self.lab).gpu, notes)

    def _to_start(self, current: S, on_progress: OnProgress) -> tuple[str, ...]:
        """The services that are not healthy, once each that runs has had the time to answer."""
        view, _ = self._view(current)
        statuses = all_settled(lambda: view.statuses(self._seen(current)), on_progress, self._clock)
        return tuple(status.service for status in statuses if status.state is not State.HEALTHY)

    def _rounds(self, current: S, on_progress: OnProgress) -> Iterator[tuple[str, ...]]:
        """The services that `up` has to start. Each round is started before the next is asked for.

        Workers outlive a head whose state is in Redis: those that run are judged once it is back.
        """
        todo = self._to_start(current, on_progress)
        seen = self._seen(current)
        living = [name for name in todo if is_worker(name) and seen[name].state is State.RUNNING]
        if current.spec.gcs_ft and HEAD in todo and living:
            yield tuple(name for name in todo if name not in living)
            todo = self._to_start(self._load() or current, on_progress)
        yield todo

    def _settled(self, current: S, service: str) -> ServiceStatus:
        """The certain status of a service: a node that runs may well train while Ray is slow to answer.

        Raises WaitTimeoutError where that does not become known of a worker.
        """
        view, _ = self._view(current)

        def look() -> tuple[ServiceStatus, str]:
            seen = self._seen(current)
            cluster = view.cluster(seen.get(HEAD))
            return view.status(service, seen[service], cluster), cluster[1]

        return settled(service, look, self._clock)
