"""The command line and environment of every service of the local runtime, as pure functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import extension
from lab.cluster import patches, ray_settings
from lab.host import jupyter
from lab.host.files import FORKSERVER, HOME_VARIABLE, ROOT
from lab.host.secrets import (
    JUPYTER_FILE,
    RAY_FILE,
    REDIS_FILE,
    REDIS_SETTINGS_FILE,
    ROOT_PASSWORD_FILE,
    ROOT_USER_FILE,
    STORE_FILE,
    Secrets,
)
from lab.host.workspace import workspace
from lab.runtime.local import classroom, hub, prometheus, temporary
from lab.runtime.local.hub import JUPYTER_SETTINGS
from lab.runtime.local.layout import Layout
from lab.runtime.local.processes import FORK_SERVER_OF, MARK
from lab.runtime.ports import LOOPBACK
from lab.services import (
    ALERTMANAGER,
    GATEWAY,
    HEAD,
    HUB,
    JUPYTER,
    METRICS,
    PROMETHEUS,
    PROXY,
    QUEUE,
    REDIS,
    SERVICES,
    STORE,
    WORKER,
    Service,
    is_worker,
)
from lab.topology import BUCKET, FOOD11, LEDGER_PREFIX, OBJECT_STORE_BYTES, REGION, LabSpec, Vendor

FORKS = "fork-server"
"""The fork server's name in the state and the logs. It is no service: nobody uses it from outside."""

LAUNCHER = FORKSERVER / "forkserver" / "launcher.py"

METRICS_PORTS = {
    "AUTOSCALER_METRIC_PORT": "autoscaler-metrics",
    "DASHBOARD_METRIC_PORT": "dashboard-metrics",
}
"""Ray's settings for what else are fixed ports: labs of one host must not show each other's metrics."""

LOOPBACK_DEVICE = "lo0" if sys.platform == "darwin" else "lo"

ON_LOOPBACK = {
    "GLOO_SOCKET_IFNAME": LOOPBACK_DEVICE,
    "TP_SOCKET_IFNAME": LOOPBACK_DEVICE,
    "NCCL_SOCKET_IFNAME": f"={LOOPBACK_DEVICE}",
}
"""Settings that keep what ranks of torch listen on there; for its store see raylab_patches.listeners."""

INHERITED = (
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
)
"""Variables that a service keeps of those `up` was called with; others could change how a lab behaves."""

INHERITED_PREFIXES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "PIP_",
    "HF_",
    "NCCL_",
    "TORCH_HOME",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
)


def import_roots() -> str:
    """PYTHONPATH of every process that uses the cluster."""
    return os.pathsep.join(map(str, extension.probes()))


