"""The files of an export: templates beside this module, filled, and objects as YAML that a person reads."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kueue.quantity import shown
from lab.cluster import patches, ray_settings
from lab.errors import UsageError
from lab.ext.kubernetes.export.request import JOB_FOLDER, RAY_VERSION, ExportRequest, Object
from lab.extension import probes
from lab.host.secrets import RANDOM_IN_SHELL
from lab.host.web import templates
from lab.topology import LEDGER_PREFIX
from lab.version import __version__

BASE: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
PROBE_FOLDER = "/opt/raylab/probe"
STOCK_ON_A_NETWORK = ("RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S", "RAY_raylet_start_wait_time_s")
"""Settings of the lab that suit one machine: on a network they would kill nodes that live."""
MOST_BYTES = 1024**2
"""The API server takes no larger ConfigMap."""
KEY = re.compile(r"[A-Za-z0-9._-]{1,253}")


@dataclass(frozen=True)
class Part:
    """Files that are mounted on every node from a ConfigMap."""

    what: str
    name: str
    folder: str
    files: Mapping[str, bytes]
    """Path in the folder -> content."""

    def items(self) -> list[Object]:
        """The files of the volume, each at its path: a ConfigMap has no folders."""
        return [{"key": key_of(path), "path": path} for path in self.files]


@cache
def probe_files() -> Mapping[str, bytes]:
    """What the lab puts on PYTHONPATH of its nodes."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for root in probes()
        for path in sorted(root.rglob("*.py"))
    }


def parts_of(request: ExportRequest) -> list[Part]:
    """The recorder with the patches, and the job's code; none where an image has them."""
    if request.in_image:
        return []
    parts = [Part("probe", f"{request.spec.name}-probe", PROBE_FOLDER, probe_files())]
    if request.code and request.code_files:
        parts.append(Part("code", f"{request.code.name}-code", JOB_FOLDER, request.code_files))
    return parts


def key_of(path: str) -> str:
    """The key of a file in a ConfigMap."""
    return path.replace("/", ".")


def config_map(part: Part, request: ExportRequest) -> Object:
    """The ConfigMap of these files. Raises UsageError for more than it can hold."""
    texts: dict[str, str] = {}
    others: dict[str, str] = {}
    for path, content in part.files.items():
        if not KEY.fullmatch(key_of(path)) or key_of(path) in {*texts, *others}:
            message = f"{part.what}: a ConfigMap has no key of its own for {path!r}"
            raise UsageError(message, "rename it, or --code image")
        try:
            texts[key_of(path)] = content.decode()
        except UnicodeDecodeError:
            others[key_of(path)] = base64.b64encode(content).decode()
    size = sum(map(len, part.files.values()))
    if size > MOST_BYTES:
        raise UsageError(
            f"{part.what}: {size} bytes of files, a ConfigMap holds {MOST_BYTES}",
            "put it into an image: --code image",
        )
    metadata = {"name": part.name, "namespace": request.space, "labels": request.labels}
    manifest: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return {**manifest, **({"data": texts} if texts else {}), **({"binaryData": others} if others else {})}


def render(template: str, request: ExportRequest, **values: object) -> str:
    """One of the templates, filled for this request."""
    jinja = templates(Path(__file__).parent)
    jinja.filters["yaml"] = lambda value: as_yaml([value]).rstrip("\n")
    jinja.filters["amount"] = lambda size: shown("memory", size)
    return jinja.get_template(template).render(
        request=request,
        lab=request.spec.name,
        ray=RAY_VERSION,
        version=__version__,
        probe_folder=PROBE_FOLDER,
        job_folder=JOB_FOLDER,
        random=RANDOM_IN_SHELL,
        **values,
    )


def workload(request: ExportRequest) -> str:
    """The one object that is admitted: RayCluster or RayJob, or the AppWrapper around it."""
    code, spec = request.code, request.spec
    job = code and {
        "entrypoint": shlex.join(code.command),
        "runtimeEnvYAML": as_yaml([runtime_env(code.runtime_env)]),
        "metadata": {"job_name": code.name, **code.metadata},
    }
    knobs = ray_settings.environment(stock=spec.stock_ray)
    variables = {
        "PYTHONPATH": PROBE_FOLDER,
        "RAY_TRAIN_CALLBACKS": patches.callbacks(),
        patches.OFF_VARIABLE: patches.switched_off(spec, {}),
        "RAYLAB_LEDGER": f"{request.storage}/{LEDGER_PREFIX}",
        "RAYLAB_GPU": spec.gpu.vendor.value,
        "AWS_ENDPOINT_URL": request.endpoint,
        "AWS_REGION": request.region,
        "AWS_DEFAULT_REGION": request.region,
        "AWS_EC2_METADATA_DISABLED": "true",
        **{name: value for name, value in knobs.items() if name not in STOCK_ON_A_NETWORK},
    }
    env = [{"name": name, "value": value} for name, value in variables.items() if value]
    return render("workload.yaml.j2", request, job=job, parts=parts_of(request), env=env)


def runtime_env(given: Mapping[str, Any]) -> Object:
    """The job's own runtime environment, with its folder on the path of driver and workers."""
    variables = dict(given.get("env_vars", {}))
    own = variables.get("PYTHONPATH")
    path = ":".join((PROBE_FOLDER, JOB_FOLDER, *([own] if own else [])))
    return {**given, "env_vars": {**variables, "PYTHONPATH": path}}


def as_yaml(objects: Iterable[object]) -> str:
    """One YAML text of several documents: texts of several lines as blocks, nothing by reference."""
    return "---\n".join(
        yaml.dump(document, Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True)
        for document in objects
    )


class Dumper(BASE):  # type: ignore[misc,valid-type]
    """PyYAML's, with another look."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


Dumper.add_representer(str, _text)
