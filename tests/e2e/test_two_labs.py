"""Two labs on one machine: what happens to one is nothing to the other."""

from __future__ import annotations

from collections.abc import Callable

from lab.services import is_node
from lab.topology import State
from tests.e2e.harness import UP, Bench

WORKER = "ray-worker-0"


def test_two_labs_live_side_by_side(bench: Bench, make_bench: Callable[[], Bench]) -> None:
    first, second = bench, make_bench()
    before, at_first = first.leaders(), {*first.processes().values()}
    second.labctl(*UP)
    assert second.healthy()
    assert first.healthy()
    theirs = second.state().ports
    assert not {*theirs.values()} & {*first.state().ports.values()}
    assert not {*second.processes()} & {*first.processes()}
    assert first.lab.endpoints().ray_token != second.lab.endpoints().ray_token

    first.lab.runtime.kill(WORKER)
    assert first.state_of(WORKER) is State.EXITED
    others = second.leaders()
    assert second.healthy()
    first.labctl("restart", WORKER)
    assert second.leaders() == others
    assert {**first.leaders(), WORKER: None} == {**before, WORKER: None}

    kept = first.leaders()
    running = {*first.processes().values()}  # Ray starts and ends some of them by itself
    raylets = {process for process in running if process.name() == "raylet"}
    assert len(raylets) == len([*filter(is_node, kept)])
    lasting = at_first & running | raylets
    second.labctl("down")
    second.nothing_left(theirs)
    assert first.healthy()
    assert first.leaders() == kept
    assert lasting <= {*first.processes().values()}
