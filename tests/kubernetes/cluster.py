"""A cluster of Kubernetes on loopback: its own servers, Kueue, KubeRay and AppWrapper, built by Go.

Machines and what runs in pods are played by kwok; everything else is what a cluster has.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kueue.model import AdmissionFairSharing, Config, Setup, WaitForPodsReady
from lab.ext.kubernetes.export.queues import configuration
from tests.golang import go_build, go_source
from tests.programs import free_port
from tests.waiting import end_process, eventually

MODULE = Path(__file__).parent
VERSION = "v1.36.2"
"""Of Kubernetes, as go.mod has it."""
STAMP = "-X k8s.io/component-base/version."
FLAGS = ("-ldflags", f"-s -w {STAMP}gitVersion={VERSION} {STAMP}gitMinor=36")
BUILD_SECONDS = 3600.0
START_SECONDS, ASK_SECONDS, END_SECONDS = 300.0, 300.0, 30.0
LOG_LINES = 15

ADMIN, STUDENT = "school", "student"
"""Contexts of kubectl: who may do everything, and who may read pods."""

MACHINE = {"cpu": "4096", "memory": "16Ti", "pods": "1000", "nvidia.com/gpu": "64", "amd.com/gpu": "64"}
MACHINES = ("machine-0", "machine-1", "machine-2")
NVIDIA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
CONTROLLERS = (
    "namespace-controller",
    "serviceaccount-controller",
    "garbage-collector-controller",
    "resourcequota-controller",
    "job-controller",
    "statefulset-controller",
)
"""Those of Kubernetes that a cluster of Ray needs."""
KUEUE, WEBHOOKS, CERTIFICATE = "kueue-system", "kueue-webhook-service", "kueue-webhook-server-cert"
"""Namespace of Kueue, the service by which the API server asks it, and the Secret with its certificate."""
LEFT_OUT = {"Deployment", "APIService"}
"""Kinds of Kueue's installation: its manager runs here as a process."""
SETTINGS = Config(
    strategies=("LessThanOrEqualToFinalShare", "LessThanInitialShare"),
    pods_ready=WaitForPodsReady(timeout=3600.0, recovery_timeout=1800.0, backoff_limit=3),
    admission_fair_sharing=AdmissionFairSharing(3600.0, weights={"cpu": 2.0}),
    keep_finished=7 * 24 * 3600.0,
)
"""Kueue's own, as the export writes them into `kueue/`: Kueue ends where it does not understand one."""
STAGES = ("node/fast", "pod/fast", "volume/fast")
"""What kwok plays."""

Object = dict[str, Any]


