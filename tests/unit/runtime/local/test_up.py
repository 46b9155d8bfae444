"""`up` of the local runtime: order, idempotence, repair, failure at any point, ports."""

from __future__ import annotations

import dataclasses
import json
import signal
import socket
from pathlib import Path

import pytest

from lab.cluster import patches
from lab.errors import (
    LabDownError,
    LabError,
    PatchError,
    PortTakenError,
    RefusedError,
    ServiceError,
    SetupError,
    StoreError,
    UnsupportedError,
    WaitTimeoutError,
)
from lab.host.http import Reply
from lab.runtime import ports
from lab.runtime.local import processes, state
from lab.runtime.local.runtime import LocalRuntime
from lab.runtime.local.services import FORKS
from lab.runtime.ports import is_free as really_free
from lab.services import ALERTMANAGER, HEAD, JUPYTER, METRICS, PORTS, PROMETHEUS, QUEUE, STORE, worker
from lab.topology import LabSpec, Progress, State, Struck
from tests.unit.runtime.local.machine import SPEC, FakeProcess, Machine

FT = dataclasses.replace(SPEC, gcs_ft=True)
ALL = [STORE, QUEUE, JUPYTER, HEAD, worker(0), worker(1)]


def nothing_left(machine: Machine, folder: Path) -> bool:
    return not machine.running and not (folder / "raylab" / state.FILE).exists()


def test_services_start_in_order_and_one_raylet_at_a_time(machine: Machine, tmp_path: Path) -> None:
    steps: list[Progress] = []

    status = machine.runtime(tmp_path).up(SPEC, steps.append)

    assert machine.journal == [("spawn", name) for name in ALL] + [("bucket", "ray")]
    healthy = [p.service for p in steps if p.state is State.HEALTHY]
    assert healthy == [HEAD, worker(0), worker(1), STORE, QUEUE, JUPYTER]
    for name in (HEAD, worker(0)):
        done = steps.index(next(p for p in steps if (p.service, p.state) == (name, State.HEALTHY)))
        assert all(ALL.index(p.service) <= ALL.index(name) for p in steps[:done])
    assert status.healthy
    assert [s.service for s in status.services] == ALL


def test_a_patch_that_does_not_fit_is_said_and_off_in_every_process(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patches, "unfit", lambda: {"elastic": "x has no y", "redis_password": "z"})
    runtime = machine.runtime(tmp_path)
    assert "patch elastic: off, it does not fit (x has no y)" in "\n".join(runtime.up(SPEC).notes)
    current = runtime._load()
    assert current is not None
    for service in (FORKS, HEAD, worker(0), JUPYTER):
        environment = runtime._plan(current).command(service).environment
        assert environment[patches.UNFIT_VARIABLE] == "elastic,redis_password"


@pytest.mark.parametrize(("name", "spec"), [("ray_start", SPEC), ("redis_password", FT)])
def test_nothing_starts_that_would_be_open_without_a_patch(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, spec: LabSpec
) -> None:
    machine.programs.add("redis-server")
    monkeypatch.setattr(patches, "unfit", lambda: {name: "x has no y"})
    with pytest.raises(PatchError, match=rf"{name} .*x has no y"):
        machine.runtime(tmp_path).up(spec)
    assert machine.journal == []
    assert nothing_left(machine, tmp_path)
    monkeypatch.setenv(patches.OFF_VARIABLE, name)
    assert machine.runtime(tmp_path).up(spec).healthy, "who wants it open says so"


def test_what_stands_in_and_what_is_left_out_is_said(machine: Machine, tmp_path: Path) -> None:
    notes = "\n".join(machine.runtime(tmp_path).up(SPEC).notes)

    assert "moto, standing in for MinIO (no `minio` on PATH)" in notes
    assert "prometheus: left out" in notes
    assert "alertmanager" not in notes, "one program that is missing is said once"


