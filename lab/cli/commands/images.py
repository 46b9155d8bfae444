"""images: the images of a lab of containers, fetched, built, and carried in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import documents, format, render, values
from lab.cli.context import GPUS, App, LabGroup, pass_app
from lab.host.quantities import plural
from lab.topology import LabSpec, Vendor

if TYPE_CHECKING:
    from lab.flows.images import ImageNeed


gpu_option = click.option(
    "--gpu", type=click.Choice(GPUS), default="auto", show_default=True,
    help="GPUs that the images are for: NVIDIA and AMD need images of their own.",
)  # fmt: skip


@click.group(cls=LabGroup)
def images() -> None:
    """List, get, save and load the images of containers."""


def vendor_of(choice: str) -> Vendor:
    """Vendor of the GPUs that images are for: `auto` is what `up` would choose here."""
    from lab.runtime.spec import gpu_plan

    return gpu_plan("auto", LabSpec.workers, "compose").vendor if choice == "auto" else Vendor(choice)


def state(need: ImageNeed) -> str:
    """State of an image, in a word or two."""
    if not need.present:
        return "absent"
    return "out of date" if need.stale else "present"


def show(app: App, needs: tuple[ImageNeed, ...]) -> None:
    """Print images as a table or as JSON."""
    if app.out.as_json({"images": [documents.image(need) for need in needs]}):
        return
    rows = [
        (
            state(need),
            format.size(need.size) if need.present else "",
            need.role,
            need.tag,
            "" if need.present and not need.stale else need.how,
        )
        for need in needs
    ]
    app.out.show(render.table(("STATE", "SIZE", "FOR", "IMAGE", "GET IT WITH"), rows))


@images.command("list")
@gpu_option
@pass_app
def list_(app: App, gpu: str) -> None:
    """List the images that a lab needs, and which of them are here."""
    from lab.flows.images import needs, resolve

    vendor = vendor_of(gpu)
    show(app, needs(vendor))
    if not app.out.json_wanted:
        for note in resolve(vendor).notes:
            app.out.sentence(f"note: {note}")


@images.command()
@gpu_option
@pass_app
def pull(app: App, gpu: str) -> None:
    """Fetch the images that others publish: MinIO, Prometheus, Alertmanager, Grafana."""
    from lab.flows import images

    show(app, images.pull(vendor_of(gpu), progress=app.progress()))


@images.command()
@gpu_option
@pass_app
def build(app: App, gpu: str) -> None:
    """Build the project's own images. What has not changed is not built again."""
    from lab.flows import images

    built = images.build(images.variant(vendor_of(gpu)), progress=app.progress())
    if app.out.as_json({"built": [{"name": b.name, "size": b.size, "seconds": b.seconds} for b in built]}):
        return
    rows = [(format.size(b.size), format.seconds(b.seconds), b.name) for b in built]
    app.out.show(render.table(("SIZE", "TOOK", "IMAGE"), rows))


@images.command()
@click.argument("file", type=values.Place(), help="The file to write.")
@gpu_option
@pass_app
def save(app: App, file: Path, gpu: str) -> None:
    """Write every image that a lab runs on here into one FILE; a name that ends in .gz compresses it."""
    from lab.flows import images

    archive = images.save(file, images.to_save(vendor_of(gpu)), progress=app.progress())
    if app.out.as_json({"file": archive.path, "size": archive.size, "images": list(archive.images)}):
        return
    for name in archive.images:
        app.out.line(name)
    app.out.line(f"{archive.path}: {plural(len(archive.images), 'image')}, {format.size(archive.size)}")


@images.command()
@click.argument("file", type=values.Place(), help="A file that `images save` wrote.")
@gpu_option
@pass_app
def load(app: App, file: Path, gpu: str) -> None:
    """Load the images of FILE, and say whether a lab now has all it needs."""
    from lab.flows import images

    archive = images.load(file, progress=app.progress())
    lacking = images.missing(vendor_of(gpu))
    names = [need.name for need in lacking]
    if app.out.as_json({"images": list(archive.images), "complete": not lacking, "missing": names}):
        return
    for name in archive.images:
        app.out.line(f"loaded {name}")
    for need in lacking:
        app.out.line(f"still missing: {need.name} ({need.role}): {need.how}")
    if not lacking:
        app.out.line("the lab has every image that it needs")


COMMANDS = (images,)
