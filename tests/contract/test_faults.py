"""What happens to a service on purpose, and how it comes back."""

from __future__ import annotations

import pytest

from lab.errors import LabDownError, UnsupportedError
from lab.runtime.base import Feature
from lab.services import HEAD, STORE
from lab.topology import Progress, State
from tests.contract.harness import Harness

WORKER = "ray-worker-0"
OTHER = "ray-worker-1"

SHORT_SECONDS = 0.4
"""A node is given up after 0.5 s of silence at the earliest: see raylab_liveness.judge."""

SHORT_CUT_SECONDS = 1.8
"""What is sent to a node that is cut off is lost, not refused: each of three checks runs into its timeout."""

TRIES = 5


@pytest.mark.parametrize("method", ["kill", "stop"])
def test_a_node_that_is_killed_or_stopped_leaves_the_cluster_and_comes_back_as_a_new_one(
    lab: Harness, method: str
) -> None:
    before, bystander = lab.node_of(WORKER), lab.node_of(OTHER)
    untouched = {name: who for name, who in lab.identities().items() if name != WORKER}

    getattr(lab.runtime(), method)(WORKER)
    assert lab.state(WORKER) is State.EXITED
    status = lab.runtime().status().service(WORKER)
    assert status is not None
    assert status.detail, "the status does not say why"
    lab.eventually(lambda: lab.node(WORKER) is None, f"Ray declares the node of {WORKER} dead")
    assert {name: who for name, who in lab.identities().items() if name != WORKER} == untouched
    assert list(lab.runtime().logs(WORKER)), "the log of a dead service is gone"
    for again in ("kill", "stop", "pause"):
        with pytest.raises(LabDownError, match=WORKER):
            getattr(lab.runtime(), again)(WORKER)
    with pytest.raises(LabDownError, match=WORKER):
        lab.runtime().execute(WORKER, ["true"])

    progress: list[Progress] = []
    lab.runtime().start(WORKER, progress.append)
    assert lab.state(WORKER) is State.HEALTHY
    assert progress[-1].service == WORKER
    assert progress[-1].state is State.HEALTHY
    after = lab.node_of(WORKER)
    assert after.node_id != before.node_id
    assert after.resources["GPU"] == before.resources["GPU"]
    assert [node.alive for node in lab.nodes() if node.node_id == before.node_id] == [False]
    assert lab.node_of(OTHER).node_id == bystander.node_id
    assert lab.runtime().status().healthy


def test_a_start_that_is_not_waited_for_becomes_healthy_by_itself(lab: Harness) -> None:
    before = lab.node_of(WORKER)
    lab.runtime().kill(WORKER)
    lab.runtime().start(WORKER, wait=False)
    assert lab.state(WORKER) is not State.EXITED
    lab.eventually(lambda: lab.state(WORKER) is State.HEALTHY, f"{WORKER} is healthy")
    assert lab.node_of(WORKER).node_id != before.node_id, "healthy by the node that was killed"


def test_a_short_pause_is_survived(lab: Harness) -> None:
    """On a busy machine the commands can take longer, so that the node may be given up: then once more."""
    runtime, tries = lab.runtime(), []
    for _ in range(TRIES):
        before, node, began = lab.identities(), lab.node_of(WORKER), lab.now()
        runtime.pause(WORKER)
        runtime.resume(WORKER)
        took = lab.now() - began
        if took >= SHORT_SECONDS:
            runtime.start(WORKER)
        lab.eventually(lambda: lab.state(WORKER) is State.HEALTHY, f"{WORKER} is healthy")
        if lab.node_of(WORKER).node_id == node.node_id:
            assert lab.identities() == before
            return
        tries.append(f"{took:.1f} s")
    took_all = ", ".join(tries)
    raise AssertionError(f"no pause was survived, of less than {SHORT_SECONDS:g} s or more: {took_all}")


def test_a_node_that_is_paused_for_long_is_dead_for_the_cluster_and_comes_back_as_a_new_one(
    lab: Harness,
) -> None:
    before = lab.node_of(WORKER)
    lab.runtime().pause(WORKER)
    assert lab.state(WORKER) is State.PAUSED
    lab.runtime().pause(WORKER)
    assert lab.state(WORKER) is State.PAUSED
    lab.eventually(lambda: lab.node(WORKER) is None, f"Ray declares the node of {WORKER} dead")
    assert lab.state(WORKER) is State.PAUSED
    assert lab.state(OTHER) is State.HEALTHY

    lab.runtime().resume(WORKER)
    assert lab.state(WORKER) is not State.PAUSED
    lab.runtime().start(WORKER)
    assert lab.state(WORKER) is State.HEALTHY
    assert lab.node_of(WORKER).node_id != before.node_id


def test_a_paused_service_can_be_killed(lab: Harness) -> None:
    lab.runtime().pause(WORKER)
    lab.runtime().kill(WORKER)
    assert lab.state(WORKER) is State.EXITED
    lab.runtime().start(WORKER)
    assert lab.state(WORKER) is State.HEALTHY


def test_a_command_runs_as_the_service_would(lab: Harness) -> None:
    lab.scripted(WORKER, ["printenv", "RAYLAB_SERVICE_NAME"], WORKER)
    ended = lab.runtime().execute(WORKER, ["printenv", "RAYLAB_SERVICE_NAME"])
    assert (ended.exit_code, ended.output.strip()) == (0, WORKER)
    missing = lab.runtime().execute(WORKER, ["no-such-command"])
    assert missing.exit_code != 0
    assert missing.output


