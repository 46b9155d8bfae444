"""Options of `up` for an object store that is already there."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lab.cli import values
from lab.cli.context import App
from lab.errors import LabError, UnsupportedError, UsageError
from lab.host.files import remove
from lab.host.interrupts import held_back
from lab.host.secrets import UPSTREAM_FILE
from lab.topology import S3Place

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
                 help="Use this S3 server, which is already there, instead of one of the lab's own."),
    click.option("--s3-credentials", "key_file", type=values.Place(dir_okay=False),
                 help="Its key: JSON or an AWS credentials file, which only you may read."),
    click.option("--s3-ca", "ca_file", type=values.Place(dir_okay=False),
                 help="Certificates that vouch for its own, as PEM."),
    click.option("--bucket", type=values.Text(), metavar="BUCKET",
                 help="The bucket there that this lab uses. [default: ray-LAB]"),
    click.option("--yes", is_flag=True, help="Make that bucket, if it is missing, without asking."),
)  # fmt: skip


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --s3 and what belongs to it, as the one argument `store`."""

    @functools.wraps(command)
    def with_store(
        *args: Any, url: str | None, key_file: Path | None, ca_file: Path | None, bucket: str | None,
        yes: bool, **rest: Any,
    ) -> Any:  # fmt: skip
        given = dict(zip(BELONG, (key_file, ca_file, bucket, yes), strict=True))
        if url is None and (stray := next((option for option, value in given.items() if value), "")):
            raise UsageError(f"{stray} belongs to --s3", "labctl up --s3 URL --s3-credentials FILE")
        if url is None:
            return command(*args, store=None, **rest)
        if key_file is None:
            raise UsageError(
                "--s3 needs --s3-credentials", "name a file with its key, which only you may read"
            )
        return command(*args, store=WantedStore(url, key_file, ca_file, bucket, yes), **rest)

    wrapped: Callable[..., Any] = with_store
    for option in reversed(OPTIONS):
        wrapped = option(wrapped)
    return wrapped


@contextlib.contextmanager
def adopted(app: App, lab: Lab, wanted: WantedStore | None) -> Iterator[None]:
    """Try the store out, and give its key to a lab that the block starts; one that is up keeps its own.

    One that does not come up loses the key again. Raises UnsupportedError, UsageError, StoreError;
    RefusedError unless a missing bucket may be made.
    """
    from lab.store import upstream

    if wanted is None or lab.status().up:
        yield
        return
    place = wanted.place(lab.name)
    there = upstream.named(place.url, place.bucket, wanted.key_file, wanted.ca_file, os.environ)
    if why := lab.runtime.out_of_reach(place.url):
        raise UnsupportedError(
            f"--s3 {place.url}: {why}",
            "let the server listen on an address of this machine that containers reach, such as that of "
            "Docker's bridge (`ip address show docker0`), or use --runtime local",
        )

    def agree(question: str) -> None:
        if not wanted.yes:
            app.confirm(question, "make", "it")

    upstream.check(there, agree)
    kept = lab.runtime.folder() / "secrets" / UPSTREAM_FILE
    upstream.save(kept, there)
    try:
        yield
    except BaseException:
        with held_back(), contextlib.suppress(LabError):
            if not lab.status().up:
                remove(kept)
        raise


def kept_place(lab: Lab) -> S3Place | None:
    """The bucket that a lab uses and does not own, as far as its state tells."""
    try:
        return lab.runtime.spec().s3
    except LabError:
        return None