def test_alertmanager_runs_beside_prometheus_where_both_are_installed(
    machine: Machine, tmp_path: Path
) -> None:
    machine.programs = {"prometheus"}
    notes = machine.runtime(tmp_path).up(SPEC).notes
    assert "alertmanager: left out (no `alertmanager` on PATH)" in notes
    assert ALERTMANAGER not in machine.services("spawn")
    machine.runtime(tmp_path).down()
    machine.programs = {"prometheus", "prometheus-alertmanager"}
    machine.runtime(tmp_path).up(SPEC)
    assert ALERTMANAGER in machine.services("spawn")
    assert "nobody" in (tmp_path / "raylab" / "alertmanager.yml").read_text()
    assert (tmp_path / "raylab" / "lab.rules.yml").exists()


def test_programs_on_the_path_are_used(machine: Machine, tmp_path: Path) -> None:
    machine.programs = {"minio", "prometheus"}

    status = machine.runtime(tmp_path).up(SPEC)

    assert machine.services("spawn") == [
        STORE,
        PROMETHEUS,
        METRICS,
        QUEUE,
        JUPYTER,
        HEAD,
        worker(0),
        worker(1),
    ]
    assert status.service(STORE) is not None
    assert not any("moto" in note for note in status.notes)
    assert (tmp_path / "raylab" / "prometheus.yml").exists()


def test_a_lab_with_objects_in_moto_stays_with_moto_when_minio_appears(
    machine: Machine, tmp_path: Path
) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.runtime(tmp_path).down()
    (tmp_path / "raylab" / "objects" / "moto" / "ray").mkdir()
    machine.programs = {"minio"}

    status = machine.runtime(tmp_path).up(SPEC)

    assert any("it holds this lab's objects" in note for note in status.notes)


def test_up_again_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    before = dict(machine.running)
    machine.journal.clear()

    status = machine.runtime(tmp_path).up(SPEC)

    assert status.healthy
    assert machine.running == before
    assert not machine.services("spawn")
    assert not machine.services("end")


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(SPEC, workers=1),
        dataclasses.replace(SPEC, cpus_per_worker=4),
        dataclasses.replace(SPEC, stock_ray=True),
    ],
)
def test_a_lab_with_other_settings_is_left_as_it_is(machine: Machine, tmp_path: Path, other: LabSpec) -> None:
    machine.runtime(tmp_path).up(SPEC)
    before = dict(machine.running)

    with pytest.raises(RefusedError, match=r"other settings \(2 workers"):
        machine.runtime(tmp_path).up(other)
    assert machine.running == before
    assert machine.runtime(tmp_path).spec() == SPEC


