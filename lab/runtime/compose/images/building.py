"""Builds the project's images, with what this machine knows of proxies, certificates and package sources."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import SetupError
from lab.host.environment import pip
from lab.host.environment.progress import Printer
from lab.host.files import ROOT
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.images import context
from lab.runtime.compose.images.model import BASE_IMAGE, S3_STANDIN
from lab.version import __version__

TORCH_INDEXES: Mapping[str, str] = {
    "cpu": pip.CPU_INDEX,
    "cuda": "https://download.pytorch.org/whl/cu130",
    "rocm": "https://download.pytorch.org/whl/rocm7.2",
}
"""Sources of each build of torch 2.13.0. cu126 has it for drivers before 580 and GPUs before Turing."""

EXTRA_PACKAGES: Mapping[str, str] = {"rocm": "rocm-smi"}
"""Debian packages that only this variant needs."""

SIZES: Mapping[tuple[str, str], str] = {("lab", "cpu"): "1.7 GB", ("lab", "cuda"): "5.8 GB"}
"""Target and variant -> what it weighs (docker/README.md)."""

STEP = re.compile(r"^#\d+ \[(?:(?P<stage>[\w-]+) )?\s*(?P<at>\d+/\d+)\] (?P<what>.+)")
SAID = re.compile(r"^#\d+ [\d.]+ +(?P<text>.+)")


@dataclass(frozen=True)
class Built:
    """One image that was built."""

    name: str
    size: int
    """Bytes."""
    seconds: float


@dataclass(frozen=True)
class BuildTarget:
    """One image to build."""

    target: str
    """Stage of the Dockerfile."""
    name: str
    variant: str = ""


@dataclass(frozen=True)
class BuildMachine:
    """The machine, as far as a build asks it; tests put in their own."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = ROOT
    python: str = sys.executable


def targets(variant: str) -> tuple[BuildTarget, ...]:
    """The images of the project for a variant."""
    lab = BuildTarget("lab", f"raylab/ray:{__version__}-{variant}", variant)
    return (BuildTarget("s3-standin", S3_STANDIN), lab)


def build(
    variant: str,
    names: Collection[str] = (),
    *,
    engine: DockerEngine | None = None,
    progress: Printer | None = None,
    machine: BuildMachine | None = None,
) -> tuple[Built, ...]:
    """Build the images of a variant (`cpu`, `cuda`, `rocm`): minutes the first time, then only what changed.

    All of them, or those that `names` names. Raises EngineError (no engine, no buildx), SetupError.
    """
    engine, progress, machine = engine or DockerEngine(), progress or Printer(), machine or BuildMachine()
    try:
        engine.docker("buildx", "version", what="asking for buildx")
        settings = _pip_settings(engine, machine)
        with _context(machine, settings, variant, progress) as folder:
            building = _Build(engine, progress, machine, settings, folder)
            return tuple(building.run(t) for t in targets(variant) if not names or t.name in names)
    finally:
        progress.clear()


def _pip_settings(engine: DockerEngine, machine: BuildMachine) -> context.PipSettings:
    """pip's configuration on this machine; an environment without pip has none."""
    argv = [machine.python, "-m", "pip", "config", "list"]
    try:
        return context.pip_settings("\n".join(engine.call_program(argv, "asking pip for its configuration")))
    except SetupError:
        return context.pip_settings("")


@contextmanager
def _context(
    machine: BuildMachine, settings: context.PipSettings, variant: str, progress: Printer
) -> Iterator[Path]:
    """The folder that a build gets as its context."""
    pins = {
        "torch": context.version("torch", machine.root),
        "torchvision": context.version("torchvision", machine.root),
    }
    for name in ("image", "standin"):
        pins |= context.locked((machine.root / "requirements" / f"{name}.txt").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="raylab-build-") as folder:
        wheels = context.wheels(settings.find_links, pins, variant)
        for wheel in context.stage(Path(folder), wheels, machine.root):
            progress.line(f"taken from this machine: {wheel}")
        yield Path(folder)


@dataclass(frozen=True)
class _Build:
    """Builds images, one after the other, from one context."""

    engine: DockerEngine
    progress: Printer
    machine: BuildMachine
    settings: context.PipSettings
    folder: Path
    """The context."""

    def run(self, target: BuildTarget) -> Built:
        started, name, progress = time.monotonic(), target.name, self.progress
        if size := SIZES.get((target.target, target.variant)):
            progress.line(f"{name}: building, {size} when done; existing layers are reused")
        with tempfile.TemporaryDirectory(prefix="raylab-secret-") as secrets:
            self.engine.docker(
                *self._arguments(target, Path(secrets)),
                what=f"building {name}",
                progress=progress,
                on_line=lambda line: _show(line, name, progress),
            )
        info = self.engine.images([name])[name]
        seconds = time.monotonic() - started
        progress.line(f"{name}: {info.size / 1e9:.2f} GB, built in {seconds:.0f} s")
        return Built(name, info.size, seconds)

    def _arguments(self, target: BuildTarget, secrets: Path) -> list[str]:
        """The arguments of `docker`; what is secret is written into `secrets`."""
        environ, root = self.machine.environ, self.machine.root
        argv = ["buildx", "build", "--progress", "plain", "--load"]
        argv += ["--file", str(self.folder / "docker/Dockerfile"), "--tag", target.name]
        argv += ["--target", target.target]
        content = context.content(target.target, target.variant, root)
        arguments = {"VERSION": __version__, "CONTENT": content}
        if base := environ.get(BASE_IMAGE):
            arguments["BASE_IMAGE"] = base
        if target.target == "lab":
            asked = environ.get(pip.TORCH_INDEX)
            index = TORCH_INDEXES[target.variant] if asked is None else asked
            arguments["TORCH_INDEX"] = index
            if asked is None and target.variant == "cpu":
                arguments["TORCH_FALLBACK"] = "yes"
            if needed := required_cuda(index):
                arguments["REQUIRE_CUDA"] = needed
            if extra := EXTRA_PACKAGES.get(target.variant):
                arguments["EXTRA_PACKAGES"] = extra
        for name, value in arguments.items():
            argv += ["--build-arg", f"{name}={value}"]
        for name in context.proxies(environ):
            argv += ["--build-arg", name]
        if bundle := context.certificate(environ, self.settings):
            argv += ["--secret", f"id=ca,src={bundle}"]
        if config := self.settings.config():
            (secrets / "pip.conf").write_text(config, encoding="utf-8")
            argv += ["--secret", f"id=pip-conf,src={secrets / 'pip.conf'}"]
        return [*argv, str(self.folder)]


def required_cuda(index: str) -> str:
    """NVIDIA's requirement on the driver for PyTorch from this index, such as `cuda>=13.0`.

    The toolkit reads it from NVIDIA_REQUIRE_CUDA in the image and starts no container where it does not hold:
    an older driver would let everything start, and PyTorch see no GPU.
    """
    match = re.search(r"/cu(\d+)(\d)/?$", index)
    return f"cuda>={match[1]}.{match[2]}" if match else ""


def _show(line: str, name: str, progress: Printer) -> None:
    if step := STEP.match(line):
        progress.update(f"{name}: step {step['at']} {step['what'][:50]}")
    elif (said := SAID.match(line)) and said["text"].startswith("note: "):
        progress.line(f"{name}: {said['text'].removeprefix('note: ')}")
    elif said:
        progress.update(f"{name}: {said['text'][:70]}")
