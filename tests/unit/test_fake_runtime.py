"""What the fake runtime has beyond the contract: a clock, scripted failures, a journal."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from lab.errors import ClusterError, LabDownError, PortTakenError, ServiceError, WaitTimeoutError
from lab.runtime.base import Feature
from lab.services import HEAD, JUPYTER, REDIS, STORE
from lab.topology import LabSpec, Progress, State
from tests.fakes import FakeClock, FakeHost, FakeRuntime

SPEC = LabSpec()
WORKER = "ray-worker-0"


@pytest.fixture
def runtime() -> FakeRuntime:
    made = FakeRuntime("raylab")
    made.up(SPEC)
    return made


def state(runtime: FakeRuntime, service: str) -> State:
    found = runtime.status().service(service)
    assert found is not None
    return found.state


# The clock


def test_time_passes_only_in_sleep_and_runs_what_is_due_at_its_moment() -> None:
    clock = FakeClock(100.0)
    seen: list[tuple[str, float]] = []
    clock.after(2, lambda: seen.append(("second", clock())))
    clock.after(1, lambda: seen.append(("first", clock())))
    clock.after(9, lambda: seen.append(("late", clock())))
    assert clock() == 100.0
    clock.sleep(3)
    assert seen == [("first", 101.0), ("second", 102.0)]
    assert clock() == 103.0
    assert clock.anything_due


def test_what_an_action_schedules_happens_too() -> None:
    clock = FakeClock(0.0)
    seen: list[float] = []
    clock.after(1, lambda: clock.after(1, lambda: seen.append(clock())))
    clock.sleep(5)
    assert seen == [2.0]
    assert not clock.anything_due


# Scripted starts


def test_a_failure_at_the_first_up_leaves_nothing_up() -> None:
    runtime = FakeRuntime("raylab")
    runtime.fail_on_start(WORKER, ServiceError("no memory"))
    with pytest.raises(ServiceError, match="no memory"):
        runtime.up(SPEC)
    assert not runtime.status().up
    assert runtime.up(SPEC).healthy, "the failure is for one start only"


def test_a_failure_while_up_repairs_leaves_what_ran_before_and_what_is_healthy_by_then(
    runtime: FakeRuntime,
) -> None:
    before = {s.service: s.pid for s in runtime.status().services}
    runtime.kill("ray-worker-1")
    runtime.die(JUPYTER)
    runtime.fail_on_start("ray-worker-1", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        runtime.up(SPEC)
    after = {s.service: s.pid for s in runtime.status().services}
    assert {name: after[name] for name in (STORE, HEAD, WORKER)} == {
        name: before[name] for name in (STORE, HEAD, WORKER)
    }
    assert state(runtime, JUPYTER) is State.HEALTHY
    assert state(runtime, "ray-worker-1") is State.EXITED


def test_a_slow_service_is_starting_for_as_many_polls_as_asked(runtime: FakeRuntime) -> None:
    runtime.kill(WORKER)
    runtime.slow_start(WORKER, 3)
    runtime.start(WORKER, wait=False)
    assert [state(runtime, WORKER) for _ in range(3)] == [State.STARTING, State.STARTING, State.HEALTHY]


def test_who_waits_for_a_slow_service_takes_the_clocks_time(runtime: FakeRuntime) -> None:
    runtime.kill(WORKER)
    runtime.slow_start(WORKER, 20)
    progress: list[Progress] = []
    begin = runtime.clock()
    runtime.start(WORKER, progress.append)
    assert runtime.clock() - begin == pytest.approx(2.0)
    assert (progress[-1].service, progress[-1].state) == (WORKER, State.HEALTHY)
    assert progress[-1].seconds == pytest.approx(2.0)


def test_a_service_that_never_gets_ready_is_given_up(runtime: FakeRuntime) -> None:
    runtime.kill(WORKER)
    runtime.slow_start(WORKER, 10**6)
    with pytest.raises(WaitTimeoutError, match=WORKER):
        runtime.start(WORKER)


def test_a_start_that_nobody_waits_for_fails_in_the_status(runtime: FakeRuntime) -> None:
    runtime.kill(WORKER)
    runtime.fail_on_start(WORKER, ServiceError("no memory"))
    runtime.start(WORKER, wait=False)
    status = runtime.status().service(WORKER)
    assert status is not None
    assert (status.state, status.detail) == (State.EXITED, "no memory")


# The cluster


def test_a_killed_node_is_listed_as_alive_until_its_silence_is_noticed(runtime: FakeRuntime) -> None:
    runtime.kill(WORKER)
    node = next(n for n in runtime.nodes() if n.service == WORKER)
    assert node.alive
    runtime.clock.sleep(1.0)
    dead = next(n for n in runtime.nodes() if n.node_id == node.node_id)
    assert not dead.alive
    assert dead.ended_at == runtime.clock()


def test_a_stopped_node_is_dead_at_once(runtime: FakeRuntime) -> None:
    runtime.stop(WORKER)
    assert [n.alive for n in runtime.nodes() if n.service == WORKER] == [False]


@pytest.mark.parametrize(("seconds", "expected"), [(0.5, State.HEALTHY), (5.0, State.EXITED)])
def test_whether_a_paused_node_survives_depends_on_how_long(
    runtime: FakeRuntime, seconds: float, expected: State
) -> None:
    runtime.pause(WORKER)
    runtime.clock.sleep(seconds)
    runtime.resume(WORKER)
    assert state(runtime, WORKER) is expected


def test_without_its_head_there_is_no_cluster_and_the_workers_lose_their_place(runtime: FakeRuntime) -> None:
    runtime.kill(HEAD)
    with pytest.raises(ClusterError):
        runtime.nodes()
    assert state(runtime, WORKER) is State.RUNNING
    runtime.start(HEAD)
    assert [n.service for n in runtime.nodes()] == [HEAD]
    runtime.start(WORKER)
    assert state(runtime, WORKER) is State.HEALTHY


def test_a_service_can_die_by_itself_at_a_given_time(runtime: FakeRuntime) -> None:
    runtime.clock.after(5, lambda: runtime.die(WORKER, "out of memory"))
    runtime.clock.sleep(4)
    assert state(runtime, WORKER) is State.HEALTHY
    runtime.clock.sleep(1)
    status = runtime.status().service(WORKER)
    assert status is not None
    assert (status.state, status.detail) == (State.EXITED, "out of memory")
    assert ("kill", WORKER) not in runtime.calls()


def test_a_lab_of_which_nothing_runs_is_down(runtime: FakeRuntime) -> None:
    for service in runtime.status().services:
        runtime.die(service.service)
    assert not runtime.status().up
    with pytest.raises(LabDownError):
        runtime.endpoints()


# Logs


def test_following_a_log_goes_on_while_something_is_still_to_happen(runtime: FakeRuntime) -> None:
    runtime.clock.after(1, lambda: runtime.say(WORKER, "one"))
    runtime.clock.after(2, lambda: runtime.say(WORKER, "two"))
    assert list(runtime.logs(WORKER, follow=True)) == [f"{WORKER} started", "one", "two"]


def test_following_a_log_ends_with_the_service(runtime: FakeRuntime) -> None:
    runtime.clock.after(1, lambda: runtime.die(WORKER))
    runtime.clock.after(60, lambda: runtime.say(WORKER, "from beyond"))
    assert list(runtime.logs(WORKER, follow=True, tail=0)) == []
    assert runtime.clock.anything_due


# The machine


def test_labs_of_other_names_get_other_ports(runtime: FakeRuntime) -> None:
    other = FakeRuntime("other", runtime.host)
    other.up(replace(SPEC, name="other"))
    ours, theirs = runtime.host.labs["raylab"].ports, runtime.host.labs["other"].ports
    assert not set(ours.values()) & set(theirs.values())
    other.down()
    assert runtime.status().healthy


@pytest.mark.parametrize("holder", ["nginx", "lab raylab"])
def test_a_chosen_port_that_is_taken_is_refused_with_its_holder(runtime: FakeRuntime, holder: str) -> None:
    port = 8000 if holder == "nginx" else runtime.host.labs["raylab"].ports["s3"]
    runtime.host.taken[8000] = "nginx"
    other = FakeRuntime("other", runtime.host)
    with pytest.raises(PortTakenError, match=f"{port}.*{holder}"):
        other.up(LabSpec("other", ports=(("dashboard", port),)))
    assert not other.status().up


def test_a_chosen_port_is_used() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(replace(SPEC, ports=(("dashboard", 9265),)))
    assert runtime.endpoints().dashboard == "http://127.0.0.1:9265"


def test_the_journal_has_every_call_with_its_lab_and_its_time() -> None:
    host = FakeHost(FakeClock(50.0))
    runtime, other = FakeRuntime("raylab", host), FakeRuntime("other", host)
    runtime.up(SPEC)
    host.clock.sleep(5)
    runtime.kill(WORKER)
    other.status()
    assert runtime.calls() == (("up",), ("kill", WORKER))
    assert runtime.calls("kill") == (("kill", WORKER),)
    assert other.calls() == (("status",),)
    assert [call.at for call in host.journal] == [50.0, 55.0, 55.0]


# Faults


def test_a_crashed_node_comes_back_by_itself_as_a_new_one(runtime: FakeRuntime) -> None:
    before = [node for node in runtime.nodes() if node.service == WORKER]
    runtime.crash(WORKER)
    assert state(runtime, WORKER) is State.EXITED
    runtime.clock.sleep(2)
    assert state(runtime, WORKER) is State.HEALTHY
    after = [node for node in runtime.nodes() if node.service == WORKER and node.alive]
    assert [node.node_id for node in after] != [node.node_id for node in before]


def test_a_crashed_service_of_a_lab_that_went_down_meanwhile_stays_down(runtime: FakeRuntime) -> None:
    runtime.crash(WORKER)
    runtime.down()
    runtime.clock.sleep(2)
    assert not runtime.status().up


def test_a_node_that_is_cut_off_dies_after_a_while_and_ends_itself_when_it_is_back(
    runtime: FakeRuntime,
) -> None:
    runtime.disconnect(WORKER)
    assert state(runtime, WORKER) is State.RUNNING
    assert [node.alive for node in runtime.nodes() if node.service == WORKER] == [True]
    runtime.clock.sleep(5)
    assert [node.alive for node in runtime.nodes() if node.service == WORKER] == [False]
    runtime.reconnect(WORKER)
    assert state(runtime, WORKER) is State.EXITED
    runtime.start(WORKER)
    assert runtime.status().healthy


def test_a_short_cut_is_survived_also_by_a_node_that_was_paused_meanwhile(runtime: FakeRuntime) -> None:
    node = next(node.node_id for node in runtime.nodes() if node.service == WORKER)
    runtime.disconnect(WORKER)
    runtime.pause(WORKER)
    runtime.reconnect(WORKER)
    runtime.clock.sleep(0.5)
    runtime.resume(WORKER)
    runtime.clock.sleep(5)
    assert next(n.node_id for n in runtime.nodes() if n.service == WORKER and n.alive) == node


def test_a_store_that_is_cut_off_does_not_answer(runtime: FakeRuntime) -> None:
    runtime.disconnect(STORE)
    assert state(runtime, STORE) is State.RUNNING
    runtime.reconnect(STORE)
    assert state(runtime, STORE) is State.HEALTHY


def test_what_was_done_to_network_and_key_can_be_read(runtime: FakeRuntime) -> None:
    runtime.impair(WORKER, rate_mbit=5)
    assert runtime.impaired == {WORKER: {"delay_ms": 0.0, "loss_percent": 0.0, "rate_mbit": 5}}
    runtime.unimpair(WORKER)
    assert runtime.impaired == {}
    runtime.set_training_key(False)
    assert not runtime.training_key
    assert runtime.missing(Feature.NETWORK) == ""
    runtime.lack(Feature.NETWORK, "no wires")
    assert runtime.missing(Feature.NETWORK) == "no wires"


def test_its_folder_is_the_same_for_every_shell_and_goes_with_the_host() -> None:
    host = FakeHost()
    assert FakeRuntime("raylab", host).folder() == FakeRuntime("raylab", host).folder()
    folder = host.folder
    assert folder.exists()
    del host
    gc.collect()
    assert not folder.exists()


def test_with_its_state_kept_the_cluster_outlives_its_head() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec(gcs_ft=True))
    workers = [node.node_id for node in runtime.nodes() if node.service != HEAD]
    runtime.kill(HEAD)
    with pytest.raises(ClusterError):
        runtime.nodes()
    runtime.start(HEAD)
    assert [node.node_id for node in runtime.nodes() if node.service != HEAD and node.alive] == workers
    assert runtime.status().healthy
    assert REDIS in {service.service for service in runtime.status().services}
