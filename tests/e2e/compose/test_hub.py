"""JupyterHub in its container: ann and ben work as Unix users of their own, with a wall between them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

import pytest

from lab.api.hub import HOMES_INSIDE
from lab.people.registry import FOLDER, Registry
from lab.runtime import ports
from lab.services import HUB, PROXY
from tests.e2e.browser import Browser
from tests.e2e.compose.bench import UP_SECONDS, ContainerBench
from tests.e2e.harness import PATIENCE, UP
from tests.e2e.hubs import check_infeasible, check_jobs, check_links, check_memory, limit_memory
from tests.waiting import eventually

FIRST = 20_000
"""Smallest number of a person's user."""

MAKE_WHEEL = (
    "import sys, zipfile; wheel = zipfile.ZipFile(sys.argv[1], 'w'); info = 'hers-1.0.dist-info/'; "
    "files = {'hers.py': '', info + 'METADATA': 'Metadata-Version: 2.1\\nName: hers\\nVersion: 1.0\\n', "
    "info + 'WHEEL': 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n', "
    "info + 'RECORD': ''}; "
    "[wheel.writestr(name, text) for name, text in files.items()]; wheel.close()"
)
"""Makes a package of one empty module."""

READ_PROCESSES = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"


@pytest.mark.long
def test_ann_and_ben(make_container_bench: Callable[[], ContainerBench]) -> None:
    """Ann comes through the class's one address, ben on this machine."""
    bench = make_container_bench()
    limit_memory(bench)
    address = ("--address", f"localhost:{ports.choose('gateway', None, (), usual=False)}")
    start = (*UP, "--class", "--hub", *address)
    said = bench.labctl(*start, timeout=UP_SECONDS)
    assert "as the user of labctl" not in said.out + said.err
    _check_container(bench)
    endpoints = bench.lab.endpoints()
    handed = bench.labctl("class", "add", "ann", "ben", "--json").document["people"]
    tokens = {one["name"]: one["token"] for one in handed}
    invited = bench.labctl("class", "invite", "--all", "--json").document["links"]
    links = {one["name"]: one["link"] for one in invited}
    ann, ben = Browser(endpoints.address, "ann", endpoints.authority), Browser(endpoints.hub, "ben")

    check_links(bench, ann, ben, links, tokens)
    for person in (ann, ben):
        person.open_lab()
    check_jobs(ann, ben)
    check_infeasible(ann, ben, tokens)
    check_memory(ann)
    _check_addresses(bench)
    _check_tools(ann)
    uid = _check_walls(bench, ann, tokens)
    _check_crowds(bench, ann)
    _check_kill(bench, ann)

    assert ben.type("nohup sleep 987 > /dev/null 2>&1 & echo kept > ~/kept; sync")[0] == 0
    bench.labctl("class", "reset", "ben")
    eventually(lambda: not bench.pids(HUB, "sleep", "987"), PATIENCE, "all of ben's ends with his token")
    assert bench.exec(HUB, "cat", f"{HOMES_INSIDE}/ben/kept") == "kept\n"
    bench.labctl("class", "remove", "ben", "--delete-work", "--yes")
    assert bench.exec(HUB, "ls", "-A", f"{HOMES_INSIDE}/ben") == ""

    assert ann.type("echo mine > ~/note")[0] == 0
    bench.labctl("down")
    bench.labctl(*start, timeout=UP_SECONDS)
    assert ann.signed_in
    ann.open_lab()
    assert ann.type("cat ~/note; id -u") == (0, f"mine\r\n{uid}\r\n")
    assert ann.type("python -c 'import hers, ray, torch'") == (0, "")


def _check_addresses(bench: ContainerBench) -> None:
    """JupyterHub's lines of requests have the people's addresses, not that of the class's proxy."""
    proxy = bench.exec(PROXY, "hostname", "-i").strip()
    asked = [line for line in bench.lab.logs(HUB) if re.search(r" /hub/(login|invite)\b.*\(@", line)]
    assert proxy
    assert asked
    assert not [line for line in asked if f"@{proxy})" in line]


def _check_tools(ann: Browser) -> None:
    """Her terminal opens in ~/work, with what people type; `pip install` puts packages into her home."""
    code, said = ann.type("pwd; for tool in git nano less curl ps; do command -v $tool; done")
    assert (code, said.split("\r\n")[0]) == (0, f"{HOMES_INSIDE}/ann/work"), said
    wheel = "hers-1.0-py3-none-any.whl"
    code, said = ann.type(
        f"cd ~ && python -c {shlex.quote(MAKE_WHEEL)} {wheel} && pip install --no-index {wheel}"
    )
    assert (code, "Successfully installed hers-1.0" in said) == (0, True), said
    assert ann.type("cd ~/work && python -c 'import hers; print(hers.__file__)'")[1].startswith(
        f"{HOMES_INSIDE}/ann/.local/"
    )
    code, said = ann.type("truncate -s 5G ~/large")
    assert (code != 0, "File too large" in said) == (True, True), said