@dataclass(frozen=True)
class Command:
    """The command that starts a service."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path


@dataclass(frozen=True)
class ServicePlan:
    """Everything that decides how a lab's services are started."""

    spec: LabSpec
    ports: Mapping[str, int]
    layout: Layout
    secrets: Secrets
    store: str
    minio: str = ""
    """Path of the minio binary, when `store` is `minio`."""
    prometheus: str = ""
    """Path of the prometheus binary; empty when there is none."""
    alertmanager: str = ""
    """Likewise."""
    redis: str = ""
    """Path of the redis-server binary, in a lab with `gcs_ft`."""
    memory_bytes: int = 0
    """Memory that each node offers to Ray's scheduler."""
    scratch: Path | None = None
    """TMPDIR of all services; None: that of whoever starts them."""

    @property
    def patches_off(self) -> str:
        """Names of the patches that are off here, with commas. Raises UsageError."""
        return patches.switched_off(self.spec, os.environ)

    @property
    def forked(self) -> bool:
        """True when Ray's processes are forked from a server: on Linux, where there is that patch, and on."""
        on = {patch.name for patch in patches.patches()}.difference(self.patches_off.split(","))
        return sys.platform == "linux" and "forks" in on

    def url(self, port: str) -> str:
        return f"http://{LOOPBACK}:{self.ports[port]}"

    def command(self, service: str) -> Command:
        if service == FORKS:
            return self._fork_server()
        return COMMANDS.get(service, ServicePlan._node)(
            self, {**self._base(), MARK: self.layout.mark(service)}, service
        )

    def _fork_server(self) -> Command:
        """It has the environment of a node but for what tells nodes apart: its forks are given their own.

        It has no MARK either, which its forks would show as theirs.
        """
        environment = {**self._base(), **client_environment(self), **self._node_environment("")}
        environment[FORK_SERVER_OF] = str(self.layout.folder)
        argv = (sys.executable, "-m", "raylab_forks", str(self.layout.forks))
        return Command(argv, environment, self.layout.folder)

    def _base(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in INHERITED or name.upper().startswith(INHERITED_PREFIXES)
        }
        # Jobs start `python` and `ray`: those of this environment.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        kept |= temporary.variables(self.scratch, self.layout.folder)
        return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}

    def _store(self, environment: dict[str, str], _: str) -> Command:
        address = f"{LOOPBACK}:{self.ports['s3']}"
        if self.store == "minio":
            environment.update(
                MINIO_ROOT_USER=self.secrets.root.access_key,
                MINIO_ROOT_PASSWORD=self.secrets.root.secret_key,
                MINIO_BROWSER="off",
            )
            folder = str(self.layout.objects(self.store))
            # Else it would look for certificates in the user's home, and speak TLS where it has some.
            certificates = str(self.layout.folder / "minio-certificates")
            minio = (self.minio, "server", folder, "--address", address, "--certs-dir", certificates)
            return Command((*minio, "--quiet"), environment, self.layout.folder)
        argv = (
            *(sys.executable, "-m", "lab.store.server"),
            *("--host", LOOPBACK, "--port", str(self.ports["s3"])),
            *("--root", str(self.layout.objects(self.store))),
            *("--credentials", str(self.layout.secrets / STORE_FILE)),
            *("--root-user-file", str(self.layout.secrets / ROOT_USER_FILE)),
            *("--root-password-file", str(self.layout.secrets / ROOT_PASSWORD_FILE)),
            *classroom.store_argv(self),
        )
        return Command(argv, environment, ROOT)

    def _prometheus(self, environment: dict[str, str], _: str) -> Command:
        """Its status pages name its folder as PWD does; where there is no /proc it finds out by itself."""
        argv = prometheus.argv(self)
        return Command(argv, {**environment, "PWD": "/proc/self/cwd"}, self.layout.folder)

    def _alertmanager(self, environment: dict[str, str], _: str) -> Command:
        return Command(prometheus.alertmanager_argv(self), environment, self.layout.folder)

    def _redis(self, environment: dict[str, str], _: str) -> Command:
        """The password is in the file, where nobody else can read it."""
        argv = (
            *(self.redis, str(self.layout.secrets / REDIS_SETTINGS_FILE)),
            *("--bind", LOOPBACK, "--port", str(self.ports["redis"])),
            *("--dir", str(self.layout.redis), "--appendonly", "yes", "--save", ""),
        )
        return Command(argv, environment, self.layout.folder)

    def _metrics(self, environment: dict[str, str], _: str) -> Command:
        listen = ("--listen", f"{LOOPBACK}:{self.ports['metrics']}")
        argv = (sys.executable, "-m", "lab.daemons.metrics", *listen, *prometheus.guards(self))
        return Command(argv, {**environment, **client_environment(self)}, ROOT)

    def _queue(self, environment: dict[str, str], _: str) -> Command:
        argv = (
            *(sys.executable, "-m", "lab.daemons.queue"),
            *("--listen", f"{LOOPBACK}:{self.ports['queue']}"),
            *("--folder", str(self.layout.queue)),
        )
        own = {
            "RAYLAB_GPU": self.spec.gpu.vendor.value,
            "RAYLAB_GCS_ADDRESS": f"{LOOPBACK}:{self.ports['gcs']}",
        }
        if self.spec.queued_only:
            own["RAYLAB_QUEUED_ONLY"] = "1"
        return Command(argv, {**environment, **client_environment(self), **own}, ROOT)

    def _jupyter(self, environment: dict[str, str], _: str) -> Command:
        argv = (
            *(sys.executable, "-m", "jupyterlab"),
            f"--ServerApp.ip={LOOPBACK}",
            f"--ServerApp.port={self.ports['jupyter']}",
            f"--ServerApp.root_dir={workspace()}",
        )
        own = self._jupyter_environment(environment["PATH"])
        return Command(argv, {**environment, **client_environment(self), **own}, workspace())

    def _node(self, environment: dict[str, str], service: str) -> Command:
        environment = {**environment, **client_environment(self), **self._node_environment(service)}
        argv = self._node_argv(service)
        if self.forked:
            argv = (argv[0], "-I", "-S", str(LAUNCHER), str(self.layout.forks), "node", *argv)
        return Command(argv, environment, self.layout.folder)

    def _jupyter_environment(self, path: str) -> dict[str, str]:
        return {
            # What each rank prints, in the notebook that waits for it.
            **({} if self.spec.stock_ray else {"RAY_DEDUP_LOGS": "0"}),
            **jupyter.terminals(self.layout.jupyter, path),
            # `from lab import Lab`, and `Lab()` is this lab.
            "PYTHONPATH": os.pathsep.join([import_roots(), str(ROOT)]),
            HOME_VARIABLE: str(self.layout.folder.parent),
            "RAYLAB_NAME": self.spec.name,
            "RAYLAB_RUNTIME": "local",
            "RAYLAB_GPU": self.spec.gpu.vendor.value,
            jupyter.DASHBOARD: self.url("dashboard"),
            jupyter.CLASS_PAGE: classroom.page(self),
            "JUPYTER_TOKEN_FILE": str(self.layout.secrets / JUPYTER_FILE),
            "JUPYTER_CONFIG_PATH": str(JUPYTER_SETTINGS),
            # What the user's other Jupyter is set to, and its extensions, stay out of the lab.
            "JUPYTER_CONFIG_DIR": str(self.layout.jupyter / "config"),
            "JUPYTER_DATA_DIR": str(self.layout.jupyter / "data"),
            # A course's `git stash` in the wrong folder must not reach this checkout.
            "GIT_CEILING_DIRECTORIES": str(ROOT),
        }

    def _node_argv(self, service: str) -> tuple[str, ...]:
        argv = [
            *(sys.executable, "-m", "raylab_patches.ray_start", "start", "--block", "--disable-usage-stats"),
            f"--node-ip-address={LOOPBACK}",
            f"--node-name={service}",
            f"--object-store-memory={OBJECT_STORE_BYTES}",
            # 0 lets the kernel choose: two nodes of one host cannot share Ray's fixed ranges.
            *("--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"),
        ]
        if self.memory_bytes:
            argv.append(f"--memory={self.memory_bytes}")
        if service == HEAD:
            argv += [
                "--head",
                "--num-cpus=0",  # training belongs on the workers
                "--num-gpus=0",
                f"--port={self.ports['gcs']}",
                f"--ray-client-server-port={self.ports['client']}",
                f"--dashboard-host={LOOPBACK}",
                f"--dashboard-port={self.ports['dashboard']}",
                f"--temp-dir={self.layout.ray_temporary}",
            ]
            return tuple(argv)
        gpus = 1 if self.spec.gpu.gpu_of(service) else 0
        argv += [
            f"--address={LOOPBACK}:{self.ports['gcs']}",
            f"--num-cpus={self.spec.cpus_per_worker}",
            f"--num-gpus={gpus}",
            # The nodes of one host share a log folder. The head's monitor reads it all; a second one would
            # print every line of a job twice.
            "--include-log-monitor=False",
        ]
        return tuple(argv)

    def _node_environment(self, service: str) -> dict[str, str]:
        environment = {
            **ray_settings.environment(stock=self.spec.stock_ray),
            "RAYLAB_GPU": self.spec.gpu.vendor.value,
            "RAYLAB_SERVICE_NAME": service,
        }
        if "queue" in self.ports:
            environment["RAYLAB_HEALTH_URL"] = self.url("queue")
        if self.forked:
            environment["RAYLAB_FORK_FOLDER"] = str(self.layout.forks)
            environment["RAYLAB_FIRST"] = "raylab_forks"
            environment["RAYLAB_FORK_LEARNT"] = str(self.layout.folder / "imports.json")
        flags = {"RAYLAB_CLASS": self.spec.classroom, "RAYLAB_GPU_SHARED": self.spec.gpu.shared}
        environment |= {name: "1" for name, on in flags.items() if on}
        if self.spec.gcs_ft and service == HEAD:
            environment["RAY_REDIS_ADDRESS"] = f"{LOOPBACK}:{self.ports['redis']}"
            environment["RAY_external_storage_namespace"] = self.spec.name
        if self.spec.gcs_ft:  # only the head reads it; the others say by it that the patch is on
            environment["RAYLAB_REDIS_PASSWORD_FILE"] = str(self.layout.secrets / REDIS_FILE)
        ports = self.ports
        environment |= {name: str(ports[port]) for name, port in METRICS_PORTS.items() if port in ports}
        if self.prometheus:
            environment["RAY_PROMETHEUS_HOST"] = self.url("prometheus")
            environment["RAY_PROMETHEUS_NAME"] = "Prometheus"
        assignment = self.spec.gpu.gpu_of(service) if is_worker(service) else None
        if self.spec.gpu.vendor is Vendor.NVIDIA:
            environment["CUDA_VISIBLE_DEVICES"] = assignment.gpu if assignment else ""
        elif self.spec.gpu.vendor is Vendor.AMD:
            environment["HIP_VISIBLE_DEVICES"] = assignment.gpu if assignment else ""
        return environment


