"""lesson data: the data sets of the lessons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import format, render, values
from lab.cli.context import App, LabGroup, pass_app
from lab.errors import UsageError
from lab.topology import FOOD11

if TYPE_CHECKING:
    from lab.ext.course.datasets import Dataset

DOING = {"download": "downloading", "verify": "verifying", "unpack": "unpacking", "draw": "drawing"}


@click.group(cls=LabGroup)
def data() -> None:
    """Get, list and delete the data sets of the lessons."""


def _text(phase: str, done: int, total: int) -> str:
    """How far getting a data set is, for a person."""
    counted = phase in ("unpack", "draw")
    have, whole = (f"{done}", f"{total} pictures") if counted else (format.size(done), format.size(total))
    return f"{DOING[phase]} {have}{f' of {whole} ({100 * done // total} %)' if total else ''}"


@data.command()
@click.option(
    "--synthetic", type=int, metavar="N",
    help="Draw N pictures of each class instead, without internet: colours and shapes that a small network"
    " learns.",
)  # fmt: skip
@click.option("--url", type=values.Text(), metavar="URL", help="Another address of the archive.")
@click.option(
    "--sha256", type=values.Text(), metavar="HEX", help="What the archive's SHA-256 must be."
)  # fmt: skip
@click.option(
    "--from", "file", type=values.Place(dir_okay=False), metavar="FILE",
    help="The archive, if you have it: nothing is downloaded.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace what is there.")
@pass_app
def food11(
    app: App,
    synthetic: int | None,
    url: str | None,
    sha256: str | None,
    file: Path | None,
    force: bool,
) -> None:
    """Get Food-11: 16,643 pictures of food in 11 classes, 1.2 GB.

    Ctrl-C keeps what has arrived; the next call goes on there. Every lab, also one that is up, sees the
    pictures as soon as they are whole.
    """
    from lab.ext.course import datasets

    options = {"--synthetic": synthetic, "--url": url, "--from": file, "--sha256": sha256}
    named = [name for name, value in options.items() if value is not None]
    if (synthetic is not None and len(named) > 1) or {"--url", "--from"} <= {*named}:
        raise UsageError(f"{named[0]} and {named[1]} cannot be used together", "leave one out")
    shelf, progress = datasets.Shelf(), app.progress()

    def step(phase: str, done: int, total: int) -> None:
        progress.update(_text(phase, done, total))

    if synthetic is not None:
        dataset, made = datasets.draw_food11(shelf, synthetic, force=force, on_progress=step)
    else:
        urls = datasets.URLS if url is None else (url,)
        dataset, made = datasets.get_food11(
            shelf, urls=urls, file=file, sha256=sha256 or "", force=force, on_progress=step
        )
    progress.clear()
    if app.out.as_json({"dataset": dataset, "made": made}):
        return
    app.out.line(
        f"{dataset.name}: {'' if made else 'there already: '}{described(dataset)}, in {dataset.folder}"
    )
    if not made:
        app.out.note("--force replaces it")


def described(dataset: Dataset) -> str:
    """Number and kind of the pictures."""
    splits = ", ".join(f"{dataset.split(name)} {name}" for name in dataset.counts)
    kind = "drawn pictures" if dataset.synthetic else "photographs" if dataset.source else "pictures"
    return f"{dataset.pictures} {kind} ({splits}; {format.size(dataset.bytes)})"


@data.command("list")
@pass_app
def list_(app: App) -> None:
    """List the data sets that are here, with the number of pictures and where they come from.

    What was downloaded of one and not made a data set yet is listed too."""
    from lab.ext.course.datasets import Shelf

    shelf = Shelf()
    complete, arrived = shelf.all(), shelf.arrived
    parts = [{"name": FOOD11, "bytes": arrived}] if arrived else []
    if app.out.as_json({"folder": shelf.folder, "datasets": complete, "downloads": parts}):
        return
    if not complete and not arrived:
        app.out.line(f"no data sets in {shelf.folder}")
        app.out.note("get one with: labctl lesson data food11, or labctl lesson data food11 --synthetic 20")
        return
    columns = ("DATA SET", "STATE", "TRAINING", "VALIDATION", "EVALUATION", "SIZE", "FROM")
    part = (FOOD11, "download", "", "", "", format.size(arrived), "not unpacked")
    app.out.show(render.table(columns, [*map(_row, complete), *([part] if arrived else [])]))
    app.out.note(f"they are in {shelf.folder}")


def _row(dataset: Dataset) -> tuple[str, ...]:
    state = f"{dataset.missing} missing" if dataset.missing else "whole" if dataset.source else "not labctl's"
    splits = (str(dataset.split(name)) for name in ("training", "validation", "evaluation"))
    return (dataset.name, state, *splits, format.size(dataset.bytes), dataset.source)


@data.command()
@click.argument(
    "dataset", type=values.Text(), metavar="NAME", help="Such as food11; see `labctl lesson data list`."
)
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
@pass_app
def rm(app: App, dataset: str, yes: bool) -> None:
    """Delete a data set, and what was downloaded of it. Nothing else deletes one."""
    from lab.ext.course.datasets import Shelf

    shelf = Shelf()
    downloaded = shelf.downloaded(dataset)
    stored = shelf.find(dataset) if downloaded else shelf.get(dataset)
    parts = [f"{format.size(downloaded)} of a download"] if downloaded else []
    if not yes:
        there = [f"{described(stored)} in {stored.folder}"] if stored else []
        app.confirm(f"this deletes, for good: {' and '.join([*there, *parts])}")
    shelf.remove(dataset)
    name, place = (stored.name, stored.folder) if stored else (FOOD11, shelf.downloads)
    if app.out.as_json({"name": name, "removed": str(place)}):
        return
    sizes = [*([format.size(stored.bytes)] if stored else []), *parts]
    app.out.line(f"{name}: deleted, {' and '.join(sizes)}")
