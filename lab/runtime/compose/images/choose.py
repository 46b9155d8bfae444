"""The images that a lab runs on here: present ones, and those that have to be fetched."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lab.errors import LabError, SetupError
from lab.host.environment.progress import Printer
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.images import context, model
from lab.runtime.compose.images.building import build
from lab.runtime.compose.images.model import ImageNeed, ResolvedImages
from lab.runtime.compose.inspected import ImageInfo
from lab.topology import LabSpec, Vendor

WAYS = "`labctl images pull`, `build`, or `load FILE` (no registry needed)"


def vendor_of(spec: LabSpec | Vendor) -> Vendor:
    return spec if isinstance(spec, Vendor) else spec.gpu.vendor


def look(needs: Sequence[ImageNeed], vendor: Vendor, engine: DockerEngine) -> tuple[ImageNeed, ...]:
    """The same images, with what the engine knows of each."""
    names = dict.fromkeys(name for need in needs for name in (need.name, model.kept_name(need.name)))
    there = engine.images(tuple(names))

    def seen(need: ImageNeed) -> ImageNeed:
        name = next((n for n in (need.name, model.kept_name(need.name)) if n in there), "")
        if not name:
            return need
        info = there[name]
        return replace(need, present=True, local_name=name, size=info.size, stale=_stale(need, vendor, info))

    return tuple(seen(need) for need in needs)


def _stale(need: ImageNeed, vendor: Vendor, info: ImageInfo) -> bool:
    if not need.own:
        return False
    target = "lab" if need.variable == model.LAB_IMAGE else need.name.partition("/")[2].partition(":")[0]
    return info.labels.get(model.CONTENT_LABEL, "") != context.content(target, model.variant(vendor))


def needs(
    vendor: Vendor, environ: Mapping[str, str] | None = None, engine: DockerEngine | None = None
) -> tuple[ImageNeed, ...]:
    """The images of a lab with these GPUs. Raises EngineError without an engine."""
    environ = os.environ if environ is None else environ
    return look(model.wanted(vendor, environ), vendor, engine or DockerEngine())


def resolve(
    spec: LabSpec | Vendor, environ: Mapping[str, str] | None = None, engine: DockerEngine | None = None
) -> ResolvedImages:
    """Choose among the images that are here those that a lab runs on; fetch nothing.

    Raises EngineError when no engine answers.
    """
    environ = os.environ if environ is None else environ
    by_variable = {need.variable: need for need in needs(vendor_of(spec), environ, engine)}
    used = [by_variable[name] for name in (model.LAB_IMAGE, model.S3_IMAGE, model.PROMETHEUS_IMAGE)]
    if isinstance(spec, LabSpec) and spec.address is not None:
        used.append(by_variable[model.PROXY_IMAGE])
    missing = [need for need in used if not need.present]
    files: tuple[str, ...] = ()
    left_out: list[str] = []
    notes: list[str] = []
    if model.ANY_STANDIN.fullmatch(by_variable[model.S3_IMAGE].name):
        files = (model.OFFLINE_FILE,)
        notes.append(f"S3 server: moto ({by_variable[model.S3_IMAGE].tag}), standing in for MinIO")
    for need in (by_variable[model.ALERTMANAGER_IMAGE], by_variable[model.GRAFANA_IMAGE]):
        used.append(need)
        if not need.present:
            left_out.append(need.role)
            notes.append(f"{need.role}: left out ({need.tag} is not here)")
    for need in used:
        if need.present and need.stale:
            notes.append(f"{need.name} was built from other requirements than this checkout's: `{need.how}`")
    images = tuple((need.variable, need.local_name or need.name) for need in used)
    return ResolvedImages(images, files, tuple(left_out), tuple(notes), tuple(missing))


def missing(
    spec: LabSpec | Vendor, environ: Mapping[str, str] | None = None, engine: DockerEngine | None = None
) -> tuple[ImageNeed, ...]:
    """The images without which this lab cannot start here. Empty when it can."""
    return resolve(spec, environ, engine).missing


def ensure(
    spec: LabSpec | Vendor,
    environ: Mapping[str, str] | None = None,
    engine: DockerEngine | None = None,
    progress: Printer | None = None,
) -> ResolvedImages:
    """Fetch what this lab lacks: pull what is published, build what is ours. Then as `resolve`.

    Grafana and Alertmanager are left out when they cannot be had. Raises SetupError, with every way to get
    what is missing; EngineError when no engine answers.
    """
    engine, progress = engine or DockerEngine(), progress or Printer()
    resolved = resolve(spec, environ, engine)
    fetch = list(resolved.missing)
    if resolved.left_out and not resolved.files:
        known = needs(vendor_of(spec), environ, engine)
        fetch += [need for need in known if need.role in resolved.left_out and not need.present]
    for need in fetch:
        try:
            if need.own:
                build(model.variant(vendor_of(spec)), (need.name,), engine=engine, progress=progress)
            else:
                engine.pull(need.name, progress)
        except SetupError as error:
            if need.role in model.DISPENSABLE and need not in resolved.missing:
                progress.line(f"{error.message}; going on without {need.role}")
                continue
            raise lacking(need, error) from error
    return resolve(spec, environ, engine) if fetch else resolved


def lacking(need: ImageNeed, why: LabError) -> SetupError:
    """The error that says which image is missing, why it did not come, and every way to get it."""
    return SetupError(
        f"the image {need.name} ({need.role}) is missing: {why.message}", f"get it with {WAYS}; {why.hint}"
    )


def pull(
    vendor: Vendor,
    environ: Mapping[str, str] | None = None,
    engine: DockerEngine | None = None,
    progress: Printer | None = None,
) -> tuple[ImageNeed, ...]:
    """Pull every image of a lab that is not built here and not there yet; returns them as they are then.

    Raises SetupError, EngineError.
    """
    engine, progress = engine or DockerEngine(), progress or Printer()
    environ = os.environ if environ is None else environ
    wanted = [need for need in look(model.wanted(vendor, environ), vendor, engine) if not need.own]
    try:
        for need in wanted:
            if not need.present:
                engine.pull(need.name, progress)
    finally:
        progress.clear()
    return look([replace(need, present=False) for need in wanted], vendor, engine)


def to_save(
    vendor: Vendor, environ: Mapping[str, str] | None = None, engine: DockerEngine | None = None
) -> tuple[ImageNeed, ...]:
    """The images that a lab runs on here; absent ones are among them."""
    wanted = needs(vendor, environ, engine)
    return tuple(need for need in wanted if need.present or need.role not in model.DISPENSABLE)