def _check_container(bench: ContainerBench) -> None:
    """The hub has five capabilities, limits, and no secret."""
    host = bench.containers()[HUB]["HostConfig"]
    assert (host["Privileged"], host["CapDrop"], host["PidMode"]) == (False, ["ALL"], "")
    added = {name.removeprefix("CAP_") for name in host["CapAdd"]}
    assert added == {"CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"}
    assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"])
    assert min(host["Memory"], host["PidsLimit"]) > 0
    mounts = {mount["Destination"] for mount in bench.containers()[HUB]["Mounts"]}
    assert not [path for path in mounts if "docker.sock" in path or path.startswith("/run/secrets")]


def _check_walls(bench: ContainerBench, ann: Browser, tokens: dict[str, str]) -> int:
    """From ann's terminal ben's things and the hub's are out of reach; returns the number of her user."""
    code, said = ann.type("whoami; id -u; id -G; stat -c %a ~; grep -E 'CapEff|NoNewPrivs' /proc/self/status")
    name, uid, groups, mode, capabilities, privileges = said.split("\r\n")[:6]
    assert (code, name, groups, mode) == (0, "ann", uid, "700"), said
    assert int(uid) >= FIRST
    assert (capabilities.split()[1].strip("0"), privileges.split()[1]) == ("", "1")
    people = Registry(bench.folder / FOLDER).people()
    assert ann.type("cat ~/work/README.md > /dev/null")[0] == 0
    for path in (
        "~ben/work/README.md",
        f"{HOMES_INSIDE}/ben",
        "/var/lib/raylab/people/people.json",
        "/var/lib/raylab/hub/state/jupyterhub.sqlite",
        "/var/lib/raylab/hub/state/cookie_secret",
        "/etc/raylab/hub/.",
        "/proc/1/environ",
    ):
        code, said = ann.type(f"ls {path} && cat {path}")
        assert (code != 0, "ermission denied" in said) == (True, True), (path, said)
    assert ann.type("ls -A /run/secrets") == (0, "")
    _, everything = ann.type(READ_PROCESSES)
    assert people["ann"].key.secret_key in everything
    secrets = bench.runtime()._secrets()
    forbidden = {
        "ben's key": people["ben"].key.secret_key,
        "ben's token": tokens["ben"],
        "her own token": tokens["ann"],
        "Ray's token": secrets.ray_token,
        "the root key": secrets.root.secret_key,
        "the training key": secrets.store.secret_key,
    }
    assert [what for what, secret in forbidden.items() if secret in everything] == []
    assert "RAYLAB_PERSON=ben" not in everything
    (server,) = [
        pid for pid in bench.pids(HUB, "-m", "jupyterhub.singleuser") if bench.owner(HUB, pid) != uid
    ]
    code, said = ann.type(f"kill -9 {server}")
    assert (code != 0, "not permitted" in said) == (True, True), said
    return int(uid)


def _check_crowds(bench: ContainerBench, ann: Browser) -> None:
    """A job that forks 8,000 processes ends, and its node goes on; one that kills its node gets it back."""

    def workers() -> set[str]:
        return {one.node_id for one in bench.lab.api.nodes() if one.alive and one.resources.get("CPU")}

    spawn = "import os; [os.posix_spawn('/bin/sleep', ['sleep', '600'], {}) for _ in range(8000)]; os.wait()"
    before = workers()
    code, said = ann.type(f'labctl submit --num-cpus 1 -- python -c "{spawn}"')
    assert (code, "ran too many processes" in " ".join(said.split())) == (9, True), said
    assert workers() == before
    assert ann.type("labctl submit --detach -- python -c 'import os; os.kill(-1, 9)'")[0] == 0
    eventually(lambda: len(workers() - before) == 1, PATIENCE, "the worker is there again")
    eventually(lambda: bench.lab.status().healthy, PATIENCE, "the lab is whole again")


def _check_kill(bench: ContainerBench, ann: Browser) -> None:
    """A hub that is killed is there again, without what it had left; her kernel goes on, she is signed in."""
    kernel = ann.api("POST", "kernels", {"name": "python3"}).json()["id"]
    container = bench.container(HUB)
    (hub,) = bench.pids(HUB, "jupyterhub", "--config")
    bench.exec(HUB, "python", "-c", f"import os; os.kill({hub}, 9)")
    eventually(lambda: hub not in bench.pids(HUB, "jupyterhub", "--config"), PATIENCE, "the hub is killed")
    eventually(lambda: bench.lab.status().healthy, PATIENCE, "the hub is healthy again")
    assert ann.signed_in
    assert eventually(ann.kernels, PATIENCE, "her server is led to again") == [kernel]
    assert bench.container(HUB) == container
    assert len(bench.pids(HUB, "jupyterhub", "--config")) == 1
    assert len(bench.pids(HUB, "run", "--config")) == 1  # Caddy's
    assert len(bench.pids(HUB, "-m", "jupyterhub_idle_culler")) == 1
