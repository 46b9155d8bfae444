"""Labs of containers on an object store of the host that was there before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.services import STORE
from tests.e2e.compose.bench import UP_SECONDS, ContainerBench, docker
from tests.e2e.harness import UP
from tests.e2e.receipts import assert_recovered
from tests.e2e.servers import free_port
from tests.e2e.store import check_conformance
from tests.versitygw import BUCKET, KEY, versitygw


@pytest.mark.rare
def test_one_command_breaks_and_proves_the_recovery_on_a_store_of_the_host(
    make_container_bench: Callable[[], ContainerBench], tmp_path: Path
) -> None:
    box = make_container_bench()
    key = tmp_path / "key.json"
    key.write_text(f'{{"access_key": "{KEY.access_key}", "secret_key": "{KEY.secret_key}"}}')
    key.chmod(0o600)
    options = (*UP, "--s3-credentials", str(key), "--bucket", BUCKET, "--yes")
    refused = box.labctl(*options, "--s3", f"http://127.0.0.1:{free_port()}", code=4)
    assert "a container finds only itself at localhost" in refused.err
    bridge = docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}").strip()
    with versitygw(tmp_path, free_port(), bridge) as there:
        box.labctl(*options, "--s3", there.url, timeout=2 * UP_SECONDS)
        _, receipt = box.labctl("demo", "--epochs", "8", "--json", timeout=480).documents
        assert_recovered(receipt)
        check_conformance(box)
        mounted = {
            name
            for name, container in box.containers().items()
            if any("s3-upstream" in mount["Destination"] for mount in container["Mounts"])
        }
        assert mounted == {STORE}
        assert KEY.secret_key not in str(box.containers())
        box.labctl("down", "--volumes", "--yes", timeout=UP_SECONDS)
