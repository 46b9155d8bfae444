"""versitygw, a small S3 server of another make, as an object store that is there before a lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import CertificateError, StoreError
from lab.host import programs
from lab.host.programs import Program
from lab.store import ObjectStore
from lab.store.upstream import Upstream
from lab.topology import Credentials
from tests.conftest import needs_go
from tests.waiting import eventually

VERSITYGW = Program("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
"""44 MB; its build takes 2 minutes of one core once."""

KEY = Credentials("there-before-the-lab", "a-secret-of-somebody-else")
BUCKET = "course-7"

START_SECONDS = 60.0


@contextmanager
def versitygw(
    folder: Path, port: int, host: str = "127.0.0.1", certificate: Path | None = None
) -> Iterator[Upstream]:
    """The server, empty, while the block lasts; skips the test where it cannot be built for want of Go.

    It speaks TLS with a `certificate` (PEM), whose key is beside it as `.key`.
    """
    with needs_go():
        program = programs.build(VERSITYGW, print)
    objects = folder / "objects"
    objects.mkdir()
    env = {**os.environ, "ROOT_ACCESS_KEY": KEY.access_key, "ROOT_SECRET_KEY": KEY.secret_key}
    tls = ("--cert", str(certificate), "--key", str(certificate.with_suffix(".key"))) if certificate else ()
    argv = (str(program), "--port", f"{host}:{port}", "--quiet", *tls, "posix", str(objects))
    with (folder / "versitygw.log").open("wb") as log:
        process = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
        ca = certificate.read_text() if certificate else ""
        there = Upstream(f"{'https' if certificate else 'http'}://{host}:{port}", BUCKET, KEY, ca=ca)
        try:
            eventually(lambda: answers(there), START_SECONDS, "versitygw answers")
            yield there
        finally:
            process.kill()
            process.wait()


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
