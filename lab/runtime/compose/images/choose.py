"""The images that a lab runs on here: present ones, stand-ins, and those that have to be fetched."""

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

WAYS = "`labctl images pull`, `build`, `build --offline` (no registry needed), or `load FILE`"


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
    """The images of a lab with these GPUs, then the stand-ins. Raises EngineError without an engine."""
    environ = os.environ if environ is None else environ
    return look((*model.wanted(vendor, environ), *model.stand_ins()), vendor, engine or DockerEngine())


def resolve(
    spec: LabSpec | Vendor, environ: Mapping[str, str] | None = None, engine: DockerEngine | None = None
) -> ResolvedImages:
    """Choose among the images that are here those that a lab runs on; fetch nothing.

    Raises EngineError when no engine answers.
    """
    by_variable = {need.variable: need for need in needs(vendor_of(spec), environ, engine)}
    lab, store = by_variable[model.LAB_IMAGE], by_variable[model.S3_IMAGE]
    prometheus = by_variable[model.PROMETHEUS_IMAGE]
    s3_standin, prometheus_standin = (
        by_variable[model.S3_STANDIN_IMAGE],
        by_variable[model.PROMETHEUS_STANDIN_IMAGE],
    )
    images = {model.LAB_IMAGE: lab.local_name or lab.name}
    files: tuple[str, ...] = ()
    left_out: list[str] = []
    notes: list[str] = []
    missing = [] if lab.present else [lab]
    prometheus_variable = model.PROMETHEUS_IMAGE
    if store.present or not (store.stand_in and s3_standin.present):
        images[model.S3_IMAGE] = store.local_name or store.name
        missing += [] if store.present else [store]
    else:
        files = (model.OFFLINE_FILE,)
        images[model.S3_STANDIN_IMAGE] = s3_standin.local_name
        prometheus_variable = model.PROMETHEUS_STANDIN_IMAGE
        notes.append(f"S3 server: moto ({s3_standin.name}), standing in for MinIO, whose image is not here")
    if prometheus.present or not (prometheus.stand_in and prometheus_standin.present):
        images[prometheus_variable] = prometheus.local_name or prometheus.name
        missing += [] if prometheus.present else [prometheus]
    else:
        images[prometheus_variable] = prometheus_standin.local_name
        notes.append(f"prometheus: Debian's ({prometheus_standin.name}), standing in for {prometheus.tag}")
    for need in (by_variable[model.ALERTMANAGER_IMAGE], by_variable[model.GRAFANA_IMAGE]):
        images[need.variable] = need.local_name or need.name
        if not need.present or files:
            left_out.append(need.role)
            why = "is not here" if not need.present else "is used only together with MinIO"
            notes.append(f"{need.role}: left out ({need.tag} {why})")
    used = [lab, *([s3_standin] if files else ())]
    if isinstance(spec, LabSpec) and spec.address is not None:
        proxy, own = by_variable[model.PROXY_IMAGE], by_variable[model.PROXY_STANDIN_IMAGE]
        chosen = own if own.present and not proxy.present and proxy.stand_in else proxy
        images[model.PROXY_IMAGE] = chosen.local_name or chosen.name
        missing += [] if chosen.present else [proxy]
        if chosen is own:
            notes.append(f"proxy: Caddy out of its wheel ({own.name}), standing in for {proxy.tag}")
            used.append(own)
    used += [] if prometheus.present else [prometheus_standin]
    for need in used:
        if need.present and need.stale:
            notes.append(f"{need.name} was built from other requirements than this checkout's: `{need.how}`")
    return ResolvedImages(tuple(images.items()), files, tuple(left_out), tuple(notes), tuple(missing))


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
                build(model.variant(vendor_of(spec)), engine=engine, progress=progress)
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
    """The images that a lab runs on here, stand-ins in place of what is not; absent ones are among them."""
    wanted = needs(vendor, environ, engine)
    by_name = {need.name: need for need in wanted}
    chosen = []
    for need in wanted:
        if need.variable in model.STANDIN_IMAGES:
            continue
        stand_in = by_name.get(need.stand_in)
        if not need.present and stand_in is not None and stand_in.present:
            chosen.append(stand_in)
        elif need.present or need.role not in model.DISPENSABLE:
            chosen.append(need)
    return tuple(chosen)
