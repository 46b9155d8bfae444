"""The images that a lab needs, as plain data. The Compose files name them; this module reads those."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from lab.host.files import ROOT
from lab.runtime.compose.gpus import VARIANTS
from lab.services import ALERTMANAGER, GRAFANA, PROMETHEUS, PROXY, STORE
from lab.topology import Vendor
from lab.version import __version__

COMPOSE = ROOT / "compose"

LAB_IMAGE = "LAB_IMAGE"
S3_IMAGE = "LAB_S3_IMAGE"
PROMETHEUS_IMAGE = "LAB_PROMETHEUS_IMAGE"
ALERTMANAGER_IMAGE = "LAB_ALERTMANAGER_IMAGE"
GRAFANA_IMAGE = "LAB_GRAFANA_IMAGE"
PROXY_IMAGE = "LAB_PROXY_IMAGE"
BASE_IMAGE = "LAB_BASE_IMAGE"
"""The base of the project's own images, where it is not that of the Dockerfile. No Compose file has it."""

DISPENSABLE = (ALERTMANAGER, GRAFANA, PROXY)
"""Services without whose image most labs go on; the last is needed in a lab with an address alone."""

ADDRESS_FILE = "address.yaml"
"""The Compose file that has the proxy."""

OFFLINE_FILE = "offline.yaml"
"""The Compose file that runs the stand-in store."""

S3_STANDIN = f"raylab/s3-standin:{__version__}"
"""The image of the stand-in store, where S3_IMAGE names it."""

ANY_STANDIN = re.compile(r"(.*/)?raylab/s3-standin(:[^/@]*)?(@.*)?")
"""The same under any tag, with a digest, or in a registry of one's own."""

CONTENT_LABEL = "io.raylab.content"
"""Label of an image of ours: what it was built from, see context.content."""

DEFAULT = re.compile(r"\$\{(LAB_\w*IMAGE):-([^}]+)\}")


@dataclass(frozen=True)
class ImageNeed:
    """One image that a lab needs."""

    name: str
    """As the engine is told, with its digest where the lab pins one."""
    role: str
    variable: str
    """The variable of the Compose files that chooses it."""
    own: bool = False
    """True when this project builds it; others are pulled."""
    present: bool = False
    local_name: str = ""
    """The name under which the engine has it; that of an image out of an archive is `kept_name(name)`."""
    size: int = 0
    """Bytes, 0 when absent."""
    stale: bool = False
    """Built from other requirements than this checkout's."""

    @property
    def tag(self) -> str:
        """Its name as a person reads it: without the digest."""
        return self.name.partition("@")[0]

    @property
    def how(self) -> str:
        """The command that gets it."""
        return "labctl images build" if self.own else "labctl images pull"


@dataclass(frozen=True)
class ResolvedImages:
    """The images that a lab runs on here; none of them is fetched any more."""

    images: tuple[tuple[str, str], ...]
    """(variable, image) for the Compose env file."""
    files: tuple[str, ...] = ()
    """Files of compose/ that have to be added."""
    left_out: tuple[str, ...] = ()
    """Services that are not started for want of their image."""
    notes: tuple[str, ...] = ()
    missing: tuple[ImageNeed, ...] = ()
    """Without these there is no lab."""

    @property
    def env(self) -> dict[str, str]:
        return dict(self.images)


def variant(vendor: Vendor) -> str:
    """The build of PyTorch for this vendor's GPUs: `cpu`, `cuda` or `rocm`."""
    return VARIANTS.get(vendor, "cpu")


def lab_image(vendor: Vendor) -> str:
    """The image that the lab's own services run on."""
    return f"raylab/ray:{__version__}-{variant(vendor)}"


@cache
def defaults(file: str = "lab.yaml") -> Mapping[str, str]:
    """Variable -> image, as a Compose file says where the variable is not set."""
    return dict(DEFAULT.findall((COMPOSE / file).read_text(encoding="utf-8")))


def registries() -> tuple[str, ...]:
    """The registries that the pinned images name; Docker's own hub needs no name and is not among them."""
    hosts = (image.partition("/")[0] for image in defaults().values())
    return tuple(dict.fromkeys(host for host in hosts if "." in host))


def wanted(vendor: Vendor, environ: Mapping[str, str]) -> tuple[ImageNeed, ...]:
    """The images of a lab with these GPUs, not yet looked for. A variable in `environ` comes first."""

    def need(variable: str, role: str) -> ImageNeed:
        pinned = {**defaults(), **defaults(ADDRESS_FILE), LAB_IMAGE: lab_image(vendor)}
        name = environ.get(variable) or pinned[variable]
        return ImageNeed(name, role, variable, own=name in (lab_image(vendor), S3_STANDIN))

    return (
        need(LAB_IMAGE, "Ray's nodes, Jupyter, set-up, metrics"),
        need(S3_IMAGE, STORE),
        need(PROMETHEUS_IMAGE, PROMETHEUS),
        need(ALERTMANAGER_IMAGE, ALERTMANAGER),
        need(GRAFANA_IMAGE, GRAFANA),
        need(PROXY_IMAGE, PROXY),
    )


def kept_name(name: str) -> str:
    """The name under which a pinned image travels in an archive.

    Docker drops digests when it loads an archive, so an image pinned by digest would not be found again. Its
    first 12 digits in a tag of our own keep apart what a renewed pin means from what lies there.
    """
    reference, _, digest = name.partition("@sha256:")
    if not digest:
        return name
    repository, separator, tag = reference.rpartition(":")
    if not separator or "/" in tag:
        repository, tag = reference, "pinned"
    return f"raylab/kept/{repository}:{tag[:100]}-{digest[:12]}"
