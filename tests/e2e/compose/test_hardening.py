"""What a container of the lab may do and who may reach it, as the engine itself says it."""

from __future__ import annotations

import json
import re
import stat

import pytest

from tests.contract.harness import http_status
from tests.e2e.compose.bench import ContainerBench, docker

NODES = ("ray-head", "ray-worker-0", "ray-worker-1")


def test_every_published_port_is_on_loopback(box: ContainerBench) -> None:
    published = {
        (name, binding["HostIp"])
        for name, container in box.containers().items()
        for bindings in (container["NetworkSettings"]["Ports"] or {}).values()
        for binding in bindings or ()
    }
    assert {host for _, host in published} == {"127.0.0.1"}
    assert not {name for name, _ in published} & set(NODES[1:]), "a worker publishes a port"


def test_no_container_is_privileged_or_root_or_holds_the_engine(box: ContainerBench) -> None:
    wrong = []
    for name, container in box.containers().items():
        host, config = container["HostConfig"], container["Config"]
        rules = {
            "privileged": not host["Privileged"],
            "capabilities": host["CapDrop"] == ["ALL"] and not host["CapAdd"],
            "no-new-privileges": any(o.startswith("no-new-privileges") for o in host["SecurityOpt"] or ()),
            "init": host["Init"] is True,
            "memory": host["Memory"] > 0,
            "pids": (host["PidsLimit"] or 0) > 0,
            "user": re.fullmatch(r"[1-9]\d*(:\d+)?", config["User"] or "") is not None,
            "socket": not [m for m in container["Mounts"] if "docker.sock" in str(m.get("Source"))],
            "own namespaces": (host["NetworkMode"], host["PidMode"]) != ("host", "host"),
        }
        wrong += [f"{name}: {rule}" for rule, kept in rules.items() if not kept]
    assert wrong == []


def test_a_killed_node_is_not_brought_back_behind_the_lessons_back(box: ContainerBench) -> None:
    policies = {
        name: container["HostConfig"]["RestartPolicy"]["Name"] for name, container in box.containers().items()
    }
    assert {policies[name] for name in NODES} <= {"no", ""}


def test_no_secret_stands_in_what_the_engine_shows_of_a_container(box: ContainerBench) -> None:
    secrets = {
        path.name: path.read_text().strip()
        for path in (box.folder / "secrets").iterdir()
        if path.suffix != ".ini" and path.suffix != ".json"
    }
    secrets["s3"] = json.loads((box.folder / "secrets" / "s3.json").read_text())["secret_key"]
    assert len(secrets) >= 4
    shown = json.dumps(box.containers())
    user = secrets.pop("s3-root.user", None)
    assert user
    assert [name for name, text in secrets.items() if text in shown] == []


def test_secret_files_are_readable_by_their_owner_only(box: ContainerBench) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (box.folder / "secrets").iterdir()}
    assert set(modes.values()) == {0o600}, modes


@pytest.mark.parametrize("path", ["/api/version", "/api/jobs/", "/api/v0/nodes", "/nodes?view=summary"])
def test_the_dashboard_refuses_whoever_has_no_token(box: ContainerBench, path: str) -> None:
    endpoints = box.lab.endpoints()
    assert http_status(f"{endpoints.dashboard}{path}") == 401
    assert http_status(f"{endpoints.dashboard}{path}", token="0" * 64) in (401, 403)
    assert http_status(f"{endpoints.dashboard}{path}", token=endpoints.ray_token) == 200


@pytest.mark.long
def test_the_cluster_refuses_a_node_and_a_driver_that_have_no_token(box: ContainerBench) -> None:
    head = box.containers()["ray-head"]
    (network,) = head["NetworkSettings"]["Networks"]
    intruder = (
        "run", "--rm", "--network", network, "--entrypoint", "python", "--env", "RAY_AUTH_MODE=disabled",
        head["Config"]["Image"], "-c",
        "import ray; ray.init('ray://ray-head:10001'); print('inside', ray.nodes())",
    )  # fmt: skip
    assert "inside" not in docker(*intruder, code=None, timeout=120)


def test_jupyter_refuses_whoever_has_no_token(box: ContainerBench) -> None:
    base, _, query = box.lab.endpoints().jupyter.partition("/?")
    assert http_status(f"{base}/api/contents") == 403
    assert http_status(f"{base}/api/contents?{query}") == 200
