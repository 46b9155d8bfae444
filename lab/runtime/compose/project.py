"""A lab as a Compose project: its files, env file and generated override. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.api import hub
from lab.cluster import patches, ray_settings
from lab.host.environment import packaged
from lab.host.files import ROOT, data_folder
from lab.host.workspace import workspace_path
from lab.people.registry import FOLDER
from lab.runtime import proxy
from lab.runtime.compose.ending import BY_ITSELF
from lab.runtime.compose.gpus import WORKERS_IN_FILES, Override, compose_gpu
from lab.runtime.compose.images.model import ADDRESS_FILE
from lab.runtime.compose.state import ENV_FILE, OVERRIDE_FILE, ComposeState
from lab.services import HEAD, PORTS, SERVICES, WORKER, worker
from lab.topology import DEFAULT_LAB, OBJECT_STORE_BYTES, LabSpec
from lab.topology.address import Address, bracketed

COMPOSE = ROOT / "compose"

SETUP = "s3-setup"
"""The one-shot service that makes bucket and training key."""

REDIS_PATCH = {"RAYLAB_REDIS_PASSWORD_FILE": "/run/secrets/redis.password"}
"""Variables of gcs-ft.yaml by which a worker says that the patch `redis_password` is on."""

SHARED = {"LAB_CLASS": "1", "LAB_NODE_RESTART": BY_ITSELF}
"""Variables of nodes that several people use: each job is bounded there, and a lost worker comes back."""

ANY_PORT = "0"
"""The engine publishes some free port."""

PLACES = ("LAB_WORKSPACE", "LAB_ALERTMANAGER_CONFIG")
TAKEN = ("LAB_NODE_MEMORY", "LAB_NODE_SCRATCH", "LAB_HUB_MEMORY", *PLACES)
"""Variables of the caller that a lab takes over, beside those of images; some are paths."""


def project_name(lab: str) -> str:
    return DEFAULT_LAB if lab == DEFAULT_LAB else f"raylab-{lab}"


def services(state: ComposeState) -> tuple[str, ...]:
    """The services that stay, in the order of starting.

    One that the lab has no port for came after the labctl that started it.
    """
    kept = (
        service.name
        for service in SERVICES
        if service.name not in (*state.left_out, WORKER) and state.spec.has(service)
        if all(port.name in state.ports for port in service.ports if port.published)
    )
    return (*kept, *state.spec.worker_services)


def files(spec: LabSpec, added: Sequence[str] = ()) -> tuple[str, ...]:
    """The files of compose/ that make such a lab; `added` come last."""
    return (
        "lab.yaml",
        *compose_gpu(spec.gpu, spec.workers).files,
        *(["stock-ray.yaml"] if spec.stock_ray else []),
        *(["gcs-ft.yaml"] if spec.gcs_ft else []),
        *(["class.yaml"] if spec.classroom else []),
        *(["hub.yaml"] if spec.hub else []),
        *([ADDRESS_FILE] if spec.address else []),
        *added,
    )


def paths(state: ComposeState, folder: Path) -> tuple[Path, ...]:
    """Every Compose file of the lab, in order."""
    files = [COMPOSE / file for file in state.files]
    return (*files, folder / OVERRIDE_FILE) if override(state) else tuple(files)


def command_line(state: ComposeState, folder: Path) -> tuple[str, ...]:
    """The exact `docker compose` call that starts the lab by hand."""
    named = [part for path in paths(state, folder) for part in ("--file", str(path))]
    call = ("docker", "compose", "--env-file", str(folder / ENV_FILE), *named)
    return (*call, "up", "--detach", "--wait")


def env(
    state: ComposeState,
    folder: Path,
    user: tuple[int, int],
    chosen: Mapping[str, str],
) -> dict[str, str]:
    """The env file's variables. `chosen` are those of the caller's that the lab takes over."""
    spec = state.spec
    taken = {name: value for name in TAKEN if (value := chosen.get(name))}
    return {
        **({"LAB_WORKSPACE": str(workspace_path())} if packaged() else {}),
        **{name: str(folder_path(value)) if name in PLACES else value for name, value in taken.items()},
        "LAB_NAME": spec.name,
        "LAB_PROJECT": project_name(spec.name),
        "LAB_FOLDER": str(folder),
        "LAB_SECRETS": str(folder / "secrets"),
        "LAB_DATA": str(data_folder(folder.parent)),
        **({"LAB_PEOPLE": str(folder / FOLDER), **SHARED} if spec.classroom else {}),
        **({"LAB_HUB": str(folder / hub.FOLDER)} if spec.hub else {}),
        **(_address(spec.address, folder) if spec.address else {}),
        "LAB_UID": str(user[0]),
        "LAB_GID": str(user[1]),
        "LAB_WORKERS": str(spec.workers),
        "LAB_CPUS_PER_WORKER": str(spec.cpus_per_worker),
        **{PORTS[name].variable: ANY_PORT for name in _left_out_ports(state)},
        **{PORTS[name].variable: str(port) for name, port in state.ports.items()},
        **state.images,
        **compose_gpu(spec.gpu, spec.workers).env,
        **({"LAB_QUEUED_ONLY": "1"} if spec.queued_only else {}),
        **({"LAB_PATCHES_OFF": off} if (off := patches.switched_off(spec, chosen)) else {}),
    }


def _address(address: Address, folder: Path) -> dict[str, str]:
    return {
        "LAB_PROXY": str(folder / proxy.FOLDER),
        "LAB_ADDRESS_LISTEN": bracketed(address.listen),
        "LAB_ADDRESS_PORT": str(address.port),
        "LAB_CLASS_PAGE": f"{address.url}/class/",
    }


def _left_out_ports(state: ComposeState) -> Iterator[str]:
    """Ports of services that are left out: the guard before them would publish the usual number of each."""
    ports = (port for service in SERVICES if service.name in state.left_out for port in service.ports)
    return (port.name for port in ports if port.published)


def folder_path(chosen: str | Path) -> Path:
    """The absolute path of a folder or file: Compose takes `data` for a volume, and `~` for a name."""
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError:  # nobody's home
        return Path(chosen).absolute()


def env_text(variables: Mapping[str, str]) -> str:
    """An env file that Compose reads back as it is meant."""
    lines = "".join(f"{name}={_quoted(value)}\n" for name, value in sorted(variables.items()))
    return f"# Made by `labctl up`; `labctl down` removes it.\n{lines}"


def _quoted(value: str) -> str:
    """In single quotes Compose changes nothing, but releases differ in how an apostrophe stands there."""
    if "'" not in value and "\\" not in value:
        return f"'{value}'"
    return '"' + re.sub(r'([\\"$])', r"\\\1", value) + '"'


def override(state: ComposeState) -> Override:
    """The override: other workers, shared GPUs, services left out, plain names. Empty for the usual lab."""
    spec = state.spec
    fragment = compose_gpu(spec.gpu, spec.workers)
    added = dict(fragment.override.get("services", {}))
    spare = [worker(index) for index in range(spec.workers, WORKERS_IN_FILES)]
    for name in (*spare, *state.left_out):
        added[name] = {"profiles": ["left-out"]}
    for index in range(WORKERS_IN_FILES, spec.workers):
        name = worker(index)
        service = added.get(name, {})
        environment = {
            **(ray_settings.stock_environment() if spec.stock_ray else {}),
            **(REDIS_PATCH if spec.gcs_ft else {}),
            "RAYLAB_GPU": spec.gpu.vendor.value,
            **service.get("environment", {}),
            "RAYLAB_SERVICE_NAME": name,
        }
        added[name] = {
            **service,
            "extends": {"file": str(COMPOSE / "lab.yaml").replace("$", "$$"), "service": worker(0)},
            "hostname": name,
            "command": list(worker_command(name, fragment.gpus_per_worker)),
            "environment": environment,
        }
    for name in services(state) if spec.plain_names else ():
        added[name] = {**added.get(name, {}), "container_name": name}
    return {"services": added} if added else {}


def worker_command(service: str, gpus: int) -> Sequence[str]:
    """`ray start` of a worker as in lab.yaml, for the Compose file: Compose puts the CPUs in."""
    return (
        *("ray", "start", "--block", f"--address={HEAD}:6379", f"--node-name={service}"),
        "--num-cpus=${LAB_CPUS_PER_WORKER:-8}",
        f"--num-gpus={gpus}",
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        "--disable-usage-stats",
    )
