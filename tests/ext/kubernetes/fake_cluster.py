"""A cluster in memory behind the arguments of kubectl."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any


class FakeCluster:
    """Pods by name, each on a machine of its own; the operator makes another one of each that is deleted."""

    def __init__(self, *workers: str, on_delete: Callable[[str], object] = lambda _: None) -> None:
        self.pods = {"head-1": "head", **dict.fromkeys(workers, "worker")}
        self.unschedulable: set[str] = set()
        self.forbidden: set[str] = set()
        """Verbs that this person has no right to."""
        self.on_delete = on_delete
        self.replaces = True
        self.calls: list[tuple[str, ...]] = []
        self.fails: BaseException | None = None

    def run(self, argv: Sequence[str], *, timeout: float) -> subprocess.CompletedProcess[str]:
        """Answer one command line."""
        assert timeout > 0
        self.calls.append(tuple(argv))
        if self.fails is not None:
            raise self.fails
        assert argv[:2] == ("kubectl", "--context")
        if argv[2] != "school":
            return self._end(argv, f'error: context "{argv[2]}" does not exist', 1)
        words = [word for word in argv[3:] if not word.startswith("--")]
        words = words[1:] if "--namespace" in argv else words
        return self._answer(argv, words)

    def said(self) -> list[str]:
        """Calls without what all have in common."""
        return [" ".join(call[call.index("--request-timeout=20s") + 1 :]) for call in self.calls]

    def _answer(self, argv: Sequence[str], words: list[str]) -> subprocess.CompletedProcess[str]:
        match words:
            case [verb, *_] if verb in self.forbidden:
                return self._end(argv, f'Error from server (Forbidden): cannot {verb}: User "x"', 1)
            case ["get", "pods", _]:
                return self._json(argv, {"items": [self._pod(name) for name in self.pods]})
            case ["get", "pod", name] if name in self.pods:
                return self._json(argv, self._pod(name))
            case ["get", "node", name] if name.startswith("machine-"):
                return self._json(argv, {"spec": {"unschedulable": name in self.unschedulable}})
            case ["auth", "can-i", verb, _]:
                return self._end(
                    argv, "", int(verb in self.forbidden), "no\n" if verb in self.forbidden else "yes\n"
                )
            case ["delete", "pod", name] if name in self.pods:
                kind = self.pods.pop(name)
                if self.replaces:
                    self.pods[f"{name}-again"] = kind
                self.on_delete(name)
                return self._end(argv)
            case ["cordon", name] if name.startswith("machine-"):
                self.unschedulable.add(name)
                return self._end(argv)
            case ["uncordon", name]:
                self.unschedulable.discard(name)
                return self._end(argv)
            case ["cordon", name] | ["get", "node", name]:
                return self._end(argv, f'Error from server (NotFound): nodes "{name}" not found', 1)
            case [_, kind, name]:
                return self._end(argv, f'Error from server (NotFound): {kind}s "{name}" not found', 1)
        return self._end(argv, "Unable to connect to the server: dial tcp: no route to host", 1)

    def _pod(self, name: str) -> dict[str, Any]:
        kind = self.pods[name]
        labels = {"ray.io/cluster": "c", "ray.io/group": kind, "ray.io/node-type": kind}
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": f"machine-{name}"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }

    def _json(self, argv: Sequence[str], value: Any) -> subprocess.CompletedProcess[str]:
        return self._end(argv, out=json.dumps(value))

    def _end(
        self, argv: Sequence[str], err: str = "", code: int = 0, out: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(list(argv), code, out, err)
