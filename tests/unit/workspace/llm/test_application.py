"""The recipe `llm`: the applications of Ray Serve that its jobs share a cluster with."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from lab.flows.inference import REPLICA


def test_an_application_has_the_name_of_its_job_and_is_stale_once_its_driver_is_gone(llm: Any) -> None:
    application = llm.application
    mine, other = application.name_of("raysubmit_a", "01000000"), application.name_of("k-3", "02000000")
    assert mine == "llm-raysubmit_a-01000000"
    assert application.stale([mine, other, "somebody-elses"], ["01000000"]) == [other]
    assert application.stale([mine, other], ["02000000", "01000000"]) == []


def test_replicas_are_known_to_labctl_by_the_application_of_their_job(llm: Any) -> None:
    deployment = f"ServeReplica:{llm.application.name_of('raysubmit_a', '01000000')}:engine"
    assert deployment.startswith(REPLICA.format(job="raysubmit_a"))
    assert not deployment.startswith(REPLICA.format(job="raysubmit"))


def test_the_proxy_that_listens_is_taken_and_else_one_is_started_on_a_free_port(llm: Any) -> None:
    address = llm.application.Address
    asked = address("127.0.0.1", 8000)
    assert llm.application.listening(asked, address("10.0.0.1", 8100), lambda _: 9) == address(
        "10.0.0.1", 8100
    )
    assert llm.application.listening(asked, None, lambda _: 9) == address("127.0.0.1", 9)


def test_a_port_that_somebody_listens_on_is_not_taken(llm: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert llm.application.free_port(llm.application.Address("127.0.0.1", port)) != port
    assert llm.application.free_port(llm.application.Address("127.0.0.1", port)) == port


def test_an_address_that_is_not_this_machines_is_refused(llm: Any) -> None:
    with pytest.raises(llm.application.ApplicationError, match=r"no port of 192\.0\.2\.1"):
        llm.application.free_port(llm.application.Address("192.0.2.1", 80))
