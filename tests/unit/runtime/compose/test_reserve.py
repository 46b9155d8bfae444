"""Whom containers run as, and whether that user can read and write what they are given."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from lab.errors import NotFoundError, SetupError, UnsupportedError
from lab.runtime.compose import project, reserve
from lab.runtime.compose.engine import DockerEngine
from lab.services import GATEWAY, PROXY, STORE
from lab.topology.address import Address
from tests.conftest import ROOT
from tests.unit.host.test_certificates import make
from tests.unit.runtime.compose.fake_docker import lab_state

OTHER = (12345, 12345)
"""A user who owns nothing and is in no group."""


def engine(options: str = "[]", system: str = "Debian GNU/Linux 12") -> DockerEngine:
    """An engine that says so of itself."""

    def run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        answer = argv[-1].replace("{{json .SecurityOptions}}", options)
        answer = answer.replace("{{json .OperatingSystem}}", f'"{system}"')
        return subprocess.CompletedProcess(argv, 0, answer, "")

    return DockerEngine(("true",), run)


# The proxy of a class


def test_the_proxy_is_told_of_the_services_by_their_names_in_the_network(tmp_path: Path) -> None:
    reserve.write_proxy(Address("class.example.org", listen="192.0.2.7"), (STORE, GATEWAY, PROXY), tmp_path)
    settings = json.loads((tmp_path / "proxy.json").read_text())
    servers = settings["apps"]["http"]["servers"]
    assert [server["listen"] for server in servers.values()] == [[":8443"], ["127.0.0.1:8281"]]
    assert '"dial": "gateway:8280"' in json.dumps(servers["address"])
    assert settings["storage"]["root"] == "/data"


def test_the_proxy_gets_a_copy_of_a_certificate_of_ones_own(tmp_path: Path) -> None:
    files = make(tmp_path, "class.example.org", 30)
    address = Address("class.example.org", 443, "192.0.2.7", *map(str, files))
    reserve.write_proxy(address, (GATEWAY, PROXY), tmp_path / "proxy")
    settings = json.loads((tmp_path / "proxy" / "proxy.json").read_text())
    loaded = settings["apps"]["tls"]["certificates"]["load_files"]
    assert loaded == [{"certificate": "/data/own.pem", "key": "/data/own.key"}]
    assert (tmp_path / "proxy" / "own.key").read_bytes() == files[1].read_bytes()
    files[1].unlink()
    with pytest.raises(NotFoundError, match=r"own\.key"):
        reserve.write_proxy(address, (GATEWAY, PROXY), tmp_path / "proxy")


# Whom


def test_containers_run_as_the_caller_and_never_as_the_machines_root() -> None:
    assert reserve.container_user(engine(), lambda: 501) == (501, os.getegid())
    assert reserve.container_user(engine(), lambda: 0) == (1000, 1000)


def test_where_user_0_is_the_caller_containers_run_as_user_0() -> None:
    assert reserve.container_user(engine('["name=rootless"]'), lambda: 501) == (0, 0)
    desktop = engine(system="Docker Desktop")
    assert reserve.container_user(desktop, lambda: 501, "linux") == (0, 0)
    assert reserve.container_user(desktop, lambda: 501, "darwin") == (501, os.getegid())


def test_an_engine_that_remaps_users_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="userns-remap") as caught:
        reserve.container_user(engine('["name=seccomp,profile=builtin","name=userns"]'), lambda: 501)
    assert "--runtime local" in caught.value.hint


# What is mounted


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with what is mounted, closed above that: no container passes there."""
    root = tmp_path / "my checkout"
    for folder, names in reserve.MOUNTED.items():
        for name in names:
            (root / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (root / folder / name).touch()
            (root / folder / name).chmod(0o644)
    for path in root.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    for closed in (root, root / "compose", root / "compose/grafana"):
        closed.chmod(0o700)
    return root


def test_what_is_looked_at_is_mounted_and_there() -> None:
    files = "".join(path.read_text() for path in project.COMPOSE.glob("*.yaml"))
    for folder, names in reserve.MOUNTED.items():
        source = folder.replace("compose", ".", 1) if folder.startswith("compose") else f"../{folder}"
        assert f"- {source}:/" in files or f":-{source}/{names[0]}}}:/" in files
        assert all((ROOT / folder / name).is_file() for name in names)


def test_an_open_checkout_will_do(checkout: Path) -> None:
    reserve.check_readable(OTHER, checkout)


@pytest.mark.parametrize("closed", ["lab", "lab/probe", "lab/__init__.py", "compose/prometheus"])
def test_a_checkout_that_containers_cannot_read_is_refused(checkout: Path, closed: str) -> None:
    path = checkout / closed
    path.chmod(path.stat().st_mode & 0o700)
    with pytest.raises(SetupError, match="run as user 12345") as caught:
        reserve.check_readable(OTHER, checkout)
    assert str(path) in caught.value.message
    assert f"cd '{checkout}' && chmod -R a+rX lab forkserver kueue compose/prometheus" in caught.value.hint
    reserve.check_readable((0, 0), checkout)


def test_a_folder_without_its_x_bit_is_closed(checkout: Path) -> None:
    (checkout / "lab/probe").chmod(0o744)
    with pytest.raises(SetupError, match="lab/probe: they"):
        reserve.check_readable(OTHER, checkout)


def test_a_checkout_that_lacks_a_file_is_refused(checkout: Path) -> None:
    (checkout / "lab/__init__.py").unlink()
    with pytest.raises(SetupError, match=r"__init__\.py"):
        reserve.check_readable(OTHER, checkout)


def test_the_folder_of_data_sets_is_there_before_the_engine_would_make_it_as_root(tmp_path: Path) -> None:
    folder = tmp_path / "labs" / "lab"
    current = lab_state(folder)

    reserve.write_files(current, folder, (os.geteuid(), os.getegid()), {})

    data = tmp_path / "labs" / "data"
    assert data.stat().st_mode & 0o777 == 0o755
    assert f"LAB_DATA='{data}'\n" in (folder / "compose.env").read_text()


# The workspace


def test_a_workspace_of_somebody_else_gets_a_note(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert "Jupyter cannot write" in reserve.workspace_note(OTHER, tmp_path)
    tmp_path.chmod(0o777)
    assert reserve.workspace_note(OTHER, tmp_path) == ""
    assert reserve.workspace_note((0, 0), tmp_path) == ""


def test_a_workspace_that_is_no_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for name in ("file", "nothing"):
        with pytest.raises(SetupError, match=f"{tmp_path}/{name}") as caught:
            reserve.workspace_note(OTHER, Path(name))
        assert "LAB_WORKSPACE" in caught.value.hint
