"""labctl is interrupted or killed in the middle: nothing is left behind, or the next call mends it."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from lab.topology import State
from tests.e2e.harness import UP, Bench, Running

INTERRUPTED = 130


@pytest.fixture(scope="module")
def cold(make_bench: Callable[[], Bench]) -> Bench:
    """A lab that is not up; one for all tests here, so that each shows that the one before left nothing."""
    return make_bench()


def starting(bench: Bench, service: str) -> tuple[Running, dict[str, int]]:
    """`labctl up` at the moment in which it has started this service, and the ports it chose."""
    up = bench.start(*UP)
    up.says(service, "starting")
    assert service in bench.leaders()
    assert bench.processes()
    return up, dict(bench.state().ports)


@pytest.mark.parametrize(
    ("service", "number", "code"),
    [
        ("minio", signal.SIGINT, 130),
        ("ray-head", signal.SIGINT, 130),
        ("ray-head", signal.SIGTERM, 143),
        ("ray-worker-0", signal.SIGINT, 130),
    ],
)
def test_an_interrupted_up_leaves_nothing(
    cold: Bench, service: str, number: signal.Signals, code: int
) -> None:
    up, ports = starting(cold, service)
    up.signal(number)
    ended = up.end()
    assert ended.code == code, ended
    assert "Traceback" not in ended.err, ended
    cold.nothing_left(ports)


def test_down_cleans_after_an_up_that_was_killed(cold: Bench) -> None:
    up, ports = starting(cold, "ray-head")
    up.signal(signal.SIGKILL)
    up.end()
    left = set(cold.leaders())
    assert {"minio", "ray-head"} <= left
    assert cold.processes(), "nothing was left to clean"
    assert set(cold.labctl("down", "--json").document["stopped"]) == left
    cold.nothing_left(ports)


def test_up_goes_on_where_one_was_killed(cold: Bench) -> None:
    up, ports = starting(cold, "ray-worker-0")
    up.signal(signal.SIGKILL)
    up.end()
    left = cold.leaders()
    assert not cold.healthy()
    cold.labctl(*UP)
    assert cold.healthy()
    assert dict(cold.state().ports) == ports
    kept = cold.leaders()
    assert (kept["minio"], kept["ray-head"]) == (left["minio"], left["ray-head"]), (
        "what was healthy was replaced"
    )
    cold.labctl("down")
    cold.nothing_left(ports)


def test_ctrl_c_during_a_fault_undoes_it(bench: Bench) -> None:
    job = bench.submit("resumes.py", "never")
    target = bench.where(job)
    idle = "ray-worker-1" if target == "ray-worker-0" else "ray-worker-0"
    refused = bench.labctl("fault-inject", idle, "--job", job, "--json", code=11).document["error"]
    assert f"the job runs on {target}" in refused["message"]
    assert f"labctl --lab {bench.name} fault-inject {target}" in refused["hint"]

    fault = bench.start("fault-inject", target, "--fault", "pause", "--for", "1h", "--job", job)
    fault.says("pause", target)
    assert bench.state_of(target) is State.PAUSED
    fault.signal(signal.SIGINT)
    ended = fault.end()
    assert ended.code == INTERRUPTED, ended
    assert "Traceback" not in ended.err, ended
    assert bench.state_of(target) is State.HEALTHY
    assert bench.healthy()
