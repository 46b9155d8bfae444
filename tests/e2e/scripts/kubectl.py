"""A cluster's stand-in: kubectl whose pods are the nodes of a local lab, and whose `delete pod` kills one.

Its folder ($FAKE_CLUSTER) has pods.json with the names, and gets calls.jsonl with every command line. A pod
that was deleted is replaced at once by one of another name, as KubeRay does it; the node itself stays down.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["FAKE_CLUSTER"])
PODS = FOLDER / "pods.json"


def row(name: str) -> dict[str, Any]:
    """A pod as the API server shows it."""
    kind = "head" if name.startswith("ray-head") else "worker"
    return {
        "metadata": {
            "name": name,
            "labels": {"ray.io/cluster": "raylab", "ray.io/group": kind, "ray.io/node-type": kind},
        },
        "spec": {"nodeName": f"machine-of-{name}"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def refuse(said: str) -> None:
    """End as kubectl does."""
    sys.exit(f"Error from server {said}")


def delete(names: list[str], name: str) -> None:
    """Kill the node; another pod takes the place of this one."""
    from lab import Lab

    PODS.write_text(json.dumps([f"{known}-again" if known == name else known for known in names]))
    os.environ["RAYLAB_HOME"] = os.environ["FAKE_CLUSTER_HOME"]
    Lab("local", name=os.environ["FAKE_CLUSTER_LAB"]).runtime.kill(name)


def main() -> None:
    """Answer one call."""
    with (FOLDER / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(sys.argv[1:]) + "\n")
    if sys.argv[1:3] != ["--context", "school"]:
        sys.exit(f'error: context "{sys.argv[2]}" does not exist')
    words = [word for word in sys.argv[3:] if not word.startswith("--")]
    names = json.loads(PODS.read_text())
    match words:
        case ["get", "pods", "ray.io/cluster"]:
            print(json.dumps({"items": [row(name) for name in names]}))
        case ["get", "pod", name]:
            print(json.dumps(row(name))) if name in names else refuse(f'(NotFound): pods "{name}" not found')
        case ["auth", "can-i", "delete", "pods"]:
            print("yes")
        case ["delete", "pod", name]:
            delete(names, name) if name in names else refuse(f'(NotFound): pods "{name}" not found')
        case _:
            sys.exit(f"error: unknown command {words}")


main()
