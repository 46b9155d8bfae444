"""The lab for SkyPilot: a task whose nodes become one cluster of Ray, with recorder and code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.cluster import patches, ray_settings
from lab.errors import UsageError
from lab.flows.kubernetes.clusters import RAY_VERSION
from lab.flows.kubernetes.export.configmaps import probe_files
from lab.flows.kubernetes.export.pods import STOCK_ON_A_NETWORK
from lab.flows.kubernetes.export.wanted import JOB_FOLDER, Wanted
from lab.flows.kubernetes.export.yaml_text import as_yaml
from lab.host.files import ROOT
from lab.topology import LEDGER_PREFIX

ACCELERATOR = re.compile(r"[A-Za-z][A-Za-z0-9._-]*(:[1-9]\d?)?")
INFRA = re.compile(r"[a-z0-9]+(/[A-Za-z0-9._*-]+){0,2}")
PLACES = "such as k8s/CONTEXT, ssh/POOL or aws/REGION"
PORT = 6399
"""Port of the lab's own Ray: SkyPilot has another one on the usual port."""
SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN")
JOIN_SECONDS = 600
REQUIREMENTS = ("cli", "local")
"""Groups of packages that a node gets, pinned."""

SETUP = """set -eu
python3 -m venv ~/raylab
~/raylab/bin/pip install --quiet -r requirements.txt
"""

RUN = """#!/bin/bash
# On every node: the first one has Ray's head, the others join it. Nothing here says `ray stop`, which would
# end SkyPilot's own Ray too.
set -eu
: "${RAY_AUTH_TOKEN:?set it to a random text, as README.md does}"
export PATH="$HOME/raylab/bin:$PATH" PYTHONPATH="$PWD/probe:$PWD/job"
export RAYLAB_SERVICE_NAME="ray-worker-$SKYPILOT_NODE_RANK"
head=$(printf '%s\\n' "$SKYPILOT_NODE_IPS" | head -n 1)
common="--num-cpus=CPUS --num-gpus=GPUS --disable-usage-stats --block"
if [ "$SKYPILOT_NODE_RANK" != 0 ]; then
    until ray health-check --address "$head:PORT"; do sleep 2; done
    ray start --address="$head:PORT" $common || true # it ends with the head
    exit 0
fi
ray start --head --port=PORT --dashboard-host=127.0.0.1 $common &
trap 'kill %1; wait' EXIT
export RAY_ADDRESS="$head:PORT"
until ray health-check --address "$RAY_ADDRESS"; do sleep 2; done
python - <<'END' # every node has joined, or the task fails
import time, ray
ray.init(log_to_driver=False)
deadline = time.monotonic() + JOIN
while sum(node["Alive"] for node in ray.nodes()) < NODES:
    assert time.monotonic() < deadline, "nodes are missing"
    time.sleep(1)
END
JOB
"""


@dataclass(frozen=True)
class Sky:
    """Settings that only SkyPilot has. Raises UsageError."""

    accelerator: str = ""
    """Such as `H100:1`; empty without GPUs."""
    infra: str = ""
    """Such as `k8s/CONTEXT`, `ssh/POOL` or `aws/REGION`; empty: SkyPilot chooses."""

    def __post_init__(self) -> None:
        if self.accelerator and not ACCELERATOR.fullmatch(self.accelerator):
            raise UsageError(
                f"--accelerator {self.accelerator!r}: not an accelerator", "such as H100:1 or L4"
            )
        if self.infra and not INFRA.fullmatch(self.infra):
            raise UsageError(
                f"--infra {self.infra!r}: not a place", "such as k8s/CONTEXT, ssh/POOL or aws/REGION"
            )


