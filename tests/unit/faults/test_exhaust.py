"""Faults that use up something of a node: oom, disk-full."""

from __future__ import annotations

import pytest

from lab.errors import RefusedError, ServiceError
from lab.faults import RankProcess, find_fault
from lab.topology import State
from tests.unit.faults.ranks import PID, W0, asked, probe, scene, up

NAMES = [("oom", "memory"), ("disk-full", "disk")]


@pytest.mark.parametrize(("name", "word"), NAMES)
def test_it_lasts_until_every_rank_of_the_node_is_gone_or_it_is_told_to_stop(name: str, word: str) -> None:
    runtime, fault = up(), find_fault(name)
    two = (RankProcess(1, W0, PID + 1), RankProcess(0, W0, PID))
    there = scene(runtime, ranks=two)
    probe(runtime, "hog", "start", word, PID, PID + 1)
    probe(runtime, "hog", "stop", word)

    fault.inject(there)
    assert there.memo == {"hog": word}
    fault.revert(scene(runtime, ranks=(), memo=there.memo))

    assert asked(runtime) == 2
    assert runtime.status().healthy


@pytest.mark.parametrize(("name", "word"), NAMES)
def test_a_node_that_did_not_survive_is_started_again(name: str, word: str) -> None:
    runtime = up()
    runtime.die(W0, "out of memory")
    find_fault(name).revert(scene(runtime, memo={"hog": word}))
    node = runtime.status().service(W0)
    assert node is not None
    assert node.state is State.HEALTHY


@pytest.mark.parametrize("name", ["oom", "disk-full"])
def test_a_node_without_a_rank_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="runs no rank"):
        find_fault(name).inject(scene(up(), ranks=()))


def test_what_cannot_be_used_up_is_told() -> None:
    runtime = up()
    why = "the node's memory cannot be taken: the memory of this node has no limit"
    probe(runtime, "hog", "start", "memory", PID, problem=why, exit_code=4)
    with pytest.raises(ServiceError, match="has no limit"):
        find_fault("oom").inject(scene(runtime))
