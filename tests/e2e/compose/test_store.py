"""The object store of a lab of containers."""

from __future__ import annotations

from tests.e2e.compose.bench import ContainerBench
from tests.e2e.store import check_keys


def test_the_key_of_jobs_reaches_one_bucket(box: ContainerBench) -> None:
    check_keys(box)


def test_only_the_store_and_its_set_up_have_the_root_key(box: ContainerBench) -> None:
    having = set()
    for service, container in box.containers().items():
        mounted = {mount["Destination"] for mount in container["Mounts"]}
        if "/run/secrets/s3-root.password" in mounted:
            having.add(service)
        assert "s3-root" not in str(container["Config"]["Env"]) or service in ("minio", "s3-setup")
    assert having == {"minio", "s3-setup"}
    assert "s3-root" not in box.exec("ray-head", "ls", "/run/secrets")


def test_the_set_up_said_what_it_did(box: ContainerBench) -> None:
    said = list(box.lab.runtime.logs("s3-setup"))
    assert said[-1].endswith("the object store is set up")
