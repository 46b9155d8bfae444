"""Two labs on one machine: what happens to one is nothing to the other."""

from __future__ import annotations

from collections.abc import Callable

from lab.services import is_node
from lab.topology import State
from tests.e2e.harness import UP, Bench

WORKER = "ray-worker-0"


def test_two_labs_live_side_by_side(bench: Bench, make_bench: Callable[[], Bench]) -> None:
    first, second = bench, make_bench()
    before = first.leaders()
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

    kept, ray = first.leaders(), first.servers_of_ray()
    assert len(ray) == len([*filter(is_node, kept)]) + 1
    second.labctl("down")
    second.nothing_left(theirs)
    assert first.healthy()
    assert first.leaders() == kept
    assert first.servers_of_ray() == ray
