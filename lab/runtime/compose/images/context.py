"""Input of a build: its context, wheels that lie on this machine, a CA bundle, a package index."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lab.host.environment import pip
from lab.host.environment.progress import normalised
from lab.host.files import ROOT

FILES = (
    "docker/Dockerfile",
    "docker/apt.py",
    "docker/install.py",
    "docker/slim.py",
    "requirements/image.txt",
    "requirements/standin.txt",
)
"""All that a build sees of the project."""

INPUTS: Mapping[str, tuple[str, ...]] = {
    "lab": ("docker/apt.py", "docker/install.py", "docker/slim.py", "requirements/image.txt"),
    "s3-standin": ("docker/apt.py", "docker/install.py", "docker/slim.py", "requirements/standin.txt"),
}
"""The files that each target's content depends on, besides the Dockerfile."""

CA_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")

CONFIG_KEYS = ("index-url", "extra-index-url", "trusted-host", "timeout", "retries")
"""Settings of pip that hold inside a build too."""

TORCH_BUILDS = ("torch", "torchvision")
"""The packages that have a build for each variant, named in the label of their version."""

IMAGE_PYTHON = "cp311"
"""The tag of the Python of the default base image."""


@dataclass(frozen=True)
class PipSettings:
    """pip's configuration on this machine, as far as a build can use it."""

    values: Mapping[str, tuple[str, ...]]

    @property
    def find_links(self) -> tuple[Path, ...]:
        """Folders of this machine that hold wheels."""
        folders = []
        for entry in self.values.get("find-links", ()):
            parts = urlsplit(entry)
            path = Path(unquote(parts.path) if parts.scheme == "file" else entry).expanduser()
            if parts.scheme in ("", "file") and path.is_dir() and path not in folders:
                folders.append(path)
        return tuple(folders)

    @property
    def certificate(self) -> str:
        """The CA bundle that pip trusts, or empty."""
        return next((path for path in self.values.get("cert", ()) if Path(path).is_file()), "")

    def config(self) -> str:
        """A pip.conf with what holds inside a build too; empty when there is nothing of that kind."""
        lines = []
        for key in CONFIG_KEYS:
            there = [value for value in self.values.get(key, ()) if not value.startswith("file:")]
            if there:
                several = key in ("extra-index-url", "trusted-host")
                lines.append(f"{key} = " + ("\n    ".join(there) if several else there[-1]))
        sources = any(line.startswith(("index", "extra")) for line in lines)
        return "\n".join(["[global]", *lines, ""]) if sources else ""


def pip_settings(listing: str) -> PipSettings:
    """From what `pip config list` printed; a variable of the environment is among it."""
    return PipSettings({name: tuple(value.split()) for name, value in pip.options(listing).items()})


def certificate(environ: Mapping[str, str], settings: PipSettings) -> str:
    """The CA bundle that this machine is told to trust; empty when it needs none of its own."""
    named = (environ.get(name, "") for name in CA_VARIABLES)
    return next((path for path in named if path and Path(path).is_file()), settings.certificate)


def proxies(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The proxy variables that are set: handed on by name, so that no password shows in a process list."""
    names = (name for upper in PROXY_VARIABLES for name in (upper, upper.lower()))
    return tuple(name for name in names if environ.get(name))


def locked(text: str) -> dict[str, str]:
    """Package -> version of a requirements file."""
    pins = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", text, re.MULTILINE)
    return {normalised(name): version for name, version in pins}


def version(package: str, root: Path) -> str:
    """The version of torch or torchvision that the image gets; the lock leaves it to the variant's index."""
    text = (root / "docker/Dockerfile").read_text()
    (pinned,) = re.findall(rf"^ARG {package.upper()}_VERSION=(\S+)$", text, re.MULTILINE)
    return str(pinned)


def wheels(
    folders: tuple[Path, ...], pins: Mapping[str, str], variant: str, machine: str = platform.machine()
) -> Iterator[Path]:
    """The wheels in these folders that the image of this variant would install."""
    taken: set[str] = set()
    for folder in folders:
        for path in sorted(folder.glob("*.whl")):
            parts = path.stem.split("-")
            if len(parts) < 5 or path.name in taken:
                continue
            name, (version, _, label) = normalised(parts[0]), parts[1].partition("+")
            tags, system = parts[-3], parts[-1]
            fits = IMAGE_PYTHON in tags or "py3" in tags or (parts[-2] == "abi3" and tags.startswith("cp3"))
            runs = system == "any" or ("linux" in system and system.endswith(machine))
            if (
                pins.get(name) == version
                and fits
                and runs
                and (name not in TORCH_BUILDS or _build_is(label, variant))
            ):
                taken.add(path.name)
                yield path


def _build_is(label: str, variant: str) -> bool:
    """True when a wheel with this local label is of the variant; PyPI's have none and are the CUDA build."""
    if variant == "cuda":
        return not label or label.startswith("cu")
    return label.startswith(variant)


def content(target: str, variant: str, root: Path = ROOT) -> str:
    """A short hash of the files that an image of this target is built from, without mounted code."""
    digest = hashlib.sha256(variant.encode() if target == "lab" else b"")
    for name in ("docker/Dockerfile", *INPUTS[target]):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()[:16]


def stage(folder: Path, local_wheels: Iterator[Path], root: Path = ROOT) -> tuple[str, ...]:
    """Fill `folder` as the context of a build; returns the names of the wheels in it."""
    for name in FILES:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, target)
    into = folder / "docker" / "wheels"
    into.mkdir()
    names = []
    for wheel in local_wheels:
        try:
            os.link(wheel, into / wheel.name)
        except OSError:
            shutil.copy(wheel, into / wheel.name)
        names.append(wheel.name)
    return tuple(names)
