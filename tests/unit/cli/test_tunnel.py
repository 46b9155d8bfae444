"""What a person who is here by ssh is told."""

from __future__ import annotations

import pytest

from lab.cli.tunnel import tunnel
from lab.topology import ServiceStatus, State

WORKER = ServiceStatus("ray-worker-0", State.HEALTHY)
SERVICES = (
    ServiceStatus("ray-head", State.HEALTHY, url="http://127.0.0.1:8265"),
    WORKER,
    ServiceStatus("jupyter", State.HEALTHY, url="http://127.0.0.1:8888/?token=t"),
    ServiceStatus("prometheus", State.HEALTHY, url="http://127.0.0.1:9090"),
)


@pytest.mark.parametrize(("port", "option"), [("22", ""), ("2222", " -p 2222")])
def test_the_pages_of_a_lab_far_away_have_one_command(
    port: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    _, command = tunnel(SERVICES, {"SSH_CONNECTION": f"192.0.2.9 50123 192.0.2.7 {port}"})
    assert command == f"  ssh -L 8265:127.0.0.1:8265 -L 8888:127.0.0.1:8888{option} ann@192.0.2.7"


@pytest.mark.parametrize("connection", ["", "odd", "192.0.2.9 50123 192.0.2.7"])
def test_at_the_machine_itself_nothing_is_said(connection: str) -> None:
    assert tunnel(SERVICES, {"SSH_CONNECTION": connection} if connection else {}) == ()


def test_without_pages_nothing_is_said() -> None:
    assert tunnel((WORKER,), {"SSH_CONNECTION": "192.0.2.9 50123 192.0.2.7 22"}) == ()
