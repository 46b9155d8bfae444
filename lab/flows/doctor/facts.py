"""Gathers the facts that the checks judge; all their input and output is here. A failure is a fact, too."""

from __future__ import annotations

import importlib.util
import os
import platform
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import lab
from lab.cluster import patches
from lab.cluster.api import Node, RayApi
from lab.errors import EngineError, LabError, StoreError
from lab.flows.doctor.machine import PROGRAMS
from lab.flows.doctor.model import (
    Containers,
    Facts,
    ListeningPort,
    ProbedAddress,
    ProbedPage,
    RunningLab,
    Tools,
)
from lab.host import http
from lab.host.descent import descendants
from lab.host.files import home
from lab.host.gpus import Detector, amd_gpus, docker, nvidia_gpus
from lab.host.gpus.docker import GpuHost
from lab.host.listening import Listening, listening
from lab.host.reading import parse_json
from lab.runtime import proxy
from lab.runtime.base import LabView, control_of
from lab.runtime.compose.engine import DockerEngine
from lab.services import HEAD
from lab.topology import REGION, Endpoints, LabStatus
from lab.topology.address import Address

if TYPE_CHECKING:
    from lab.store import Store

SHM = Path("/dev/shm")
CGROUP = Path("/sys/fs/cgroup")
HTTP_SECONDS = 3.0
ASK_SECONDS = 30.0
"""Timeout for a command in the head, which takes a tenth of a second on an idle machine."""
DOCKER = DockerEngine(timeout=5.0)
"""The engine, asked with less patience: one that hangs is an answer, too."""
DOCTOR_PREFIX = ".raylab/doctor"
"""Folder in the bucket in which the check writes its object."""


def gather_facts(folder: Path | None = None) -> Facts:
    """Facts of this machine. `folder` is where labs are kept, by default lab.host.files.home()."""
    place = folder or home()
    existing = next(p for p in (place, *place.parents) if p.exists())
    free, total = _disk(existing)
    return Facts(
        python=(sys.version_info.major, sys.version_info.minor, sys.version_info.micro),
        system=platform.system(),
        machine=platform.machine(),
        libc=" ".join(platform.libc_ver()).strip(),
        memory_available=_memory_available(),
        shm_free=_disk(SHM)[0] if SHM.is_dir() else None,
        home=place,
        home_error=_write_error(existing),
        disk_free=free,
        disk_total=total,
        open_files=_open_files(),
        now=time.time(),
        newest_file=_newest(Path(lab.__file__).parent),
        ray=_version("ray"),
        unfit=patches.unfit(),
    )


def gather_tools(
    *,
    which: Callable[[str], str | None] = shutil.which,
    engine: DockerEngine = DOCKER,
    nvidia: Detector = nvidia_gpus,
    amd: Detector = amd_gpus,
) -> Tools:
    """Programs and GPUs of this machine."""
    version = error = ""
    try:
        version = engine.ask("version", "--format", "{{.Server.Version}}").strip()
    except EngineError as no_answer:
        error = no_answer.message
    binaries = {name: path for name in PROGRAMS if (path := which(name))}
    return Tools(binaries, version, error, nvidia(), amd())


def gather_containers(
    engine: DockerEngine = DOCKER, gpus: Callable[[], GpuHost] = docker.gather
) -> Containers:
    """Facts of Docker beyond an engine that answers."""
    try:
        engine.check()
        version = engine.ask("compose", "version", "--short").strip()
    except LabError as error:
        return Containers(error=error.message, hint=error.hint, gpus=gpus())
    return Containers(version, gpus=gpus())


def gather_lab(lab: LabView, status: LabStatus) -> RunningLab:
    """Answers of a lab that is up. Raises LabError when its endpoints cannot be known."""
    from lab.store import ObjectStore

    endpoints = lab.endpoints()
    api = RayApi(endpoints.dashboard, endpoints.ray_token)
    version = f"{endpoints.dashboard.rstrip('/')}/api/version"
    nodes: tuple[Node, ...] = ()
    nodes_error = ""
    try:
        nodes = api.nodes()
    except LabError as error:
        nodes_error = error.message
    server, store_error = "", None
    if endpoints.s3:
        server, store_error = _round_trip(ObjectStore(endpoints.s3, endpoints.credentials, REGION))
    unfit, unfit_error = _ask_patches(lab)
    address = lab.spec().address
    return RunningLab(
        status=status,
        dashboard=ask(version, endpoints.ray_token),
        anonymous=ask(version),
        nodes=nodes,
        nodes_error=nodes_error,
        store_error=store_error,
        store_server=server,
        listeners=_listeners(status, endpoints),
        unfit=unfit,
        unfit_error=unfit_error,
        address=None if address is None else ask_address(address, endpoints.authority),
    )


def ask_address(address: Address, authority: str) -> ProbedAddress:
    """Ask the address of a class where it listens: not every router leads its own machine back to it.

    `authority` is the file of the lab's own; empty where another one vouches for it.
    """
    from lab.host import certificates

    known, asked_at, error, ends = proxy.resolved(address.host), time.time(), "", 0.0
    file = address.certificate or authority
    try:
        trusted = Path(file) if file else None
        ends = certificates.served(address.listen, address.port, address.host, trusted, HTTP_SECONDS)
    except OSError as why:
        error = getattr(why, "verify_message", "") or str(why)
    return ProbedAddress(address, known, error, ends, asked_at)