COMMANDS: Mapping[str, Callable[[ServicePlan, dict[str, str], str], Command]] = {
    STORE: ServicePlan._store,
    REDIS: ServicePlan._redis,
    PROMETHEUS: ServicePlan._prometheus,
    ALERTMANAGER: ServicePlan._alertmanager,
    METRICS: ServicePlan._metrics,
    QUEUE: ServicePlan._queue,
    GATEWAY: lambda plan, base, _: Command(classroom.argv(plan), {**base, **classroom.variables(plan)}, ROOT),
    PROXY: lambda plan, base, _: Command(classroom.proxy_argv(plan), classroom.proxy_base(plan, base), ROOT),
    HUB: lambda plan, base, _: Command(hub.argv(), {**base, **hub.variables(plan)}, plan.layout.folder),
    JUPYTER: ServicePlan._jupyter,
}
"""Service -> its command, given the environment that every process of the lab has; any other is a node."""

PACKAGES: Mapping[str, str] = {JUPYTER: "jupyter", PROXY: "proxy", HUB: "hub"}
"""Service -> the group of packages that it needs beyond `local`. No training needs such a service."""


def startable(service: Service) -> bool:
    """True when this runtime has a way to start the service."""
    return service.is_node or service.name in COMMANDS


def services_of(spec: LabSpec, ports: Mapping[str, int]) -> tuple[str, ...]:
    """The services of a lab with these ports, in the order of starting, its nodes last."""

    def has(service: Service) -> bool:
        chosen = not service.ports or service.ports[0].name in ports
        return startable(service) and chosen and spec.has(service)

    present = [service for service in SERVICES if has(service) and service.name != WORKER]
    return (
        *(service.name for service in sorted(present, key=lambda service: service.is_node)),
        *spec.worker_services,
    )


def client_environment(plan: ServicePlan) -> dict[str, str]:
    """Variables for a process that uses the cluster and the store: a node, Jupyter, a person's shell."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(plan.layout.secrets / RAY_FILE),
        "RAY_ADDRESS": f"{LOOPBACK}:{plan.ports['gcs']}",
        "RAY_API_SERVER_ADDRESS": plan.url("dashboard"),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # see raylab_patches.ray_start: Ray stays on loopback
        **ON_LOOPBACK,
        patches.CALLBACKS_VARIABLE: patches.callbacks(),
        patches.OFF_VARIABLE: plan.patches_off,
        patches.UNFIT_VARIABLE: ",".join(patches.unfit()),
        "RAYLAB_LEDGER": f"s3://{BUCKET}/{LEDGER_PREFIX}",
        "RAYLAB_DATA": str(plan.layout.data),
        "FOOD11_DATA_DIR": str(plan.layout.data / FOOD11),
        "PYTHONPATH": import_roots(),
        "AWS_ENDPOINT_URL": plan.url("s3"),
        "AWS_ACCESS_KEY_ID": plan.secrets.store.access_key,
        "AWS_SECRET_ACCESS_KEY": plan.secrets.store.secret_key,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
