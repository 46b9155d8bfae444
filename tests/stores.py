"""Object stores of other makes that are there before a lab, each with a key of its own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.errors import CertificateError, StoreError
from lab.host import programs
from lab.host.programs import MINIO, Program
from lab.store import ObjectStore
from lab.store.upstream import Upstream
from lab.topology import Credentials
from tests.built import ModuleProgram
from tests.conftest import needs_go
from tests.waiting import end_process, eventually

VERSITYGW = Program("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
"""44 MB; its build takes 2 minutes of one core once."""

SEAWEEDFS = "github.com/seaweedfs/seaweedfs"

WEED = ModuleProgram("weed", f"{SEAWEEDFS}/weed", "v0.0.0-20261109003541-7506e5f91cd6", module=SEAWEEDFS)
"""SeaweedFS 4.53, whose tag is no version of a Go module."""

KEY = Credentials("there-before-the-lab", "a-secret-of-somebody-else")
BUCKET = "course-7"

START_SECONDS = 60.0
END_SECONDS = 20.0


@dataclass(frozen=True)
class Make:
    """A make of object store."""

    program: Program
    key: tuple[str, str]
    """Variables from which it takes the two halves of its owner's key."""
    options: Callable[[Path, str, int], tuple[str, ...]]
    """Its command line for a folder of its own, a host and a port."""


def weed_options(folder: Path, host: str, port: int) -> tuple[str, ...]:
    """All servers of SeaweedFS in one process, which reports nothing to its makers."""
    servers = ("master", "volume", "filer", "s3")
    http = {server: free_port() for server in servers} | {"s3": port}
    ports = [f"-{server}.port={http[server]}" for server in servers]
    grpc = [f"-{server}.port.grpc={free_port()}" for server in servers]
    sockets = [f"-{server}.localSocket={folder / server}.sock" for server in ("filer", "s3")]
    others = ("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false")
    volumes = ("-volume.max=100", "-volume.preStopSeconds=0")
    places = (f"-dir={folder}", f"-ip={host}", f"-ip.bind={host}")
    return ("-logtostderr", "server", "-s3", *places, *ports, *grpc, *sockets, *others, *volumes)


MAKES = {
    "versitygw": Make(
        VERSITYGW,
        ("ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"),
        lambda folder, host, port: ("--port", f"{host}:{port}", "--quiet", "posix", str(folder)),
    ),
    "minio": Make(
        MINIO,
        ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"),
        lambda folder, host, port: ("server", "--quiet", "--address", f"{host}:{port}", str(folder)),
    ),
    "weed": Make(WEED, ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), weed_options),
}

STORES = [
    "versitygw",
    pytest.param("minio", marks=(pytest.mark.minio, pytest.mark.rare)),
    pytest.param("weed", marks=pytest.mark.rare),
]
"""The makes, for tests of each: all but one only with --all."""


@contextmanager
def store_of(
    make: str, folder: Path, port: int, host: str = "127.0.0.1", certificate: Path | None = None
) -> Iterator[Upstream]:
    """A server of this make, empty, while the block lasts; skips the test where it cannot be built here.

    versitygw speaks TLS with a `certificate` (PEM), whose key is beside it as `.key`.
    """
    chosen = MAKES[make]
    with needs_go():
        program = programs.build(chosen.program, print)
    (objects := folder / "objects").mkdir()
    env = {**os.environ, **dict(zip(chosen.key, (KEY.access_key, KEY.secret_key), strict=True))}
    tls = ("--cert", str(certificate), "--key", str(certificate.with_suffix(".key"))) if certificate else ()
    argv = (str(program), *tls, *chosen.options(objects, host, port))
    with (folder / f"{make}.log").open("wb") as log:
        process = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
        ca = certificate.read_text() if certificate else ""
        there = Upstream(f"{'https' if certificate else 'http'}://{host}:{port}", BUCKET, KEY, ca=ca)
        try:
            eventually(lambda: answers(there), START_SECONDS, f"{make} answers")
            yield there
        finally:
            end_process(process, END_SECONDS)


def self_signed(path: Path, name: str) -> Path:
    """A certificate that vouches for itself, for a `name` such as IP:127.0.0.1, with its key."""
    options = ("-subj", "/CN=lab", "-addext", f"subjectAltName={name}", "-days", "1")
    argv = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *options, "-out", str(path))
    subprocess.run((*argv, "-keyout", str(path.with_suffix(".key"))), check=True, capture_output=True)
    return path


def answers(there: Upstream) -> bool:
    """True once the store answers, be it with a certificate for another name."""
    try:
        ObjectStore(there.url, there.credentials, http=there.pool()).ping()
    except CertificateError:
        return True
    except StoreError:
        return False
    return True


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
