"""The object store of a lab of plain processes where no `minio` binary is at hand: moto's S3, made to last.

    python -m lab.store.server --port 9000 --root DIR --credentials FILE
        --root-user-file FILE --root-password-file FILE [--host ADDRESS [--any-host]] [--people FOLDER]

`--credentials` is JSON with `access_key` and `secret_key`, of the key that reaches only the lab's bucket; the
root key may do everything. Only loopback addresses are served, unless `--any-host` says that something else,
such as a container's network, decides who reaches the server. `/raylab/health` answers without a signature.
SIGTERM ends it between two changes; SIGKILL at any time loses nothing that was acknowledged. Uploads in parts
that were not completed end with the process.

With `--people`, or $RAYLAB_PEOPLE, the keys in a class's list of people are accepted too, each for its part
of the bucket.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import ipaddress
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError, PortTakenError, UsageError
from lab.host.secrets import read_key, read_secret
from lab.host.serving import App, Lasting, Paced, log, serve
from lab.people.registry import Registry
from lab.store.server.app import S3App
from lab.store.server.disk import Disk
from lab.store.server.keys import Key, Keyring
from lab.store.server.moto import VERSION
from lab.store.server.personal import PeoplesKeyring
from lab.topology import BUCKET, Credentials

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

PEOPLE_VARIABLE = "RAYLAB_PEOPLE"
"""Variable that stands for `--people`, where the Compose files of a class are added to others."""

STOP_SECONDS = 5.0
"""Longest wait for the change that is being made when the server is asked to end."""


def read_keys(args: argparse.Namespace) -> Keyring:
    """Every key of the command line. Raises UsageError."""
    training = read_key(args.credentials, "--credentials names it")
    line = "it needs one line of text"
    root = Credentials(read_secret(args.root_user_file, line), read_secret(args.root_password_file, line))
    if root.access_key == training.access_key:
        raise UsageError("the root key and the key in --credentials have the same name", "make another one")
    keys = (Key(root), Key(training, BUCKET))
    if args.people is None:
        return Keyring(*keys)
    return PeoplesKeyring(Registry(args.people), BUCKET, *keys)


def check_loopback(host: str) -> None:
    """Refuse a `host` that other machines can reach. Raises UsageError."""
    if host != "localhost":
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(host).is_loopback:
                return
        raise UsageError(f"--host {host}: not a loopback address", "use 127.0.0.1, or add --any-host")


def say(kind: str, message: str, *args: object) -> None:
    """Log what werkzeug says in one line: of a traceback the last."""
    text = (message % args if args else message).strip()
    log(text.splitlines()[-1] if text else kind)


def make_server(host: str, port: int, app: App) -> BaseWSGIServer:
    """A server that listens already. Raises LabError."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import ThreadedWSGIServer

    class StoreHandler(Paced, MotoRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Requests are not logged, only errors."""

        def log(self, type: str, message: str, *args: object) -> None:
            say(type, message, *args)

    class StoreServer(Lasting, ThreadedWSGIServer):
        def log(self, type: str, message: str, *args: object) -> None:
            say(type, message, *args)

    try:
        with contextlib.redirect_stderr(io.StringIO()):  # werkzeug explains itself at length
            return StoreServer(host, port, app, handler=StoreHandler)
    except SystemExit as error:  # werkzeug's answer to a port in use
        raise PortTakenError(f"port {port} of {host} is in use", "choose another with --port") from error


def parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    made = argparse.ArgumentParser(
        prog="s3server", description="An S3 server for a lab on one machine.", allow_abbrev=False
    )
    made.add_argument("--host", default="127.0.0.1")
    made.add_argument("--any-host", action="store_true", help="serve an address that is not loopback")
    made.add_argument("--port", type=int, required=True)
    made.add_argument("--root", type=Path, required=True, help="folder that holds the objects")
    made.add_argument("--credentials", type=Path, required=True, help="JSON file with the key of users")
    made.add_argument("--root-user-file", type=Path, required=True, help="file with the root key's name")
    made.add_argument(
        "--root-password-file", type=Path, required=True, help="file with the root key's secret"
    )
    people = os.environ.get(PEOPLE_VARIABLE)
    made.add_argument("--people", type=Path, default=people, help="folder of the list of a class's people")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. The exit code is 0, or that of the error that kept it from starting."""
    args = parser().parse_args(argv)
    try:
        if not args.any_host:
            check_loopback(args.host)
        _allow_many_files()
        keys = read_keys(args)
        disk = Disk(args.root, log)
        tempfile.tempdir = str(disk.tmp)  # of this process: moto's parts of uploads lie on the store's disk
        app = S3App(disk, keys, log)
        server = make_server(args.host, args.port, app)
    except LabError as error:
        log(f"{error.message} ({error.hint})" if error.hint else error.message)
        return error.exit_code

    log(f"serving {args.root} (moto {VERSION}) on http://{args.host}:{server.server_port}")
    serve(server)
    app.lock.acquire(timeout=STOP_SECONDS)
    log("ended on request")
    return 0


def _allow_many_files() -> None:
    """Set the limit of open files as high as allowed: every part of an unfinished upload is one."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    raise SystemExit(main())