def skypilot(wanted: Wanted, sky: Sky) -> dict[str, bytes]:
    """Files of a folder for `sky launch task.yaml`: path -> content."""
    code = wanted.code
    files = {f"probe/{path}": content for path, content in probe_files().items()}
    files |= {f"job/{path}": content for path, content in (code.files if code else {}).items()}
    pins: dict[str, None] = {}
    for group in REQUIREMENTS:
        pins |= dict.fromkeys((ROOT / "requirements" / f"{group}.txt").read_text().splitlines())
    return {
        "task.yaml": as_yaml([task(wanted, sky)]).encode(),
        "run.sh": script(wanted, sky).encode(),
        "requirements.txt": "".join(f"{line}\n" for line in pins).encode(),
        "README.md": readme(wanted, sky).encode(),
        **files,
    }


def task(wanted: Wanted, sky: Sky) -> dict[str, Any]:
    """The task as SkyPilot reads it."""
    spec = wanted.spec
    resources: dict[str, Any] = {
        **({"infra": sky.infra} if sky.infra else {}),
        "cpus": f"{spec.cpus_per_worker}+",
        "memory": f"{-(-wanted.worker_memory // 1024**3)}+",
        **({"accelerators": sky.accelerator} if sky.accelerator else {}),
    }
    return {
        "name": spec.name,
        "workdir": ".",
        "num_nodes": spec.workers,
        "resources": resources,
        "envs": environment(wanted, sky),
        "secrets": dict.fromkeys(SECRETS),
        "setup": SETUP,
        "run": "bash run.sh",
    }


def environment(wanted: Wanted, sky: Sky) -> dict[str, str]:
    """Variables of every node that are no secret."""
    off = patches.switched_off(wanted.spec, {})
    knobs = ray_settings.environment(stock=wanted.spec.stock_ray)
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_TRAIN_CALLBACKS": patches.callbacks(),
        **({patches.OFF_VARIABLE: off} if off else {}),
        "RAYLAB_LEDGER": f"{wanted.storage}/{LEDGER_PREFIX}",
        "RAYLAB_GPU": "nvidia" if sky.accelerator else "none",
        **({"AWS_ENDPOINT_URL": wanted.endpoint} if wanted.endpoint else {}),
        "AWS_REGION": wanted.region,
        "AWS_DEFAULT_REGION": wanted.region,
        **{name: value for name, value in knobs.items() if name not in STOCK_ON_A_NETWORK},
    }


def script(wanted: Wanted, sky: Sky) -> str:
    """The script that runs on each node."""
    _, _, number = sky.accelerator.partition(":")
    values: Mapping[str, str] = {
        "CPUS": str(wanted.spec.cpus_per_worker),
        "GPUS": (number or "1") if sky.accelerator else "0",
        "PORT": str(PORT),
        "NODES": str(wanted.spec.workers),
        "JOIN": str(JOIN_SECONDS),
        "JOB": "wait",
    }
    if wanted.code is not None:
        words = [word.replace(f"{JOB_FOLDER}/", "job/") for word in wanted.code.command]
        values = {**values, "JOB": shlex.join(words)}
    return re.sub(r"\b(CPUS|GPUS|PORT|NODES|JOIN|JOB)\b", lambda match: values[match[0]], RUN)


def readme(wanted: Wanted, sky: Sky) -> str:
    """What is here, and the commands."""
    spec = wanted.spec
    secrets = " ".join(f"--secret {name}" for name in SECRETS)
    gpu = f", {sky.accelerator}" if sky.accelerator else ""
    return f"""# {spec.name} with SkyPilot

{spec.workers} nodes with {spec.cpus_per_worker} CPUs{gpu} and Ray {RAY_VERSION}. The first one has the head
and trains too: the nodes of SkyPilot are all alike. Checkpoints and ledgers: `{wanted.storage}`.

    export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...
    export RAY_AUTH_TOKEN=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \\n')
    sky launch -c {spec.name} {secrets} task.yaml
    sky logs {spec.name}
    sky down {spec.name}

`sky jobs launch {secrets} task.yaml` starts it again on other nodes when one is lost.
"""