class Cluster:
    """The processes, for as long as the block lasts."""

    def __init__(self, folder: Path) -> None:
        """Build what is not built; nothing is started. Skips the test where that cannot be done."""
        self.folder = folder
        self.programs = go_build(
            MODULE, "kubernetes/", *FLAGS, "tool", "./ray-operator", timeout=BUILD_SECONDS
        )
        self.config = folder / "kubeconfig"
        self._source = {
            name: go_source(MODULE, path)
            for name, path in {
                "kueue": "sigs.k8s.io/kueue",
                "kuberay": "github.com/ray-project/kuberay/ray-operator",
                "kwok": "sigs.k8s.io/kwok",
                "appwrapper": "github.com/project-codeflare/appwrapper",
            }.items()
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Cluster:
        """Start all of it."""
        try:
            self._start_kubernetes()
            self._install()
            self._start_operators()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, the API server and its store last."""
        for process in reversed(self._running.values()):
            end_process(process, END_SECONDS)

    @property
    def environment(self) -> dict[str, str]:
        """That of a shell which has kubectl and its contexts."""
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.config)}

    def kubectl(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Type `kubectl WORDS`, with `given` on its stdin."""
        return subprocess.run(
            (str(self.programs / "kubectl"), *words),
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=False,
        )

    def done(self, *words: str, given: str = "") -> str:
        """What kubectl prints; it must succeed."""
        ended = self.kubectl(*words, given=given)
        assert ended.returncode == 0, f"kubectl {' '.join(words)}: {ended.stderr}"
        return ended.stdout

    def apply(self, objects: Sequence[Object]) -> subprocess.CompletedProcess[str]:
        """Apply objects as the docs say."""
        return self.kubectl("apply", "--server-side", "-f", "-", given=as_list(objects))

    def objects(self, kind: str, namespace: str = "") -> list[Object]:
        """All of a kind, in one namespace or anywhere."""
        where = ("-n", namespace) if namespace else ("-A",)
        items: list[Object] = json.loads(self.done("get", kind, *where, "-o", "json"))["items"]
        return items

    # Starting

    def _run(self, name: str, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        """Start one of the programs, whose log is NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                (str(self.programs / name), *flags),
                env={**self.environment, **(environment or {})},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _start_kubernetes(self) -> None:
        etcd, peers, port = (free_port() for _ in range(3))
        peer = f"http://127.0.0.1:{peers}"
        self._run(
            "server",  # etcd, by the name of its package
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )
        key, tokens = self.folder / "accounts.key", self.folder / "tokens.csv"
        key.write_bytes(private_key())
        tokens.write_text(f"{ADMIN},{ADMIN},1,system:masters\n{STUDENT},{STUDENT},2\n")
        self.config.write_text(json.dumps(kubeconfig(f"https://127.0.0.1:{port}")))
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=TaintNodesByCondition",  # no controller here takes the taint away
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
        )
        self._await("the API server is ready", lambda: self.done("get", "--raw", "/readyz"))
        common = (f"--kubeconfig={self.config}", "--leader-elect=false", "--secure-port=0")
        self._run("kube-controller-manager", *common, f"--controllers={','.join(CONTROLLERS)}")
        self._run("kube-scheduler", *common)

    def _install(self) -> None:
        """Definitions of all kinds, Kueue's webhooks, the right to read pods, and the machines."""
        self._port = free_port()
        kueue, kuberay, kwok, wrapper = (self._source[n] for n in ("kueue", "kuberay", "kwok", "appwrapper"))
        objects = [on_loopback(manifest, self._port) for manifest in self._made(kueue / "config" / "default")]
        objects += self._made(kuberay / "config" / "crd") + self._made(wrapper / "config" / "crd")
        objects += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUEUE}}]
        objects.sort(key=lambda manifest: manifest["kind"] not in {"Namespace", "CustomResourceDefinition"})
        objects = [manifest for manifest in objects if manifest["kind"] not in LEFT_OUT]
        objects += [machine(name) for name in MACHINES]
        stages = [
            manifest for stage in STAGES for manifest in self._made(kwok / "kustomize" / "stage" / stage)
        ]
        objects += [stage for stage in stages if stage["kind"] == "StorageClass"]
        objects += [NVIDIA]
        ended = self.apply(objects)
        assert ended.returncode == 0, ended.stderr
        self.done("create", "clusterrole", "reader", "--verb=get,list", "--resource=pods")
        self.done("create", "clusterrolebinding", "reader", "--clusterrole=reader", f"--user={STUDENT}")
        played = yaml.safe_dump_all([stage for stage in stages if stage["kind"] == "Stage"])
        (self.folder / "stages.yaml").write_text(played)

    def _start_operators(self) -> None:
        here = [f"127.0.0.1:{free_port()}" for _ in range(6)]
        self._run(
            "kwok",
            f"--config={self.folder / 'stages.yaml'}",
            f"--kubeconfig={self.config}",
            "--manage-all-nodes",
            f"--server-address={here[0]}",
        )
        self._run("kueue", f"--config={self._kueue_settings(here[1], here[2])}")
        addresses = (f"--metrics-addr={here[3]}", f"--health-probe-bind-address={here[4]}")
        self._run("ray-operator", *addresses, "--enable-leader-election=false")
        self._await("Kueue has a certificate", self._certified)
        self._await("Kueue answers the API server", self._judged)
        settings = {
            "webhooksEnabled": False,
            "appwrapper": {"userRBACAdmissionCheck": False},
            "controllerManager": {
                "health": {"bindAddress": here[5]},
                "metrics": {"bindAddress": "0"},
                "leaderElection": False,
            },
        }
        text = json.dumps(settings)
        self.done("-n", KUEUE, "create", "configmap", "appwrapper", f"--from-literal=config.yaml={text}")
        self._run("cmd", "--config=appwrapper", environment={"NAMESPACE": KUEUE})  # AppWrapper's operator

    def _kueue_settings(self, health: str, metrics: str) -> Path:
        """Those that Kueue comes with, on loopback, under those that the export writes."""
        (written,) = configuration(Setup(config=SETTINGS))
        shipped = (
            self._source["kueue"] / "config" / "components" / "manager" / "controller_manager_config.yaml"
        )
        settings = yaml.safe_load(shipped.read_text()) | written
        settings |= {
            "health": {"healthProbeBindAddress": health},
            "metrics": {"bindAddress": metrics},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self.folder)},
            "leaderElection": {"leaderElect": False},
            "featureGates": {"VisibilityOnDemand": False},
        }
        path = self.folder / "kueue.yaml"
        path.write_text(yaml.safe_dump(settings))
        return path

    def _certified(self) -> bool:
        """Put Kueue's certificate where a kubelet would mount it; false before Kueue has made one."""
        secret = json.loads(self.done("-n", KUEUE, "get", "secret", CERTIFICATE, "-o", "json"))
        files = secret.get("data") or {}
        for name, content in files.items():
            (self.folder / name).write_bytes(base64.b64decode(content))
        return "tls.crt" in files

    def _judged(self) -> bool:
        """Whether Kueue's webhooks are asked about an object, and answer."""
        flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "x"}}
        return self.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(flavor)).returncode == 0

    def _made(self, folder: Path) -> list[Object]:
        """What a kustomization makes."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return list(yaml.load_all(self.done("kustomize", str(folder)), loader))

    def _await(self, what: str, condition: Any) -> None:
        """Wait for the servers; one that ended fails the test with the end of its log."""

        def settled() -> bool:
            return bool(self.ended()) or bool(condition())

        eventually(settled, START_SECONDS, what)
        assert not self.ended(), self.ended()

    def ended(self) -> str:
        """The last lines of the logs of programs that ended, though they should go on."""
        lines = []
        for name, process in self._running.items():
            if process.poll() is not None:
                log = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
                lines += [f"{name} ended with {process.returncode}:", *log[-LOG_LINES:]]
        return "\n".join(lines)


def as_list(objects: Sequence[Object]) -> str:
    """Objects as one text for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def kubeconfig(server: str) -> Object:
    """Contexts for both people, each with its name as token."""
    people = (ADMIN, STUDENT)
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": name, "user": {"token": name}} for name in people],
        "contexts": [{"name": name, "context": {"cluster": "here", "user": name}} for name in people],
        "current-context": ADMIN,
    }


def private_key() -> bytes:
    """A key for tokens of service accounts."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def machine(name: str) -> Object:
    """A node, with more than any lab needs."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": MACHINE, "capacity": MACHINE},
    }


def on_loopback(given: Object, port: int) -> Object:
    """An object of Kueue's installation, so that the API server asks a process of this machine.

    A service of type ExternalName is the one that the API server reaches without a network of pods.
    """
    if given["kind"] == "Service" and given["metadata"]["name"] == WEBHOOKS:
        return {**given, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    hooks = [hook["clientConfig"] for hook in given.get("webhooks", ())]
    conversion = given.get("spec", {}).get("conversion", {}).get("webhook")
    for client in [*hooks, *([conversion["clientConfig"]] if conversion else [])]:
        client["service"]["port"] = port
    return given