def _ask_patches(lab: LabView) -> tuple[Mapping[str, str], str]:
    """The patches that do not fit the head's Ray, and the reason why that is not known."""
    try:
        head = control_of(lab, "ask Ray's head about its patches", "doctor")
        answer = head.execute(HEAD, ("python", "-m", "raylab_expectations"), timeout=ASK_SECONDS)
        problems: Mapping[str, str] = parse_json(answer.output.strip().rpartition("\n")[2])
        return dict(problems), ""
    except LabError as error:
        return {}, error.message
    except (ValueError, TypeError):
        return {}, f"the head's answer is not understood: {answer.output.strip()[-200:]!r}"


def ask(url: str, token: str = "") -> ProbedPage:
    """GET `url`, with `token` if there is one."""
    from email.utils import parsedate_to_datetime

    asked_at = time.time()
    try:
        reply = http.request("GET", url, headers=http.bearer(token), timeout=HTTP_SECONDS)
    except http.NoAnswerError as error:
        return ProbedPage(error=f"{url} does not answer ({error})", asked_at=asked_at)
    date = None
    with suppress(TypeError, ValueError):
        date = parsedate_to_datetime(reply.headers.get("date", "")).timestamp()
    return ProbedPage(reply.status, date=date, asked_at=asked_at)


# This machine


def cgroup_memory(root: Path = CGROUP) -> int | None:
    """Bytes that a container (cgroup 2) may still take; None outside of one, or where it has no limit.

    Pages of files that the kernel can drop at once do not count as taken.
    """
    with suppress(OSError, ValueError):
        limit = int((root / "memory.max").read_text())  # "max" where there is no limit
        taken = int((root / "memory.current").read_text())
        pairs = (line.split() for line in (root / "memory.stat").read_text().splitlines())
        droppable = next((int(value) for name, value in pairs if name == "inactive_file"), 0)
        return max(0, limit - taken + droppable)
    return None


def _memory_available() -> int | None:
    import psutil

    with suppress(psutil.Error, OSError):
        available = int(psutil.virtual_memory().available)
        limited = cgroup_memory()
        return available if limited is None else min(available, limited)
    return None


def _disk(folder: Path) -> tuple[int | None, int | None]:
    """(free, total) bytes of the disk that holds `folder`."""
    with suppress(OSError):
        usage = shutil.disk_usage(folder)
        return usage.free, usage.total
    return None, None


def _write_error(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"no permission to write in {folder}"


def _open_files() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def _newest(folder: Path) -> float:
    return max((path.stat().st_mtime for path in folder.glob("*.py")), default=0.0)


def _version(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        return ""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown version"


# The lab


def _round_trip(store: Store) -> tuple[str, str]:
    """Write an object, read it, delete it: (the store's own name, what went wrong)."""
    key, content = f"{DOCTOR_PREFIX}/{secrets.token_hex(8)}", secrets.token_bytes(64)
    try:
        server = store.ping()
        store.put(key, content)
        read = store.get(key)
        store.delete([key])
        if read != content:
            return server, f"{key} came back changed"
        if store.exists(key):
            return server, f"{key} is still there after it was deleted"
    except StoreError as error:
        return "", error.message
    return server, ""


def _listeners(status: LabStatus, endpoints: Endpoints) -> tuple[ListeningPort, ...] | None:
    """Ports on which the services' processes listen, and those of the endpoints, whoever serves them."""
    import psutil

    try:
        owners = {
            pid: service.service
            for service in status.services
            if service.pid is not None
            for pid in descendants(service.pid)
        }
        sockets = listening()
    except (psutil.Error, OSError):
        return None
    return listeners(sockets, owners, published(endpoints))


def published(endpoints: Endpoints) -> dict[int, str]:
    """Port of this machine -> name of the endpoint, for every one that the lab tells people about."""
    urls = {
        "dashboard": endpoints.dashboard,
        "gcs": f"tcp://{endpoints.gcs}",
        "s3": endpoints.s3,
        "jupyter": endpoints.jupyter,
        "queue": endpoints.queue,
        "prometheus": endpoints.prometheus,
        "alertmanager": endpoints.alertmanager,
        "grafana": endpoints.grafana,
    }
    here = {name: url for name, url in urls.items() if urlsplit(url).hostname == "127.0.0.1"}
    ports = ((urlsplit(url).port, name) for name, url in here.items())
    return {port: name for port, name in ports if port}


def listeners(
    sockets: Iterable[Listening], owners: Mapping[int, str], ports: Mapping[int, str]
) -> tuple[ListeningPort, ...]:
    """The lab's among the listening `sockets`: by their process or their port."""
    own = {}
    for socket in sockets:
        service = owners.get(socket.pid or 0) or ports.get(socket.port)
        if service:
            own[socket.address, socket.port] = ListeningPort(service, socket)
    return tuple(sorted(own.values(), key=lambda listener: (listener.socket.port, listener.socket.address)))
