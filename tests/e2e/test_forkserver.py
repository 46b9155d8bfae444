"""The fork server on its own: a Ray that no lab has started has its processes forked."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lab.host.files import FORKSERVER
from tests.programs import free_port
from tests.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux"),
]

ASKS = """
import json, os, ray, sys, time
ray.init(address=sys.argv[1], log_to_driver=False)
@ray.remote
class Actor:
    def look(self): return os.getppid(), "ray.dashboard.dashboard" in sys.modules
begin = time.monotonic()
seen = ray.get(Actor.remote().look.remote())
print(json.dumps([*seen, time.monotonic() - begin]))
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A short path: Ray's sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="forks-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_worker_of_any_ray_is_forked_and_the_server_ends_with_its_node(temporary: Path) -> None:
    gcs, client = free_port(), free_port()
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment = {**kept, "PYTHONPATH": str(FORKSERVER), "TMPDIR": str(temporary), "RAY_AUTH_MODE": "token"}
    environment["RAY_AUTH_TOKEN"] = "0123456789abcdef0123456789abcdef"
    node = subprocess.Popen(
        [
            *(sys.executable, "-m", "forkserver", "--", "ray", "start", "--head", "--block"),
            *(f"--port={gcs}", f"--ray-client-server-port={client}", "--num-cpus=1"),
            *("--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={temporary}/ray"),
        ],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=(temporary / "node.log").open("wb"),
        stderr=subprocess.STDOUT,
    )
    try:
        eventually(
            lambda: "Ray runtime started" in (temporary / "node.log").read_text(), PATIENCE, "Ray has started"
        )

        def forked() -> tuple[psutil.Process, bool]:
            asked = subprocess.run(
                [sys.executable, "-c", ASKS, f"127.0.0.1:{gcs}"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert asked.returncode == 0, asked.stderr
            parent, imported_ahead, _ = json.loads(asked.stdout)
            server = psutil.Process(parent)
            assert "forkserver" in server.cmdline()
            return server, imported_ahead

        # A server that does not answer within a second, as on a busy machine, is passed by.
        server, imported_ahead = eventually(forked, PATIENCE, "a worker is forked")
        assert imported_ahead
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait(PATIENCE)
    eventually(lambda: not server.is_running(), PATIENCE, "the server has ended")
    assert list(temporary.glob("forkserver-*")) == []
