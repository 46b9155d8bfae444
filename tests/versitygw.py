"""versitygw, a small S3 server of another make, as an object store that is there before a lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import StoreError
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
def versitygw(folder: Path, port: int, host: str = "127.0.0.1") -> Iterator[Upstream]:
    """The server, empty, while the block lasts; skips the test where it cannot be built for want of Go."""
    with needs_go():
        program = programs.build(VERSITYGW, print)
    objects = folder / "objects"
    objects.mkdir()
    env = {**os.environ, "ROOT_ACCESS_KEY": KEY.access_key, "ROOT_SECRET_KEY": KEY.secret_key}
    argv = (str(program), "--port", f"{host}:{port}", "--quiet", "posix", str(objects))
    with (folder / "versitygw.log").open("wb") as log:
        process = subprocess.Popen(argv, env=env, stdout=log, stderr=log)
        there = Upstream(f"http://{host}:{port}", BUCKET, KEY)
        try:
            eventually(lambda: answers(there), START_SECONDS, "versitygw answers")
            yield there
        finally:
            process.kill()
            process.wait()


def answers(there: Upstream) -> bool:
    """True once the store answers."""
    try:
        ObjectStore(there.url, there.credentials).ping()
    except StoreError:
        return False
    return True