def test_up_repairs_what_died_and_leaves_the_rest(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    kept = {name: machine.pid_of(name) for name in (STORE, HEAD, worker(0), JUPYTER)}
    machine.die(worker(1))
    machine.journal.clear()

    assert machine.runtime(tmp_path).up(SPEC).healthy
    assert machine.services("spawn") == [worker(1)]
    assert {name: machine.pid_of(name) for name in kept} == kept


def test_a_lab_whose_jobs_come_only_through_queues_is_another_lab(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(dataclasses.replace(SPEC, queued_only=True))
    with pytest.raises(RefusedError, match="jobs only through queues"):
        machine.runtime(tmp_path).up(SPEC)
    assert machine.runtime(tmp_path).spec().queued_only


def test_up_replaces_a_service_that_runs_but_does_not_serve(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.unready.add(worker(0))
    machine.journal.clear()
    machine.on_spawn[worker(0)] = machine.unready.clear

    assert machine.runtime(tmp_path).up(SPEC).healthy
    assert machine.journal[:2] == [("end", worker(0)), ("spawn", worker(0))]


def test_up_restarts_a_service_of_which_a_loop_is_stuck(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    why = "queue-loop has completed no step for 75 s: the disk is full"
    machine.pages[QUEUE] = Reply(503, {}, json.dumps({"detail": why}).encode())
    machine.journal.clear()
    machine.on_spawn[QUEUE] = machine.pages.clear

    shown = machine.runtime(tmp_path).status()
    assert not shown.healthy
    assert [service.detail for service in shown.services if service.state is State.RUNNING] == [why]
    assert machine.runtime(tmp_path).up(SPEC).healthy
    assert machine.journal[:2] == [("end", QUEUE), ("spawn", QUEUE)]
    assert machine.services("spawn") == [QUEUE]


def test_a_failed_repair_stops_only_what_it_started(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.die(worker(1))
    machine.dies.add(worker(1))

    with pytest.raises(ServiceError, match="ray-worker-1 ended"):
        machine.runtime(tmp_path).up(SPEC)
    assert machine.alive == [STORE, QUEUE, JUPYTER, HEAD, worker(0)]
    states = {s.service: s.state for s in machine.runtime(tmp_path).status().services}
    assert states[worker(1)] is State.ABSENT
    assert states[HEAD] is State.HEALTHY


@pytest.mark.parametrize("service", ALL)
def test_a_service_that_dies_at_its_start_takes_up_back(
    machine: Machine, tmp_path: Path, service: str
) -> None:
    machine.dies.add(service)

    with pytest.raises(ServiceError, match=f"{service} ended") as caught:
        machine.runtime(tmp_path).up(SPEC)
    assert f"{service} says hello" in caught.value.message
    assert f"{service}.log" in caught.value.hint
    assert nothing_left(machine, tmp_path)


@pytest.mark.parametrize("service", ALL)
def test_a_service_that_never_serves_takes_up_back(machine: Machine, tmp_path: Path, service: str) -> None:
    machine.unready.add(service)
    begin = machine.now

    with pytest.raises(WaitTimeoutError, match=f"{service} .*120 s: .*not a"):
        machine.runtime(tmp_path).up(SPEC)
    assert machine.now - begin == pytest.approx(120, abs=1)
    assert nothing_left(machine, tmp_path)


@pytest.mark.parametrize("service", ALL)
def test_a_program_that_cannot_be_run_takes_up_back(machine: Machine, tmp_path: Path, service: str) -> None:
    def missing() -> None:
        raise FileNotFoundError(2, "No such file or directory", "minio")

    machine.on_spawn[service] = missing

    with pytest.raises(ServiceError, match=f"{service} .*No such file"):
        machine.runtime(tmp_path).up(SPEC)
    assert nothing_left(machine, tmp_path)


@pytest.mark.parametrize("service", ALL)
@pytest.mark.parametrize("moment", ["on_spawn", "on_probe"])
def test_ctrl_c_at_any_service_leaves_nothing_running(
    machine: Machine, tmp_path: Path, service: str, moment: str
) -> None:
    getattr(machine, moment)[service] = lambda: signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        machine.runtime(tmp_path).up(SPEC)
    assert nothing_left(machine, tmp_path)


def test_a_second_ctrl_c_does_not_stop_the_cleanup(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted_end(*args: object, grace: float) -> Struck:
        if machine.services("spawn")[-1:] == [worker(1)]:
            signal.raise_signal(signal.SIGINT)
        return machine.end(*args, grace=grace)  # type: ignore[arg-type]

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "end", interrupted_end)
    machine.on_probe[worker(1)] = interrupt

    with pytest.raises(KeyboardInterrupt):
        machine.runtime(tmp_path).up(SPEC)
    assert nothing_left(machine, tmp_path)


def test_a_store_that_refuses_the_bucket_takes_up_back(machine: Machine, tmp_path: Path) -> None:
    def refuse() -> None:
        raise StoreError("wrong key")

    machine.on_bucket = refuse

    with pytest.raises(StoreError):
        machine.runtime(tmp_path).up(SPEC)
    assert nothing_left(machine, tmp_path)


def test_a_failed_up_leaves_objects_and_secrets(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    credentials = machine.runtime(tmp_path).endpoints().credentials
    kept = tmp_path / "raylab" / "objects" / "moto" / "ray"
    kept.mkdir()
    machine.runtime(tmp_path).down()
    machine.dies.add(HEAD)

    with pytest.raises(ServiceError):
        machine.runtime(tmp_path).up(SPEC)
    machine.dies.clear()
    machine.runtime(tmp_path).up(SPEC)

    assert kept.is_dir()
    assert machine.runtime(tmp_path).endpoints().credentials == credentials


def test_after_a_reboot_the_lab_starts_afresh_whatever_has_the_old_process_ids(
    machine: Machine, tmp_path: Path
) -> None:
    machine.runtime(tmp_path).up(SPEC)
    strangers = {pid: FakeProcess(pid, p.started_at, "somebody:else") for pid, p in machine.running.items()}
    machine.running = dict(strangers)
    machine.boot = "boot-2"

    down = machine.runtime(tmp_path).status()
    assert not down.up
    assert any("rebooted" in note for note in down.notes)
    with pytest.raises(LabDownError):
        machine.runtime(tmp_path).endpoints()

    assert machine.runtime(tmp_path).up(dataclasses.replace(SPEC, workers=1)).healthy
    assert strangers.items() <= machine.running.items()


def test_reused_process_ids_are_not_the_lab(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    strangers = {pid: FakeProcess(pid, machine.now + 9, "x:y") for pid in machine.running}
    machine.running = dict(strangers)

    assert not machine.runtime(tmp_path).status().up
    machine.runtime(tmp_path).up(SPEC)
    machine.runtime(tmp_path).down()

    assert machine.running == strangers


def test_the_usual_ports_are_used_when_they_are_free(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)

    endpoints = machine.runtime(tmp_path).endpoints()
    assert endpoints.dashboard == "http://127.0.0.1:8265"
    assert endpoints.s3 == "http://127.0.0.1:9000"


def addresses(machine: Machine, folder: Path, name: str = "raylab") -> dict[str, int]:
    """Start the lab, look at its ports, and take it down."""
    runtime = machine.runtime(folder, name)
    runtime.up(dataclasses.replace(SPEC, name=name))
    recorded = state.load(folder / name)
    runtime.down()
    assert recorded is not None
    return dict(recorded.ports)


@pytest.mark.parametrize("name", ["raylab", "other"])
def test_ports_stay_the_same_over_down_and_up(machine: Machine, tmp_path: Path, name: str) -> None:
    machine.taken = {port.usual for port in PORTS.values()}
    first = addresses(machine, tmp_path, name)
    machine.taken = set()

    assert addresses(machine, tmp_path, name) == first


def test_a_port_that_was_taken_since_is_another_one_and_that_is_said(
    machine: Machine, tmp_path: Path
) -> None:
    first = addresses(machine, tmp_path)
    machine.taken = {first["s3"]}

    notes = machine.runtime(tmp_path).up(SPEC).notes

    recorded = state.load(tmp_path / "raylab")
    assert recorded is not None
    assert {**recorded.ports, "s3": 0} == {**first, "s3": 0}
    said = f"port of s3: {recorded.ports['s3']}, not 9000 as before, which is taken by holder of 9000"
    assert said in notes


def test_a_port_given_explicitly_wins_over_the_one_before(machine: Machine, tmp_path: Path) -> None:
    first = addresses(machine, tmp_path)
    status = machine.runtime(tmp_path).up(dataclasses.replace(SPEC, ports=(("s3", 9555),)))

    recorded = state.load(tmp_path / "raylab")
    assert recorded is not None
    assert recorded.ports == {**first, "s3": 9555}
    assert not any("as before" in note for note in status.notes)


def test_ports_that_another_lab_has_meanwhile_are_left_to_it(machine: Machine, tmp_path: Path) -> None:
    addresses(machine, tmp_path)
    machine.runtime(tmp_path, "two").up(dataclasses.replace(SPEC, name="two", ports=(("s3", 9000),)))

    status = machine.runtime(tmp_path).up(SPEC)

    assert any("not 9000 as before, which is taken by another port" in note for note in status.notes)


@pytest.mark.parametrize("text", ["", "[]", '{"s3": "x"}', '{"s3": 70000}', '{"s3": null}'])
def test_kept_ports_that_make_no_sense_are_as_good_as_none(
    machine: Machine, tmp_path: Path, text: str
) -> None:
    (tmp_path / "raylab").mkdir()
    (tmp_path / "raylab" / ports.FILE).write_text(text)

    assert addresses(machine, tmp_path)["s3"] == 9000


def test_only_the_default_lab_takes_the_usual_ports(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path, "other").up(dataclasses.replace(SPEC, name="other"))

    endpoints = machine.runtime(tmp_path, "other").endpoints()
    assert endpoints.dashboard != "http://127.0.0.1:8265"
    assert endpoints.s3 != "http://127.0.0.1:9000"


def test_a_wanted_port_wins_over_the_usual_port_of_another_service(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(dataclasses.replace(SPEC, ports=(("s3", PORTS["dashboard"].usual),)))

    endpoints = machine.runtime(tmp_path).endpoints()
    assert endpoints.s3 == "http://127.0.0.1:8265"
    assert endpoints.dashboard != endpoints.s3


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ((("s3", 9555), ("jupyter", 9555)), PortTakenError, "port 9555 for jupyter is reserved"),
        ((("s3", 9556),), PortTakenError, "port 9556 for s3 is in use by holder of 9556"),
        ((("prometheus", 9557),), UnsupportedError, "runs no prometheus .no `prometheus` on PATH"),
        ((("grafana", 9558),), UnsupportedError, "runs no grafana"),
    ],
)
def test_a_port_that_cannot_be_had_is_refused_before_anything_starts(
    machine: Machine,
    tmp_path: Path,
    wanted: tuple[tuple[str, int], ...],
    error: type[LabError],
    message: str,
) -> None:
    machine.taken = {9556}

    with pytest.raises(error, match=message):
        machine.runtime(tmp_path).up(dataclasses.replace(SPEC, ports=wanted))
    assert nothing_left(machine, tmp_path)
    assert not machine.journal


def test_a_port_that_another_program_listens_on_is_refused(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "is_free", really_free)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = int(other.getsockname()[1])

        with pytest.raises(PortTakenError, match=f"{port} for s3"):
            machine.runtime(tmp_path).up(dataclasses.replace(SPEC, ports=(("s3", port),)))
    assert not machine.running


def test_two_labs_have_ports_of_their_own(machine: Machine, tmp_path: Path) -> None:
    for name in ("one", "two"):
        machine.runtime(tmp_path, name).up(dataclasses.replace(SPEC, name=name))

    one, two = (state.load(tmp_path / name) for name in ("one", "two"))
    assert one is not None
    assert two is not None
    assert not set(one.ports.values()) & set(two.ports.values())
    machine.runtime(tmp_path, "one").down()
    assert len(machine.running) == len(ALL)


def test_a_lab_that_is_just_being_started_keeps_its_ports(machine: Machine, tmp_path: Path) -> None:
    def start_another() -> None:
        machine.on_spawn.clear()
        machine.runtime(tmp_path, "two").up(dataclasses.replace(SPEC, name="two"))

    machine.on_spawn[STORE] = start_another
    machine.runtime(tmp_path, "one").up(dataclasses.replace(SPEC, name="one"))

    one, two = (state.load(tmp_path / name) for name in ("one", "two"))
    assert one is not None
    assert two is not None
    assert not set(one.ports.values()) & set(two.ports.values())


def test_labs_of_one_name_in_two_homes_share_no_folder(tmp_path: Path) -> None:

    layouts = [LocalRuntime("raylab", tmp_path / home / "raylab")._layout for home in ("a", "b")]

    assert layouts[0].ray_temporary != layouts[1].ray_temporary


def test_the_longest_socket_path_of_ray_fits(tmp_path: Path) -> None:

    folder = LocalRuntime("a" * 20, tmp_path / ("x" * 200))._layout.ray_temporary

    socket_path = folder / "session_2026-11-20_21-34-08_123456_1234567" / "sockets" / "plasma_store.10"
    assert len(str(socket_path)) <= 107


def test_a_folder_that_cannot_be_written_is_a_setup_error(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "raylab").write_text("a file")

    with pytest.raises(SetupError, match="cannot write to"):
        machine.runtime(tmp_path).up(SPEC)


GAVE_UP = "Exception: The current node timed out during startup. This could happen because ..."


def fails(machine: Machine, service: str, times: int) -> None:
    """Let Ray give the service up so often; after that it starts."""
    left = [times]

    def spawned() -> None:  # called when this start has gone as it has to
        left[0] -= 1
        if left[0] <= 0:
            machine.dies.discard(service)

    machine.dies.add(service)
    machine.last_words[service] = GAVE_UP
    machine.on_spawn[service] = spawned


@pytest.mark.parametrize("node", [HEAD, "ray-worker-0"])
def test_a_node_that_ray_gave_up_is_started_again(machine: Machine, tmp_path: Path, node: str) -> None:
    fails(machine, node, 2)
    said: list[Progress] = []
    assert machine.runtime(tmp_path).up(SPEC, said.append).healthy
    assert machine.services("spawn").count(node) == 3
    assert [step.detail for step in said if "again" in step.detail] == [
        "started again: the machine was too busy (try 2 of 3)",
        "started again: the machine was too busy (try 3 of 3)",
    ]


def test_a_node_that_ray_gives_up_every_time_is_an_error(machine: Machine, tmp_path: Path) -> None:
    fails(machine, "ray-worker-0", 100)
    with pytest.raises(ServiceError, match="timed out during startup"):
        machine.runtime(tmp_path).up(SPEC)
    assert machine.services("spawn").count("ray-worker-0") == 3


def test_start_and_restart_try_again_too(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.die("ray-worker-0")
    fails(machine, "ray-worker-0", 2)
    said: list[Progress] = []
    machine.runtime(tmp_path).start("ray-worker-0", said.append)
    assert machine.runtime(tmp_path).status().healthy
    assert [step.detail for step in said if "again" in step.detail][-1].endswith("(try 3 of 3)")


def test_a_crashed_node_that_ray_gave_up_is_started_by_whoever_waits_for_it(
    machine: Machine, tmp_path: Path
) -> None:
    machine.runtime(tmp_path).up(SPEC)
    fails(machine, "ray-worker-0", 2)
    machine.runtime(tmp_path).crash("ray-worker-0")
    machine.runtime(tmp_path).start("ray-worker-0")
    assert machine.runtime(tmp_path).status().healthy


def test_each_try_has_its_time_and_its_error_shows_what_was_written_before(
    machine: Machine, tmp_path: Path
) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.die("ray-worker-0")
    fails(machine, "ray-worker-0", 1)
    begins: list[float] = []
    spawned = machine.on_spawn["ray-worker-0"]

    def second_hangs() -> None:
        begins.append(machine.now)
        spawned()
        machine.unready.add("ray-worker-0")
        machine.last_words["ray-worker-0"] = ""

    machine.on_spawn["ray-worker-0"] = second_hangs
    with pytest.raises(WaitTimeoutError, match=r"after 120 s(.*\n)*.*timed out"):
        machine.runtime(tmp_path).start("ray-worker-0")
    assert machine.now - begins[-1] == pytest.approx(120, abs=1)


def test_a_failed_repair_keeps_what_it_has_made_healthy(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    for service in (STORE, JUPYTER, "ray-worker-1"):
        machine.die(service)
    machine.dies.add("ray-worker-1")
    machine.unready.add(JUPYTER)

    with pytest.raises(ServiceError, match="ray-worker-1 ended"):
        machine.runtime(tmp_path).up(SPEC)

    states = {s.service: s.state for s in machine.runtime(tmp_path).status().services}
    assert states[STORE] is State.HEALTHY, "a job may be writing to it by now"
    assert states[JUPYTER] is State.ABSENT, "it had not become healthy"
    assert states["ray-worker-1"] is State.ABSENT


def test_a_failed_repair_keeps_what_ran_before_and_was_started_afresh(
    machine: Machine, tmp_path: Path
) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.unready.add(STORE)
    machine.die("ray-worker-1")
    machine.dies.add("ray-worker-1")

    with pytest.raises(ServiceError, match="ray-worker-1 ended"):
        machine.runtime(tmp_path).up(SPEC)

    assert STORE in machine.alive


@pytest.mark.parametrize("broken", ALL)
@pytest.mark.parametrize("how", ["dies", "never serves", "Ctrl-C"])
def test_wherever_a_repair_fails_what_ran_goes_on_and_so_does_its_store(
    machine: Machine, tmp_path: Path, broken: str, how: str
) -> None:
    machine.runtime(tmp_path).up(SPEC)
    for service in {STORE, broken}:
        machine.die(service)
    ran = {name: machine.pid_of(name) for name in ALL if name not in (STORE, broken)}
    if how == "dies":
        machine.dies.add(broken)
    elif how == "never serves":
        machine.unready.add(broken)
    else:
        machine.on_spawn[broken] = lambda: signal.raise_signal(signal.SIGINT)
    machine.journal.clear()

    with pytest.raises((LabError, KeyboardInterrupt)):
        machine.runtime(tmp_path).up(SPEC)

    assert STORE not in machine.services("end"), "jobs use it"
    assert {name: machine.pid_of(name) for name in ran} == ran
    if broken != STORE:
        assert STORE in machine.alive


@pytest.mark.parametrize("service", [STORE, JUPYTER])
def test_a_service_that_is_slow_to_answer_is_not_restarted(
    machine: Machine, tmp_path: Path, service: str
) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.journal.clear()
    machine.unready.add(service)
    begin = machine.now

    def late() -> None:
        if machine.now - begin > 20:
            machine.unready.clear()

    machine.on_probe[service] = late
    said: list[Progress] = []
    assert machine.runtime(tmp_path).up(SPEC, said.append).healthy
    assert machine.services("spawn") == []
    assert [step.service for step in said if step.state is State.RUNNING] == [service]


def test_a_service_that_is_slow_to_answer_when_all_is_up_is_asked_again(
    machine: Machine, tmp_path: Path
) -> None:
    said: list[Progress] = []

    def once() -> None:
        if any((step.service, step.state) == (JUPYTER, State.HEALTHY) for step in said):
            machine.on_probe.clear()
            machine.unready.add(JUPYTER)
            machine.on_probe[JUPYTER] = lambda: machine.unready.discard(JUPYTER)

    machine.on_probe[JUPYTER] = once
    assert machine.runtime(tmp_path).up(SPEC, said.append).healthy
    assert machine.on_probe[JUPYTER] is not once, "it answered when it was asked in the end"


def test_while_ray_does_not_answer_no_node_that_runs_is_restarted(machine: Machine, tmp_path: Path) -> None:
    machine.runtime(tmp_path).up(SPEC)
    machine.journal.clear()
    begin = machine.now
    machine.unready.update((HEAD, worker(0), worker(1)))
    machine.silent = True

    def late() -> None:
        if machine.now - begin > 20:
            machine.unready.clear()
            machine.silent = False

    machine.on_probe[HEAD] = late
    assert machine.runtime(tmp_path).up(SPEC).healthy
    assert machine.services("spawn") == []
