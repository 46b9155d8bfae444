"""Options of `up` for an object store that is already there."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lab.cli import values
from lab.cli.context import App
from lab.errors import LabError, UnsupportedError, UsageError
from lab.host.secrets import UPSTREAM_FILE
from lab.topology import S3Place

if TYPE_CHECKING:
    from lab.lab import Lab

BELONG = ("--s3-credentials", "--s3-ca", "--bucket", "--yes")


@dataclass(frozen=True)
class Wanted:
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
        given = (key_file, ca_file, bucket, yes or None)
        if url is None:
            for option, value in zip(BELONG, given, strict=True):
                if value is not None:
                    raise UsageError(f"{option} belongs to --s3", "labctl up --s3 URL --s3-credentials FILE")
            return command(*args, store=None, **rest)
        if key_file is None:
            raise UsageError(
                "--s3 needs --s3-credentials", "name a file with its key, which only you may read"
            )
        return command(*args, store=Wanted(url, key_file, ca_file, bucket, yes), **rest)

    wrapped: Callable[..., Any] = with_store
    for option in reversed(OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def adopt(app: App, lab: Lab, wanted: Wanted) -> None:
    """Try the store out and give its key to a lab that is down; one that is up keeps what it has.

    Raises UnsupportedError, UsageError, StoreError; RefusedError unless a missing bucket may be made.
    """
    from lab.store import upstream

    if lab.status().up:
        return
    place = wanted.place(lab.name)
    if why := lab.runtime.out_of_reach(place.url):
        raise UnsupportedError(
            f"--s3 {place.url}: {why}",
            "let the server listen on an address of this machine that containers reach, such as that of "
            "Docker's bridge (`ip address show docker0`), or use --runtime local",
        )
    there = upstream.named(place.url, place.bucket, wanted.key_file, wanted.ca_file, os.environ)

    def agree(question: str) -> None:
        if not wanted.yes:
            app.confirm(question, "make", "it")

    upstream.check(there, agree)
    upstream.save(lab.runtime.folder() / "secrets" / UPSTREAM_FILE, there)


def kept_place(lab: Lab) -> S3Place | None:
    """The bucket that a lab uses and does not own, as far as its state tells."""
    try:
        return lab.runtime.spec().s3
    except LabError:
        return None
