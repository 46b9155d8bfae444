"""The lab as a folder for plain `docker compose`, on a machine without labctl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from string import Template

from lab.host.files import ROOT
from lab.host.secrets import RANDOM_IN_SHELL
from lab.runtime.compose import project
from lab.runtime.compose.gpus import Override
from lab.runtime.compose.images.building import TORCH_INDEXES
from lab.runtime.compose.images.model import variant
from lab.runtime.compose.state import ComposeState
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor
from lab.version import __version__

HERE = Path(__file__).parent
PARTS = ("compose", "docker", "forkserver", "kueue", "lab", "workspace")
"""Folders that go along."""
FILES = ("labctl.py", "requirements/image.txt", "requirements/standin.txt", "LICENSE")
LEFT_OUT = ("__pycache__", "secrets", ".ipynb_checkpoints")
OVERRIDE = "override.json"
SETTINGS = ("LAB_NAME", "LAB_PROJECT", "LAB_WORKERS", "LAB_CPUS_PER_WORKER")
FIRST_RENDER = 128
"""Number of the first GPU's file in /dev/dri."""


def compose_folder(spec: LabSpec) -> dict[str, bytes]:
    """Files of the folder: path -> content."""
    spec = replace(spec, gpu=numbered(spec))
    state = ComposeState(spec, {}, project.files(spec), {})
    files = dict(_copied())
    override = relative(project.override(state), spec)
    names = (*state.files, OVERRIDE) if override else state.files
    if override:
        files[f"compose/{OVERRIDE}"] = json.dumps(override, indent=1).encode() + b"\n"
    files["compose/.env"] = env_text(state, names).encode()
    secrets = (HERE / "secrets.sh").read_text(encoding="utf-8")
    files["secrets.sh"] = secrets.replace("RANDOM", RANDOM_IN_SHELL).encode()
    files["README.md"] = readme(spec).encode()
    return files


def numbered(spec: LabSpec) -> GpuPlan:
    """The plan for another machine: its GPUs in their order, one for each worker."""
    vendor = spec.gpu.vendor
    if vendor is Vendor.NONE:
        return GpuPlan(vendor)
    gpus = []
    for index, name in enumerate(spec.worker_services):
        nodes = ("/dev/kfd", f"/dev/dri/renderD{FIRST_RENDER + index}") if vendor is Vendor.AMD else ()
        gpus.append(GpuAssignment(name, "" if vendor is Vendor.SIMULATED else str(index), "", nodes))
    return GpuPlan(vendor, tuple(gpus))


def relative(override: Override, spec: LabSpec) -> Override:
    """The override with files beside it, and with groups that the other machine names."""
    for service in override.get("services", {}).values():
        if "extends" in service:
            service["extends"]["file"] = "lab.yaml"
        if spec.gpu.vendor is Vendor.AMD and "devices" in service:
            asked = "${LAB_RENDER_GID:?set it to the number of the group render: getent group render}"
            service["group_add"] = ["${LAB_VIDEO_GID:-44}", asked]
    return override


def env_text(state: ComposeState, names: tuple[str, ...]) -> str:
    """Settings for Compose, which finds them beside its files."""
    every = project.env(state, Path(), (0, 0), {})
    values = {name: every[name] for name in every if name in SETTINGS or name.startswith("LAB_WORKER_")}
    text = "".join(f"{name}={value}\n" for name, value in {"COMPOSE_FILE": ":".join(names), **values}.items())
    return f"# Settings of the lab; .env.example has the others.\n{text}"


def _copied() -> Iterator[tuple[str, bytes]]:
    """Files of the checkout that Compose mounts or builds from."""
    for path in sorted(path for part in PARTS for path in (ROOT / part).rglob("*") if path.is_file()):
        inside = path.relative_to(ROOT)
        data = inside.parts[:2] == ("compose", "data") and path.name != ".gitignore"
        if not data and path.name != ".env" and not {*inside.parts} & {*LEFT_OUT}:
            yield inside.as_posix(), path.read_bytes()
    for name in FILES:
        yield name, (ROOT / name).read_bytes()


def readme(spec: LabSpec) -> str:
    """The commands in their order."""
    kind = variant(spec.gpu.vendor)
    index = "" if kind == "cpu" else f" --build-arg TORCH_INDEX={TORCH_INDEXES[kind]}"
    gpu = {
        Vendor.NVIDIA: "`compose/.env` gives GPUs by number or UUID: `LAB_WORKER_0_GPU` and so on.\n\n",
        Vendor.AMD: "GPUs are given by their files in `compose/.env`, which needs `LAB_RENDER_GID` too.\n\n",
    }.get(spec.gpu.vendor, "")
    text = Template((HERE / "readme.txt").read_text(encoding="utf-8"))
    return text.substitute(
        name=spec.name, settings=spec.settings, index=index, version=__version__, kind=kind, gpu=gpu,
        workers=spec.workers,
    )  # fmt: skip
