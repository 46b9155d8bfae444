"""kubectl: the only access to a cluster. Only verbs that a fault needs, and answers as JSON."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lab.errors import KubernetesError, LabError, NotFoundError
from lab.ext.kubernetes.manifests import items, mapping, text
from lab.host import command
from lab.host.reading import parse_json

ANSWER_SECONDS = 30.0
"""Deadline of one call; kubectl itself gives up on the API server before that."""
REQUEST_SECONDS = 20
SHOWN = 200
"""Characters of what kubectl says that an error shows."""

CLUSTER, GROUP, TYPE = "ray.io/cluster", "ray.io/group", "ray.io/node-type"
"""Labels that KubeRay gives to its pods."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Pod:
    """A pod of a cluster of Ray."""

    name: str
    machine: str
    """The node of Kubernetes that it runs on; empty before it was placed."""
    phase: str
    ready: bool
    """False too for one that is being deleted."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> tuple[str, str]:
        """Cluster and group of the pod, as KubeRay names them."""
        return self.labels.get(CLUSTER, ""), self.labels.get(GROUP, "")


class Kubectl:
    """One context of kubectl, and a namespace; empty: the context's own."""

    def __init__(self, context: str, namespace: str = "", *, run: Run = command.run) -> None:
        self.context, self.namespace, self._run = context, namespace, run

    def pods(self) -> tuple[Pod, ...]:
        """Every pod of Ray's clusters in the namespace."""
        listed = self._json("get", "pods", "--selector", CLUSTER)
        return tuple(_pod(mapping(item)) for item in items(listed.get("items")))

    def pod(self, name: str) -> Pod:
        """One pod. Raises NotFoundError."""
        return _pod(self._json("get", "pod", name))

    def refuse_without_rights(self, verb: str, what: str) -> None:
        """Refuse what the API server would not let this person do. Raises KubernetesError."""
        done = self._call("auth", "can-i", verb, what)
        answer = done.stdout.strip().splitlines()
        if answer and answer[-1].split()[0] == "no":
            raise self._forbidden(f"{verb} {what}")
        if done.returncode:
            raise self._refusal(("auth", "can-i", verb, what), done.stderr or done.stdout)

    def delete(self, pod: str, *, grace_seconds: float) -> None:
        """Delete a pod; 0 seconds: at once, without a grace period. Does not wait for its end."""
        forced = ("--force",) if grace_seconds <= 0 else ()
        grace = f"--grace-period={math.ceil(max(0.0, grace_seconds))}"
        self._ask("delete", "pod", pod, grace, *forced, "--wait=false")

    def unschedulable(self, machine: str) -> bool:
        """True for a machine that takes no new pods."""
        return mapping(self._json("get", "node", machine).get("spec")).get("unschedulable") is True

    def cordon(self, machine: str) -> None:
        self._ask("cordon", machine)

    def uncordon(self, machine: str) -> None:
        self._ask("uncordon", machine)

    def _json(self, *words: str) -> Mapping[str, object]:
        said = self._ask(*words, "--output=json")
        try:
            document = parse_json(said.encode())
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise KubernetesError(f"kubectl {' '.join(words)}: its answer is not JSON: {said[:SHOWN]!r}")
        return document

    def _ask(self, *words: str) -> str:
        done = self._call(*words)
        if done.returncode:
            raise self._refusal(words, done.stderr or done.stdout)
        return done.stdout

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        space = ("--namespace", self.namespace) if self.namespace else ()
        argv = ("kubectl", "--context", self.context, *space, f"--request-timeout={REQUEST_SECONDS}s", *words)
        try:
            return self._run(argv, timeout=ANSWER_SECONDS)
        except FileNotFoundError as error:
            raise KubernetesError(
                "kubectl is not on PATH", "install it, and try: kubectl config get-contexts"
            ) from error
        except OSError as error:
            raise KubernetesError(f"kubectl cannot be run: {error.strerror}", "which kubectl") from error
        except subprocess.TimeoutExpired as error:
            raise KubernetesError(
                f"kubectl {words[0]} did not answer for {ANSWER_SECONDS:g} s: it may have been done or not",
                f"kubectl --context {self.context} get pods",
            ) from error

    def _refusal(self, words: tuple[str, ...], said: str) -> LabError:
        """The error for what kubectl refused, in its own words where they are not known."""
        said = " ".join(said.split())[:SHOWN] or "no reason given"
        if re.search(r"context .*(does not exist|not found)", said):
            message, hint = f"--context {self.context}: kubectl knows no such context", "config get-contexts"
        elif "(Forbidden)" in said:
            return self._forbidden(" ".join(words[:2]))
        elif machine := re.search(r'\(NotFound\).*nodes "(\S+)" not found', said):
            message, hint = f"context {self.context} has no node {machine[1]}", "get nodes"
        elif "(NotFound)" in said:
            where = f"namespace {self.namespace}" if self.namespace else f"context {self.context}"
            message, hint = f"{where} has no {' '.join(words[1:3])}", f"get pods --selector {CLUSTER}"
        else:
            return KubernetesError(
                f"kubectl {' '.join(words[:3])}: {said}",
                "see whether it can be reached: kubectl cluster-info",
            )
        return NotFoundError(message, f"what is there: kubectl {hint}")

    def _forbidden(self, what: str) -> KubernetesError:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return KubernetesError(
            f"context {self.context} has no right to {what}{where}",
            "ask whoever runs the cluster; what is allowed: kubectl auth can-i --list",
        )


def _pod(row: Mapping[str, object]) -> Pod:
    metadata, status = mapping(row.get("metadata")), mapping(row.get("status"))
    conditions = [mapping(condition) for condition in items(status.get("conditions"))]
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return Pod(
        name=text(metadata.get("name")),
        machine=text(mapping(row.get("spec")).get("nodeName")),
        phase=text(status.get("phase")) or "Unknown",
        ready=ready and not metadata.get("deletionTimestamp"),
        labels={name: text(value) for name, value in mapping(metadata.get("labels")).items()},
    )
