"""Options of `up` for an object store that is already there."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import values
from lab.cli.context import App, options
from lab.errors import LabError, StoreError, UnsupportedError, UsageError
from lab.host.files import remove, write_private
from lab.host.interrupts import held_back
from lab.host.reading import SMALL, read_text
from lab.topology import LabSpec, S3Place

if TYPE_CHECKING:
    from lab.lab import Lab

BELONG = ("--s3-credentials", "--s3-ca", "--bucket", "--yes")


@dataclass(frozen=True)
class WantedStore:
    """The store that a person names."""

    url: str
    key_file: Path
    ca_file: Path | None
    bucket: str | None
    yes: bool
    """Make a missing bucket without asking."""

    def place(self, lab: str) -> S3Place:
        """Where the objects of this lab will be. Raises UsageError."""
        return S3Place(self.url.rstrip("/"), self.bucket or f"ray-{lab.rstrip('-')}")


OPTIONS = (
    click.option("--s3", "url", type=values.Text(), metavar="URL",
                 help="Use this existing S3 server instead of one of the lab's own. In its host, {bucket} "
                 "stands for the bucket's name."),
    click.option("--s3-credentials", "key_file", type=values.Place(dir_okay=False),
                 help="Its key: JSON or an AWS credentials file that only you can read."),
    click.option("--s3-ca", "ca_file", type=values.Place(dir_okay=False),
                 help="Certificates of the authority that signed its own, as PEM."),
    click.option("--bucket", type=values.Text(), metavar="BUCKET",
                 help="Bucket to use there. [default: ray-LAB]"),
    click.option("--yes", is_flag=True, help="Create that bucket without asking if it is missing."),
    click.option("--no-s3", is_flag=True,
                 help="Go back to a store of the lab's own; that of an earlier --s3 keeps its objects."),
)  # fmt: skip


def store_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command --s3 and what belongs to it, as the one argument `store`, and --no-s3."""

    @functools.wraps(command)
    def with_store(
        *args: object, url: str | None, key_file: Path | None, ca_file: Path | None, bucket: str | None,
        yes: bool, no_s3: bool, **rest: object,
    ) -> object:  # fmt: skip
        given = dict(zip(BELONG, (key_file, ca_file, bucket, yes), strict=True))
        if url is None and (stray := next((option for option, value in given.items() if value), "")):
            raise UsageError(f"{stray} needs --s3", "labctl up --s3 URL --s3-credentials FILE")
        if url is None:
            return command(*args, store=None, no_s3=no_s3, **rest)
        if no_s3:
            raise UsageError("--s3 and --no-s3 cannot be used together", "leave one of them out")
        if key_file is None:
            raise UsageError("--s3 needs --s3-credentials", "name a file with its key that only you can read")
        return command(*args, store=WantedStore(url, key_file, ca_file, bucket, yes), no_s3=False, **rest)

    return options(*OPTIONS)(with_store)


@contextlib.contextmanager
def adopted(app: App, lab: Lab, wanted: WantedStore | None) -> Iterator[None]:
    """Try the store out, and give its key to a lab that the block starts; one that is up keeps its own.

    One that does not come up knows the store afterwards that it knew before. Raises UnsupportedError,
    UsageError, StoreError; RefusedError unless a missing bucket may be made.
    """
    from lab.runtime.active_faults import ActiveFaults
    from lab.store import upstream

    if lab.status().up:
        yield
        return
    kept = upstream.file_in(lab.runtime.folder())
    before, place_before = read_text(kept, SMALL) if kept.exists() else "", store_elsewhere(lab)
    if wanted is not None:
        place = wanted.place(lab.name)
        there = upstream.named(place.url, place.bucket, wanted.key_file, wanted.ca_file, os.environ)
        _refuse_unreachable(lab, place, f"--s3 {place.url}")
        upstream.check(there, lambda question: None if wanted.yes else app.confirm(question, "make", "it"))
        upstream.save(kept, there)
    try:
        yield
    except BaseException:
        with held_back(), contextlib.suppress(LabError):
            if not lab.status().up:
                write_private(kept, before) if before else remove(kept)
        raise
    if store_elsewhere(lab) != place_before:
        ActiveFaults(lab.runtime.folder()).clear()  # `heal` would look for their objects in the wrong store


def look_back(app: App, lab: Lab, spec: LabSpec, *, named: bool) -> None:
    """Say where the objects of a lab that is down are, and see that a store which it only remembers is there.

    `named`: the store of `spec` was named now. Raises UnsupportedError, UsageError, StoreError.
    """
    from lab.runtime.active_faults import ActiveFaults

    place, before = spec.s3, _before(lab)
    if place is not None and not named:
        app.out.note(f"stored objects: in {place}, as before; {OWN_AGAIN}")
        _refuse_unreachable(lab, place, f"the store of this lab, {place.url}")
        _try_again(lab)
    elif before and before != (str(place) if place else "its own store"):
        app.out.note(f"stored objects so far stay in {before}; this lab does not see them now")
        for fault in ActiveFaults(lab.runtime.folder()).lasting():
            if fault.outlives_the_lab:
                hint = "go back there, and undo it: `labctl up`, then `labctl heal`"
                app.out.warn(f"the fault {fault.kind} has damaged objects there, and they stay damaged", hint)


OWN_AGAIN = "`labctl up --no-s3` starts a store of the lab's own"


def _before(lab: Lab) -> str:
    """The place of the objects that a lab which is down has; empty when it has none."""
    with contextlib.suppress(LabError):
        return store_elsewhere(lab) or ("its own store" if lab.view.kept() else "")
    return ""


def _try_again(lab: Lab) -> None:
    """Try out the store that a lab was last up with. Raises StoreError, UsageError."""
    from lab.store import upstream

    def gone(problem: str) -> None:
        raise StoreError(f"{problem} any more", f"name another with --s3, or: {OWN_AGAIN}")

    upstream.check(upstream.load(upstream.file_in(lab.runtime.folder())), gone)


def _refuse_unreachable(lab: Lab, place: S3Place, what: str) -> None:
    if why := lab.runtime.out_of_reach(place.url):
        raise UnsupportedError(
            f"{what}: {why}",
            "let the server listen on an address of this machine that containers reach, such as that of "
            "Docker's bridge (`ip address show docker0`), or use --runtime local",
        )


def store_elsewhere(lab: Lab) -> str:
    """The bucket that a lab, up or down, uses and does not own, in words; empty for a store of its own."""
    try:
        return str(lab.view.foreign_store() or "")
    except LabError as error:
        return f"another store ({error.message})"
