"""--runtime kubernetes: pods of a cluster that KubeRay runs, to be broken and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from lab.errors import LabDownError, NotFoundError, RefusedError, WaitTimeoutError
from lab.evidence.receipt.model import Source
from lab.ext.kubernetes.kubectl import CLUSTER, TYPE, Kubectl, Pod
from lab.host.clock import MONOTONIC, WALL, Clock, settle
from lab.host.files import home
from lab.host.quantities import plural
from lab.runtime.base import Feature, NodeControl, OnProgress, ignore_progress
from lab.runtime.outside import NO_RAY, OutsideView
from lab.topology import GpuPlan, LabSpec, LabStatus, ServiceStatus, State, Struck, Vendor

FOLDER = ".clusters"
"""Folder in `home()` with the notes of faults that last in clusters."""
BACK_SECONDS = 300.0
"""Deadline for the operator to bring a pod back: a machine may have to fetch an image."""
LOOK_SECONDS = 2.0


class KubernetesControl(OutsideView, NodeControl):
    """Pods of one context and namespace; a service is a pod of Ray's."""

    kind = "kubernetes"
    not_asked: Mapping[Source, str] = {Source.JOBS: NO_RAY, Source.NODES: NO_RAY}

    def __init__(self, kubectl: Kubectl, *, clock: Clock = MONOTONIC, wall: Clock = WALL) -> None:
        super().__init__("/".join(filter(None, (kubectl.context, kubectl.namespace))))
        self._kubectl, self._clock, self._wall = kubectl, clock, wall
        self._cluster = ""
        """Cluster of the pod that was broken, once there is one: the others are not of interest."""
        self._before: tuple[Pod, ...] = ()
        """All pods, as they were before one was broken."""

    def status(self) -> LabStatus:
        """Pods and their state. Raises KubernetesError."""
        pods = [p for p in self._kubectl.pods() if self._cluster in ("", p.labels.get(CLUSTER))]
        services = tuple(
            ServiceStatus(pod.name, State.HEALTHY)
            if pod.ready
            else ServiceStatus(pod.name, State.STARTING, f"the pod is {pod.phase} and not ready")
            for pod in pods
        )
        return LabStatus(self.lab, self.kind, up=bool(pods), services=services, gpu=GpuPlan(Vendor.NONE))

    def spec(self) -> LabSpec:
        """Refuse: nobody knows the settings. Raises LabDownError without pods, else UnsupportedError."""
        if not self._kubectl.pods():
            raise LabDownError(
                f"{self.lab} has no pod of a cluster of Ray", f"kubectl get pods --selector {CLUSTER}"
            )
        return super().spec()

    def folder(self) -> Path:
        return home() / FOLDER / re.sub(r"[^A-Za-z0-9.-]+", "_", self.lab)

    def missing(self, feature: Feature) -> str:
        """The reason why pods lack a feature. Raises KubernetesError without the rights for it."""
        if feature is Feature.CORDON:
            self._kubectl.refuse_without_rights("patch", "nodes")
            return ""
        if feature is Feature.PROCESSES:
            return "labctl does to pods only what kubectl can: end them, and cordon their machines"
        return f"labctl cannot give pods a {feature.value}"

    def is_worker(self, service: str) -> bool:
        return self._kubectl.pod(service).labels.get(TYPE) == "worker"

    def kill(self, service: str) -> Struck:
        """Delete the pod at once, with a grace period of 0 seconds."""
        return self._delete(service, 0.0)

    def stop(self, service: str, *, timeout: float = 10.0) -> Struck:
        """Delete the pod, which has `timeout` seconds to end."""
        return self._delete(service, timeout)

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """Wait until the operator has made as many pods ready again as the group of this one had.

        It makes another pod, of another name, by itself. Raises WaitTimeoutError, KubernetesError.
        """
        group = next((pod.group for pod in self._before if pod.name == service), None)
        if group is None or not wait:
            return

        def ready(pods: tuple[Pod, ...]) -> int:
            return sum(pod.ready and pod.group == group for pod in pods)

        wanted = ready(self._before)
        count = settle(
            lambda: ready(self._kubectl.pods()), lambda n: n >= wanted,
            timeout=BACK_SECONDS, clock=self._clock, every=LOOK_SECONDS,
        )  # fmt: skip
        if count < wanted:
            raise WaitTimeoutError(
                f"group {group[1]} of {group[0]} has {plural(count, 'ready pod')} after "
                f"{BACK_SECONDS:g} s, and had {wanted}",
                "kubectl describe pods says what they wait for",
            )

    def undone(self, service: str) -> str:
        return f"the group of {service} has as many ready pods as before"

    def machine(self, service: str) -> str:
        pod = self._kubectl.pod(service)
        if not pod.machine:
            raise RefusedError(f"pod {service} runs on no machine yet", "wait until it is Running")
        if self._kubectl.unschedulable(pod.machine):
            raise RefusedError(
                f"machine {pod.machine} of pod {service} is cordoned already",
                "it is left to whoever did that; choose a pod elsewhere",
            )
        return pod.machine

    def cordon(self, machine: str) -> None:
        self._kubectl.cordon(machine)

    def uncordon(self, machine: str) -> None:
        self._kubectl.uncordon(machine)

    def _delete(self, service: str, grace_seconds: float) -> Struck:
        pods = self._kubectl.pods()
        pod = next((candidate for candidate in pods if candidate.name == service), None)
        if pod is None:
            raise NotFoundError(
                f"{self.lab} has no pod {service} of Ray's",
                f"there are: {', '.join(candidate.name for candidate in pods) or 'none'}",
            )
        self._kubectl.refuse_without_rights("delete", "pods")
        self._cluster, self._before = pod.group[0], pods
        first = self._wall()
        self._kubectl.delete(service, grace_seconds=grace_seconds)
        return Struck(first, self._wall())
