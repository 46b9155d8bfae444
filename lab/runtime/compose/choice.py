"""Which images a lab runs on here: the pinned ones, or the stand-ins where those cannot be had."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lab.errors import UnsupportedError
from lab.runtime.compose.images.model import (
    OFFLINE_FILE,
    PROMETHEUS_STANDIN_IMAGE,
    S3_IMAGE,
    S3_STANDIN_IMAGE,
    ImageNeed,
    ResolvedImages,
    stand_ins,
    wanted,
)
from lab.topology import GRAFANA, PROMETHEUS, STORE, Vendor

WAYS = "`labctl images pull`, `build`, `load FILE`, or `build --offline` where no registry can be reached"


def resolve(vendor: Vendor, environ: Mapping[str, str], has_image: Callable[[str], bool]) -> ResolvedImages:
    """The images for a lab with these GPUs, of those that are here. Asks nobody but `has_image`."""
    needs = {
        need.role if need.role in (STORE, PROMETHEUS, GRAFANA) else "": need
        for need in wanted(vendor, environ)
    }
    own, store, prometheus, grafana = (needs[role] for role in ("", STORE, PROMETHEUS, GRAFANA))
    stand = {need.variable: need for need in stand_ins()}
    missing: list[ImageNeed] = [] if has_image(own.name) else [own]
    images = [(own.variable, own.name)]
    pinned = [need for need in (store, prometheus) if has_image(need.name)]
    if len(pinned) == 2:
        images += [(need.variable, need.name) for need in pinned]
        if has_image(grafana.name):
            return ResolvedImages((*images, (grafana.variable, grafana.name)), missing=tuple(missing))
        note = f"grafana: left out (its image {grafana.name} is not here)"
        return ResolvedImages(tuple(images), (), (GRAFANA,), (note,), tuple(missing))
    if environ.get(S3_IMAGE):
        return ResolvedImages(
            tuple(images), missing=(*missing, *(n for n in (store, prometheus) if n not in pinned))
        )
    substitutes = [stand[variable] for variable in (S3_STANDIN_IMAGE, PROMETHEUS_STANDIN_IMAGE)]
    if not all(has_image(need.name) for need in substitutes):
        absent = tuple(need for need in (store, prometheus) if need not in pinned)
        return ResolvedImages(tuple(images), missing=(*missing, *absent))
    images += [(need.variable, need.name) for need in substitutes]
    notes = (
        "S3 server: moto, standing in for MinIO (MinIO's image is not here); objects are kept",
        "prometheus: Debian's, standing in for the pinned image",
        "grafana: left out (the images are the offline stand-ins)",
    )
    return ResolvedImages(tuple(images), (OFFLINE_FILE,), (GRAFANA,), notes, tuple(missing))


def require(resolved: ResolvedImages) -> ResolvedImages:
    """The same; raises UnsupportedError, naming what is missing and how to get it."""
    if resolved.missing:
        names = ", ".join(need.name for need in resolved.missing)
        raise UnsupportedError(f"images of the lab are not on this machine: {names}", f"get them: {WAYS}")
    return resolved