def test_the_output_of_a_command_is_given_a_line_at_a_time(lab: Harness) -> None:
    command = ["printenv", "RAYLAB_SERVICE_NAME", "RAY_AUTH_MODE"]
    lab.scripted(WORKER, command, f"{WORKER}\ntoken\n")
    lines: list[str] = []
    ended = lab.runtime().execute(WORKER, command, on_line=lines.append)
    assert lines == ended.output.splitlines() == [WORKER, "token"]
    assert ended.exit_code == 0

    def refuse(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.runtime().execute(WORKER, command, on_line=refuse)


def test_the_store_keeps_its_objects_when_it_is_killed(lab: Harness) -> None:
    lab.put("contract/kill", b"written before the kill")
    lab.runtime().kill(STORE)
    assert lab.state(STORE) is State.EXITED
    lab.runtime().start(STORE)
    assert lab.state(STORE) is State.HEALTHY
    assert lab.get("contract/kill") == b"written before the kill"


def test_up_repairs_what_is_broken_and_leaves_the_rest(lab: Harness) -> None:
    kept = {name: who for name, who in lab.identities().items() if name not in (WORKER, OTHER)}
    lab.runtime().kill(WORKER)
    lab.runtime().pause(OTHER)
    assert not lab.runtime().status().healthy
    assert lab.runtime().up(lab.spec).healthy
    assert {name: who for name, who in lab.identities().items() if name not in (WORKER, OTHER)} == kept
    lab.eventually(
        lambda: sorted(node.service for node in lab.nodes() if node.alive) == [HEAD, WORKER, OTHER],
        "Ray has given up the nodes that the services were before",
    )


def test_a_crashed_node_comes_back_by_itself_as_a_new_one_and_stays_down_when_it_is_killed_later(
    lab: Harness,
) -> None:
    before, bystander = lab.node_of(WORKER), lab.node_of(OTHER)
    lab.runtime().crash(WORKER)

    def back() -> bool:
        node = lab.node(WORKER)
        return node is not None and node.node_id != before.node_id and lab.state(WORKER) is State.HEALTHY

    lab.eventually(back, f"{WORKER} is back as a new node")
    assert lab.node_of(OTHER).node_id == bystander.node_id

    lab.runtime().start(WORKER)
    lab.runtime().kill(WORKER)
    lab.eventually(lambda: lab.node(WORKER) is None, f"Ray declares the node of {WORKER} dead")
    assert lab.state(WORKER) is State.EXITED
    lab.runtime().start(WORKER)
    assert lab.runtime().status().healthy


def test_a_node_that_is_cut_off_for_long_is_dead_for_the_cluster_and_comes_back_as_a_new_one(
    lab: Harness,
) -> None:
    if refuses_network(lab):
        return
    before = lab.node_of(WORKER)
    lab.runtime().disconnect(WORKER)
    lab.runtime().disconnect(WORKER)
    assert lab.state(WORKER) is State.RUNNING
    lab.eventually(lambda: lab.node(WORKER) is None, f"Ray declares the node of {WORKER} dead")
    assert lab.state(OTHER) is State.HEALTHY

    lab.runtime().reconnect(WORKER)
    lab.runtime().reconnect(WORKER)
    lab.runtime().start(WORKER)
    assert lab.state(WORKER) is State.HEALTHY
    assert lab.node_of(WORKER).node_id != before.node_id
    assert lab.runtime().status().healthy


def test_a_short_cut_is_survived(lab: Harness) -> None:
    if refuses_network(lab):
        return
    for _ in range(TRIES):
        node, began = lab.node_of(WORKER), lab.now()
        lab.runtime().disconnect(WORKER)
        lab.runtime().reconnect(WORKER)
        took = lab.now() - began
        if took < SHORT_CUT_SECONDS:
            break
        lab.runtime().start(WORKER)
    else:
        raise AssertionError(
            f"the last of {TRIES} cuts took {took:.1f} s; one of {SHORT_CUT_SECONDS:g} s is short"
        )
    lab.eventually(lambda: lab.state(WORKER) is State.HEALTHY, f"{WORKER} is healthy")
    assert lab.node_of(WORKER).node_id == node.node_id


def test_a_network_is_slowed_down_and_is_as_before_afterwards(lab: Harness) -> None:
    if refuses_network(lab):
        return
    lab.runtime().impair(WORKER, rate_mbit=50)
    lab.runtime().impair(WORKER, rate_mbit=100)
    lab.runtime().unimpair(WORKER)
    lab.runtime().unimpair(WORKER)
    lab.eventually(lambda: lab.state(WORKER) is State.HEALTHY, f"{WORKER} is healthy")


def test_a_training_key_without_rights_is_refused_and_the_root_key_is_not(lab: Harness) -> None:
    assert lab.refused() == ("", "")
    for _ in range(2):
        lab.runtime().set_training_key(False)
        assert lab.refused() == ("InvalidAccessKeyId", "")
    for _ in range(2):
        lab.runtime().set_training_key(True)
        assert lab.refused() == ("", "")


def refuses_network(lab: Harness) -> bool:
    """Whether nodes of this runtime have no network of their own; then asserts that nothing is done to it."""
    why = lab.runtime().missing(Feature.NETWORK)
    if not why:
        return False
    node = lab.node_of(WORKER)
    for act in ("disconnect", "reconnect", "impair", "unimpair"):
        with pytest.raises(UnsupportedError) as caught:
            getattr(lab.runtime(), act)(WORKER)
        assert why in caught.value.message
    assert lab.node_of(WORKER).node_id == node.node_id
    return True
