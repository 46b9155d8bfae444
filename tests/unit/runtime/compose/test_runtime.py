"""The compose runtime over an engine in memory: booting, repairing, taking back, and what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import (
    EngineError,
    LabDownError,
    LabError,
    PatchError,
    PortTakenError,
    RefusedError,
    ServiceError,
    SetupError,
    WaitTimeoutError,
)
from lab.host.http import Reply
from lab.runtime import ports
from lab.runtime.compose import boot, state
from lab.runtime.compose.boot import START_SECONDS
from lab.runtime.compose.inspected import Container
from lab.runtime.compose.project import SETUP
from lab.runtime.compose.runtime import ComposeRuntime
from lab.services import HEAD, JUPYTER, METRICS, PROMETHEUS, QUEUE, STORE
from lab.topology import Progress, State
from tests.unit.runtime.compose.fake_docker import FakeDocker, spec

WORKER, OTHER = "ray-worker-0", "ray-worker-1"
ALL = {STORE, PROMETHEUS, HEAD, METRICS, QUEUE, JUPYTER, WORKER, OTHER}


def started(docker: FakeDocker) -> list[str]:
    return [call[1] for call in docker.done("start")]


# Booting


def test_store_then_set_up_then_head_then_workers(runtime: ComposeRuntime, docker: FakeDocker) -> None:
    assert runtime.up(spec()).healthy
    order = started(docker)
    assert set(order) == {*ALL, SETUP}
    assert order.index(STORE) < order.index(SETUP) < order.index(HEAD) < order.index(WORKER)
    assert docker.find(HEAD).started_at - docker.find(STORE).started_at >= 2.0, "the store was waited for"
    assert docker.find(WORKER).started_at - docker.find(HEAD).started_at >= 2.0, "the head was waited for"


def test_many_workers_start_a_few_at_a_time(
    runtime: ComposeRuntime, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot, "AT_ONCE", 2)
    runtime.up(spec(workers=5))
    starts = [docker.find(f"ray-worker-{index}").started_at for index in range(5)]
    assert starts == sorted(starts)
    assert starts[0] == starts[1] < starts[2] == starts[3] < starts[4]


@pytest.mark.parametrize("node", [HEAD, WORKER])
def test_a_node_that_ray_gave_up_is_started_again(
    runtime: ComposeRuntime, docker: FakeDocker, node: str
) -> None:
    docker.gives_up[node] = 2
    said: list[Progress] = []
    assert runtime.up(spec(), said.append).healthy
    assert started(docker).count(node) == 3
    assert [step.detail for step in said if "again" in step.detail] == [
        "started again: the machine was too busy (try 2 of 3)",
        "started again: the machine was too busy (try 3 of 3)",
    ]


def test_a_node_that_ray_gives_up_every_time_is_an_error(runtime: ComposeRuntime, docker: FakeDocker) -> None:
    docker.gives_up[WORKER] = 100
    with pytest.raises(ServiceError, match="timed out during startup"):
        runtime.up(spec())
    assert started(docker).count(WORKER) == 3


def test_a_start_tries_again_too_and_has_its_time_each_time(up: ComposeRuntime, docker: FakeDocker) -> None:
    up.kill(WORKER)
    docker.gives_up[WORKER] = 2
    docker.patience = START_SECONDS - 30
    said: list[Progress] = []
    begin = docker.clock()
    up.start(WORKER, said.append)
    assert docker.clock() - begin > START_SECONDS
    assert started(docker) == [WORKER] * 3
    assert [step.detail for step in said if "again" in step.detail][-1].endswith("(try 3 of 3)")
    assert up.status().healthy


def test_what_a_node_wrote_before_it_was_started_again_is_in_the_error(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    up.kill(WORKER)
    docker.gives_up[WORKER] = 1
    docker.never.add(WORKER)
    with pytest.raises(WaitTimeoutError, match=r"180 s: .*\n.*timed out"):
        up.start(WORKER)


def test_every_service_is_reported_healthy_once(runtime: ComposeRuntime) -> None:
    steps: list[Progress] = []
    runtime.up(spec(), steps.append)
    healthy = [step.service for step in steps if step.state is State.HEALTHY]
    assert sorted(healthy) == sorted(ALL)


def test_a_lab_that_is_whole_is_left_alone(up: ComposeRuntime, docker: FakeDocker) -> None:
    assert up.up(spec()).healthy
    assert docker.journal == []


def test_what_is_down_paused_or_removed_is_repaired_and_the_rest_stays(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    up.kill(WORKER)
    up.pause(OTHER)
    del docker.containers["raylab-lab", JUPYTER]
    docker.journal.clear()
    assert up.up(spec()).healthy
    assert set(started(docker)) == {WORKER, OTHER, JUPYTER}


def test_up_restarts_a_service_of_which_a_loop_is_stuck(up: ComposeRuntime, docker: FakeDocker) -> None:
    why = "queue-loop has completed no step for 130 s: a step has not returned"
    docker.pages[QUEUE] = Reply(503, {}, json.dumps({"detail": why}).encode())
    assert not up.status().healthy
    docker.clock.after(40.0, docker.pages.clear)
    said: list[Progress] = []
    assert up.up(spec(), said.append).healthy
    assert started(docker) == [QUEUE]
    assert said[0].detail == f"runs, and gets 30 s to answer: {why}"


def test_a_set_up_that_failed_is_repeated(up: ComposeRuntime, docker: FakeDocker) -> None:
    docker.change(docker.find(SETUP).id, exit_code=13)
    assert "s3-setup failed with exit code 13" in " ".join(up.status().notes)
    up.up(spec())
    assert started(docker) == [SETUP]


def test_leftovers_of_an_up_that_died_make_room(
    runtime: ComposeRuntime, docker: FakeDocker, folder: Path
) -> None:
    for service in (STORE, HEAD, "ray-worker-2"):
        docker.add("lab", folder, service, "exited")
    old = {c.id for c in docker.containers.values()}
    assert runtime.up(spec()).healthy
    assert not old & {c.id for c in docker.containers.values()}


def test_other_settings_are_refused_while_the_lab_is_up(up: ComposeRuntime, docker: FakeDocker) -> None:
    with pytest.raises(RefusedError, match="up with other settings"):
        up.up(spec(workers=1))
    with pytest.raises(RefusedError, match="s3 on port"):
        up.up(replace(spec(), ports=(("s3", 12345),)))
    assert docker.journal == []


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (Container("", "", "exited", exit_code=3), "its container has ended with exit code 3"),
        (Container("", "", "exited", exit_code=137, out_of_memory=True), "it reached its memory limit"),
    ],
)
def test_a_service_that_ends_is_an_error_with_its_last_lines_and_nothing_is_left(
    runtime: ComposeRuntime, docker: FakeDocker, folder: Path, end: Container, words: str
) -> None:
    docker.dies[JUPYTER] = end
    docker.logs[JUPYTER] = "one\n\x1b[31mtwo\x1b[0m\n"
    with pytest.raises(ServiceError, match=words) as caught:
        runtime.up(spec())
    assert caught.value.message.endswith("Its last lines:\n  one\n  two")
    if not end.out_of_memory:
        kept = Path(caught.value.hint.removeprefix("the whole log of jupyter: "))
        assert kept.read_text() == docker.logs[JUPYTER]
        runtime.down(volumes=True)
        assert not kept.exists()
    assert docker.containers == {}
    assert docker.networks == set()
    assert bool(docker.volumes) is end.out_of_memory, "volumes stay until --volumes"
    assert state.load(folder) is None


def test_a_node_that_would_be_open_without_a_patch_has_an_error_of_its_own(
    runtime: ComposeRuntime, docker: FakeDocker
) -> None:
    docker.dies[HEAD] = Container("", "", "exited", exit_code=PatchError.exit_code)
    docker.logs[HEAD] = "raylab: the patch redis_password does not fit Ray 2.61.0: services has no f"
    with pytest.raises(PatchError, match=r"redis_password .*services has no f"):
        runtime.up(spec())


def test_a_set_up_that_fails_is_an_error_like_any_other(runtime: ComposeRuntime, docker: FakeDocker) -> None:
    docker.dies[SETUP] = Container("", "", "exited", exit_code=13)
    docker.logs[SETUP] = "the root key is refused"
    with pytest.raises(ServiceError, match=r"exit code 13.*(\n.*)+is refused"):
        runtime.up(spec())


def test_a_service_that_never_serves_is_given_up(runtime: ComposeRuntime, docker: FakeDocker) -> None:
    docker.never.add(HEAD)
    begin = docker.clock()
    with pytest.raises(WaitTimeoutError, match=r"ray-head .*180 s"):
        runtime.up(spec())
    assert docker.clock() - begin == pytest.approx(START_SECONDS, abs=10)


def test_a_port_that_was_taken_meanwhile_is_named(runtime: ComposeRuntime, docker: FakeDocker) -> None:
    docker.refuses[STORE] = EngineError(
        "docker failed: Bind for 127.0.0.1:1 failed: port is already allocated"
    )
    with pytest.raises(PortTakenError, match=r"minio .*\(s3\)"):
        runtime.up(spec())


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.20"])
def test_a_port_that_the_engine_publishes_to_the_network_ends_the_start(
    runtime: ComposeRuntime, docker: FakeDocker, address: str
) -> None:
    docker.publishes[STORE] = (("127.0.0.1", 9000), (address, 9001))
    with pytest.raises(ServiceError, match=f"minio .*{address} port 9001"):
        runtime.up(spec())
    assert not [container for container in docker.containers.values() if container.alive]


@pytest.mark.parametrize("failure", [EngineError("docker failed: no"), KeyboardInterrupt()])
def test_a_repair_that_fails_leaves_what_ran_before(
    up: ComposeRuntime, docker: FakeDocker, failure: BaseException
) -> None:
    up.kill(WORKER)
    up.kill(JUPYTER)
    docker.refuses[WORKER] = failure
    with pytest.raises((LabError, KeyboardInterrupt)):
        up.up(spec())
    states = {c.service: c.state for c in docker.containers.values() if c.service != SETUP}
    assert {name for name, state in states.items() if state == "running"} == ALL - {WORKER, JUPYTER}
    assert states[JUPYTER] == "exited", "this `up` had started it"


def test_a_repair_that_fails_keeps_what_it_has_made_healthy(up: ComposeRuntime, docker: FakeDocker) -> None:
    for service in (STORE, WORKER):
        up.kill(service)
    docker.dies[WORKER] = Container("", "", "exited", exit_code=3)
    with pytest.raises(ServiceError, match="ray-worker-0 failed"):
        up.up(spec())
    states = {s.service: s.state for s in up.status().services}
    assert states[STORE] is State.HEALTHY, "a job may be writing to it by now"
    assert states[WORKER] is State.EXITED


def test_a_repair_that_fails_keeps_what_ran_before_and_was_started_afresh(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    docker.never.add(JUPYTER)
    up.kill(WORKER)
    docker.dies[WORKER] = Container("", "", "exited", exit_code=3)
    with pytest.raises(ServiceError, match="ray-worker-0 failed"):
        up.up(spec())
    assert docker.find(JUPYTER).state == "running"


def test_a_repair_that_fails_removes_only_the_containers_that_did_not_get_healthy(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    for service in (STORE, WORKER):
        del docker.containers["raylab-lab", service]
    docker.dies[WORKER] = Container("", "", "exited", exit_code=3)
    with pytest.raises(ServiceError, match="ray-worker-0 failed"):
        up.up(spec())
    assert docker.find(STORE).state == "running"
    assert ("raylab-lab", WORKER) not in docker.containers


@pytest.mark.parametrize(
    ("broken", "how"),
    [
        (broken, how)
        for broken in sorted(ALL)
        for how in ("dies", "never serves", "is refused", "Ctrl-C")
        if (broken, how) != (METRICS, "never serves")  # its engine says how it is, and here always well
    ],
)
def test_wherever_a_repair_fails_what_ran_goes_on_and_so_does_its_store(
    up: ComposeRuntime, docker: FakeDocker, broken: str, how: str
) -> None:
    for service in {STORE, broken}:
        up.kill(service)
    ran = {name: docker.find(name) for name in ALL - {STORE, broken}}
    if how == "dies":
        docker.dies[broken] = Container("", "", "exited", exit_code=3)
    elif how == "never serves":
        docker.never.add(broken)
    else:
        refusal = EngineError("docker failed: no") if how == "is refused" else KeyboardInterrupt()
        docker.refuses[broken] = refusal
    docker.journal.clear()
    with pytest.raises((LabError, KeyboardInterrupt)):
        up.up(spec())
    touched = {call[1] for call in docker.done("kill", "stop", "remove")} - {SETUP}
    assert STORE not in touched, "jobs use it"
    if broken != HEAD:  # without it nobody knows of a worker that its node lives: it is started afresh
        assert {name: docker.find(name) for name in ran} == ran
        assert not touched - {broken}
    assert all(docker.find(name).alive for name in ran)
    if broken != STORE:
        assert docker.find(STORE).alive


@pytest.mark.parametrize("first", [PROMETHEUS, JUPYTER])
def test_a_store_that_is_not_healthy_yet_when_a_repair_fails_stays_with_the_nodes_that_run(
    up: ComposeRuntime, docker: FakeDocker, first: str
) -> None:
    for service in (STORE, first):
        del docker.containers["raylab-lab", service]
    docker.never.add(STORE)
    with pytest.raises(WaitTimeoutError, match="minio is not healthy"):
        up.up(spec())
    assert docker.find(STORE).alive


@pytest.mark.parametrize("service", [STORE, HEAD, JUPYTER])
def test_a_service_that_is_slow_to_answer_is_not_restarted(
    up: ComposeRuntime, docker: FakeDocker, service: str
) -> None:
    docker.never.add(service)
    docker.clock.after(20.0, docker.never.clear)
    said: list[Progress] = []
    assert up.up(spec(), said.append).healthy
    assert docker.journal == []
    assert said[0].service == service
    assert said[0].detail.startswith("runs, and gets 30 s to answer: ")


def test_what_a_node_wrote_is_in_the_error_although_its_clock_says_that_it_was_before_its_start(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    up.kill(WORKER)
    docker.wrote[WORKER] = [(docker.clock() - 3600.0, "Traceback: no raylet")]
    docker.dies[WORKER] = Container("", "", "exited", exit_code=1)
    with pytest.raises(ServiceError, match="Traceback: no raylet") as caught:
        up.start(WORKER)
    kept = Path(caught.value.hint.removeprefix("the whole log of ray-worker-0: "))
    assert "no raylet" in kept.read_text()


# Before anything starts


def test_an_engine_that_does_not_run_is_found_before_anything_is_made(
    runtime: ComposeRuntime, docker: FakeDocker, folder: Path
) -> None:
    docker.down = True
    with pytest.raises(EngineError, match="not running"):
        runtime.up(spec())
    assert not folder.exists()


def test_without_its_images_nothing_is_made(runtime: ComposeRuntime, docker: FakeDocker) -> None:
    docker.missing = SetupError("the image raylab/ray:1-cpu is missing")
    with pytest.raises(SetupError, match="raylab/ray:1-cpu"):
        runtime.up(spec())
    assert docker.journal == []


def test_a_project_of_that_name_that_is_no_lab_is_never_touched(
    runtime: ComposeRuntime, docker: FakeDocker
) -> None:
    docker.add("lab", "", "web", "running", theirs="1")
    for action in (
        lambda: runtime.up(spec()), runtime.refuse_down, runtime.down, lambda: runtime.down(volumes=True),
    ):  # fmt: skip
        with pytest.raises(RefusedError, match="raylab-lab exists already"):
            action()
    assert docker.journal == []
    assert not runtime.status().up


def test_a_lab_of_another_home_is_never_touched(runtime: ComposeRuntime, docker: FakeDocker) -> None:
    docker.add("lab", "/elsewhere/lab", STORE, "running")
    with pytest.raises(RefusedError, match="is the lab of /elsewhere/lab"):
        runtime.down()
    assert docker.journal == []


def test_a_dry_run_starts_nothing_and_gives_the_command(
    runtime: ComposeRuntime, docker: FakeDocker, folder: Path
) -> None:
    command = runtime.prepare(spec())
    assert command[:4] == ("docker", "compose", "--env-file", str(folder / "compose.env"))
    assert [Path(c).name for c in command if c.endswith("yaml")] == [
        "lab.yaml",
        "gpu-simulated.yaml",
        "offline.yaml",
    ]
    assert command[-3:] == ("up", "--detach", "--wait")
    assert f"LAB_FOLDER='{folder}'" in (folder / "compose.env").read_text()
    assert (folder / "secrets" / "ray.token").stat().st_mode & 0o777 == 0o600
    assert docker.journal == []
    assert not runtime.status().up


# One service


def test_a_node_whose_container_runs_but_that_ray_has_buried_is_restarted(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    docker.never.add(WORKER)
    worker = up.status().service(WORKER)
    assert worker is not None
    assert (worker.state, worker.detail) == (State.RUNNING, "its node is not alive in Ray")
    docker.never.clear()
    docker.change(docker.find(HEAD).id, started_at=docker.clock())  # a new head knows no old node
    docker.clock.sleep(3)
    up.start(WORKER)
    assert docker.done() == [("kill", WORKER), ("start", WORKER)]


def test_a_worker_that_may_train_is_left_alone_while_ray_does_not_answer(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    docker.never.add(HEAD)
    began = docker.clock()
    with pytest.raises(WaitTimeoutError, match=f"{WORKER} was left alone"):
        up.start(WORKER)
    assert docker.done() == []
    assert docker.clock() - began == 30
    docker.never.clear()
    up.start(WORKER)
    assert docker.done() == []


def test_a_node_counts_only_when_it_joined_after_its_container_was_started(
    up: ComposeRuntime, docker: FakeDocker
) -> None:
    docker.clock.sleep(60)
    nodes = docker.list_nodes(up.endpoints().dashboard, "")
    docker.change(docker.find(WORKER).id, started_at=docker.clock())
    docker.ghosts = nodes
    worker = up.status().service(WORKER)
    assert worker is not None
    assert worker.state is State.RUNNING


def test_a_paused_service_is_killed_where_it_is_asked_to_stop(up: ComposeRuntime, docker: FakeDocker) -> None:
    up.pause(WORKER)
    up.stop(WORKER)
    assert docker.done() == [("pause", WORKER), ("kill", WORKER)]


def test_how_a_container_ended_is_said(up: ComposeRuntime, docker: FakeDocker) -> None:
    up.kill(WORKER)
    docker.change(docker.find(OTHER).id, state="exited", exit_code=143)
    details = {s.service: s.detail for s in up.status().services}
    assert details[WORKER] == "its container was killed (SIGKILL)"
    assert details[OTHER] == "its container was ended (SIGTERM)"


def test_nothing_is_executed_in_a_service_that_does_not_run(up: ComposeRuntime) -> None:
    up.pause(WORKER)
    with pytest.raises(LabDownError, match="ray-worker-0 is paused"):
        up.execute(WORKER, ["true"])


def test_the_status_says_when_the_engine_does_not_answer(up: ComposeRuntime, docker: FakeDocker) -> None:
    docker.down = True
    status = up.status()
    assert not status.up
    assert "the Docker Engine is not running" in status.notes[0]


# Down


def test_down_asks_services_to_end_but_kills_nodes_and_keeps_what_is_stored(
    up: ComposeRuntime, docker: FakeDocker, folder: Path
) -> None:
    up.kill(OTHER)
    docker.journal.clear()
    assert set(up.down()) == ALL - {OTHER}
    assert sorted(docker.done("kill")) == [("kill", HEAD), ("kill", WORKER)]
    assert docker.done("stop")[-1] == ("stop", STORE, "5")
    assert (docker.containers, docker.networks) == ({}, set())
    assert docker.volumes == {"raylab-lab_objects"}
    assert (folder / "secrets").is_dir()
    assert not (folder / "compose.env").exists()


def test_what_is_kept_is_the_volume_of_the_store_or_of_its_stand_in(
    up: ComposeRuntime, docker: FakeDocker, folder: Path
) -> None:
    for name in ("raylab-lab_objects-standin", "raylab-lab_metrics"):
        docker.volumes.add(name)
        docker.owners[name] = str(folder)
    assert set(up.kept()) == {"raylab-lab_objects", "raylab-lab_objects-standin"}


def test_down_with_volumes_keeps_nothing(up: ComposeRuntime, docker: FakeDocker, folder: Path) -> None:
    (folder / "lessons").mkdir()
    up.down(volumes=True)
    assert docker.volumes == set()
    assert not folder.exists()


def test_down_needs_no_file_of_the_lab(up: ComposeRuntime, docker: FakeDocker, folder: Path) -> None:
    (folder / "compose.json").write_text("{")
    assert set(up.down()) == ALL
    assert docker.containers == {}


def test_objects_of_the_local_runtime_survive_down_with_volumes(up: ComposeRuntime, folder: Path) -> None:
    (folder / "objects").mkdir()
    up.down(volumes=True)
    assert (folder / "objects").is_dir()


@pytest.mark.parametrize(
    ("owner", "words"),
    [("/elsewhere/lab", "belong to the lab of /elsewhere/lab"), ("", "not made by labctl")],
)
def test_volumes_of_somebody_else_are_neither_used_nor_deleted(
    runtime: ComposeRuntime, docker: FakeDocker, folder: Path, owner: str, words: str
) -> None:
    docker.volumes.add("raylab-lab_objects")
    docker.owners["raylab-lab_objects"] = owner
    for action in (
        lambda: runtime.up(spec()),
        lambda: runtime.prepare(spec()),
        lambda: runtime.refuse_down(volumes=True),
        lambda: runtime.down(volumes=True),
    ):
        with pytest.raises(RefusedError, match=words) as caught:
            action()
        assert "docker volume rm raylab-lab_objects" in caught.value.hint
    assert docker.journal == []
    docker.add("lab", folder, STORE, "running")
    with pytest.raises(RefusedError, match=words):
        runtime.down(volumes=True)
    assert docker.journal == []
    assert runtime.down() == (STORE,)
    assert docker.volumes == {"raylab-lab_objects"}


def test_the_first_error_is_kept_where_taking_back_fails(runtime: ComposeRuntime, docker: FakeDocker) -> None:
    docker.dies[JUPYTER] = Container("", "", "exited", exit_code=3)
    docker.fails["kill", STORE] = docker.fails["remove", STORE] = EngineError("docker failed: another")
    with pytest.raises(ServiceError, match="jupyter failed"):
        runtime.up(spec())


def test_ports_stay_the_same_over_down_and_up_unless_one_is_taken(
    up: ComposeRuntime, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = state.load(folder)
    assert first is not None
    up.down()
    up.up(spec())
    again = state.load(folder)
    assert again is not None
    assert again.ports == first.ports
    up.down()
    monkeypatch.setattr(ports, "is_free", lambda port: port != first.ports["s3"])
    monkeypatch.setattr(ports, "holder", lambda port: f"holder of {port}")
    notes = up.up(spec()).notes
    other = state.load(folder)
    assert other is not None
    assert {**other.ports, "s3": 0} == {**first.ports, "s3": 0}
    old, new = first.ports["s3"], other.ports["s3"]
    assert f"port of s3: {new}, not {old} as before, which is taken by holder of {old}" in notes
    up.down(volumes=True)
    assert not folder.exists()
