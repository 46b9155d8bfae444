"""Labs of containers on object stores of the host, of several makes, that were there before."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import psutil
import pytest

from lab.services import STORE
from tests.e2e.chaos import StoreChaosTests
from tests.e2e.compose.bench import UP_SECONDS, ContainerBench, docker
from tests.e2e.harness import UP, Shell
from tests.e2e.receipts import assert_recovered
from tests.stores import BUCKET, KEY, STORES, free_port, store_of

pytestmark = pytest.mark.rare


@pytest.fixture(scope="module", params=STORES)
def make(request: pytest.FixtureRequest) -> str:
    """The make of the store."""
    return str(request.param)


@pytest.fixture(scope="module")
def there(
    make: str, make_container_bench: Callable[[], ContainerBench], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContainerBench]:
    """A lab of containers on a store that listens at Docker's bridge."""
    bench, folder = make_container_bench(), tmp_path_factory.mktemp(make)
    key = folder / "key.json"
    key.write_text(f'{{"access_key": "{KEY.access_key}", "secret_key": "{KEY.secret_key}"}}')
    key.chmod(0o600)
    options = (*UP, "--s3-credentials", str(key), "--bucket", BUCKET, "--yes")
    refused = bench.labctl(*options, "--s3", f"http://127.0.0.1:{free_port()}", code=4)
    assert "a container finds only itself at localhost" in refused.err
    with store_of(make, folder, free_port(), bridge_address()) as store:
        bench.labctl(*options, "--s3", store.url, timeout=2 * UP_SECONDS)
        yield bench
        bench.labctl("down", "--volumes", "--yes", timeout=UP_SECONDS)


def bridge_address() -> str:
    """That of this machine on Docker's bridge, which not every engine names as the network's gateway."""
    name = '{{index .Options "com.docker.network.bridge.name"}}'
    addresses = psutil.net_if_addrs()[docker("network", "inspect", "bridge", "--format", name).strip()]
    return next(one.address for one in addresses if one.family == socket.AF_INET)


def test_one_command_breaks_and_proves_the_recovery_on_a_store_of_the_host(
    there: ContainerBench, make: str
) -> None:
    _, receipt = there.labctl("demo", "--epochs", "8", "--json", timeout=480).documents
    assert_recovered(receipt)
    containers = there.containers()
    mounted = {
        name
        for name, container in containers.items()
        if any("s3-upstream" in mount["Destination"] for mount in container["Mounts"])
    }
    assert mounted == {STORE}
    assert KEY.secret_key not in str(containers)
    assert [name for name in there.volumes() if "objects" in name] == [], "nothing of a store is kept here"


class TestUpstreamChaos(StoreChaosTests):
    @pytest.fixture
    def shell(self, there: ContainerBench) -> Shell:
        return there


def test_a_lab_that_was_down_finds_its_objects_again(there: ContainerBench) -> None:
    there.lab.store.put("mine", b"data")
    there.labctl("down", timeout=UP_SECONDS)
    assert "up --no-s3` starts a store" in there.labctl(*UP, timeout=2 * UP_SECONDS).err
    assert there.lab.store.get("mine") == b"data"
