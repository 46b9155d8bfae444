"""Reports of agents, what faults say, and the states that follow, on an injected clock."""

from __future__ import annotations

import io
import json
import re
import threading
from typing import Any

import pytest

from lab.api.base import plain
from lab.api.health import CPU, EVICT, PASS, UNKNOWN, WARN, DeviceView
from lab.daemons.health.board import FLAKY_RETURNS, FORGOTTEN_SECONDS, PRESENCE, SILENT, Board, routes
from lab.daemons.health.gauges import HealthCollector
from lab.daemons.pages import Request
from lab.errors import NotFoundError, StateError, UsageError
from tests.conftest import ROOT
from tests.dashboard import cells
from tests.fakes.host import FakeClock

NODE, GPU = "ray-worker-0", "gpu-0"
MODELS = {GPU: "simulated", CPU: "a processor"}
ECC = {"node": NODE, "device": GPU, "check": "ecc"}


class Disk:
    """Keeps one document, or fails."""

    def __init__(self) -> None:
        self.document: dict[str, Any] | None = None
        self.writes = 0
        self.full = False

    def health(self) -> dict[str, Any] | None:
        return self.document

    def keep_health(self, document: dict[str, Any]) -> None:
        if self.full:
            raise StateError("the disk is full")
        self.writes += 1
        self.document = json.loads(json.dumps(document))


class Watched:
    """A board and its disk; an agent reports all that its checks found, each time."""

    def __init__(self) -> None:
        self.clock, self.disk, self.said = FakeClock(1000.0), Disk(), list[str]()
        self.board = self.open()

    def open(self) -> Board:
        return Board(self.disk, threading.RLock(), self.clock, self.said.append)

    def post(self, page: str, **document: Any) -> dict[str, Any]:
        handlers = {path: handler for method, path, handler in routes(self.board) if method == "POST"}
        sent = json.dumps(document).encode()
        request = Request({"CONTENT_LENGTH": str(len(sent)), "wsgi.input": io.BytesIO(sent)}, ())
        answer: dict[str, Any] = plain(handlers[f"/health/{page}"](request).document)
        return answer

    def report(self, *results: dict[str, Any], node: str = NODE, **more: Any) -> dict[str, Any]:
        devices = [
            {"name": name, "model": model, "checks": [of(r) for r in results if r["device"] == name]}
            for name, model in MODELS.items()
        ]
        given = {
            "node": node,
            "boot": "1",
            "interval": 5.0,
            "address": f"{node}:1",
            "devices": devices,
            "skipped": {},
            **more,
        }
        return self.post("report", **given)

    def view(self, device: str = GPU, node: str = NODE) -> DeviceView:
        return next(view for view in self.board.devices() if (view.node, view.device) == (node, device))

    def state(self, device: str = GPU) -> str:
        return self.view(device).state

    def seconds(self, count: int) -> None:
        for _ in range(count):
            self.clock.now += 1.0
            self.board.tick()


def result(state: str = PASS, name: str = "ecc", device: str = GPU, **more: Any) -> dict[str, Any]:
    return {"name": name, "device": device, "state": state, "message": f"{name} says {state}", **more}


def of(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "device"}


@pytest.fixture
def world() -> Watched:
    return Watched()


# States


def test_what_an_agent_reports_is_shown(world: Watched) -> None:
    world.report(result(EVICT, value=2.0, unit="errors", message="2 errors", at=990.0))
    gpu, cpu = world.board.devices()
    assert (gpu.state, gpu.reason, gpu.message, gpu.model) == (EVICT, "ecc", "2 errors", "simulated")
    assert (gpu.checks[0].value, gpu.checks[0].unit, gpu.checks[0].at) == (2.0, "errors", 990.0)
    assert (cpu.state, cpu.message) == (UNKNOWN, "not checked yet")
    assert world.said == [
        "health: ray-worker-0 gpu-0 is EVICT (ecc: 2 errors)",
        "health: ray-worker-0 cpu is UNKNOWN",
    ]


def test_a_device_without_results_is_unknown_and_one_whose_checks_pass_passes(world: Watched) -> None:
    world.report()
    assert world.view().message == "not checked yet"
    world.report(result(UNKNOWN))
    assert (world.state(), world.view().reason, world.view().message) == (UNKNOWN, "ecc", "ecc says UNKNOWN")
    world.report(result(PASS), result(UNKNOWN, "xid"))
    assert (world.state(), world.view().reason, world.view().message) == (PASS, "", "")


def test_the_worst_check_decides_and_is_the_reason(world: Watched) -> None:
    world.report(result(WARN, "c"), result(PASS, "a"), result(EVICT, "b"))
    assert (world.state(), world.view().reason, world.view().message) == (EVICT, "b", "b says EVICT")
    assert [check.name for check in world.view().checks] == ["a", "b", "c"]
    assert not world.view().takes_work
    world.report(result(WARN, "c"), result(PASS, "b"))
    assert (world.state(), world.view().takes_work) == (WARN, True)


def test_devices_of_a_node_are_apart(world: Watched) -> None:
    world.report(result(EVICT), result(PASS, "disk", CPU))
    assert [(view.device, view.state) for view in world.board.devices()] == [(GPU, EVICT), (CPU, PASS)]


def test_the_last_result_counts_and_a_state_has_the_time_at_which_it_began(world: Watched) -> None:
    since = []
    for state in (PASS, PASS, EVICT, EVICT, PASS):
        world.clock.now += 5
        world.report(result(state))
        since.append((world.state(), world.view().since))
    assert since == [(PASS, 1005.0), (PASS, 1005.0), (EVICT, 1015.0), (EVICT, 1015.0), (PASS, 1025.0)]


def test_listeners_hear_of_another_state_and_of_another_reason(world: Watched) -> None:
    heard = list[float]()
    world.board.listeners.append(lambda: heard.append(world.clock.now))
    for a, b in ((EVICT, PASS), (EVICT, PASS), (PASS, EVICT), (PASS, PASS)):
        world.report(result(a, "a"), result(b, "b"))
        world.clock.now += 5
    assert heard == [1000.0, 1010.0, 1015.0]


def test_a_check_that_could_not_tell_leaves_what_is_known(world: Watched) -> None:
    world.report(result(EVICT, at=990.0))
    world.report(result(UNKNOWN, at=995.0))
    assert (world.state(), world.view().message, world.view().checks[0].at) == (
        EVICT,
        "ecc says EVICT",
        995.0,
    )
    world.report(result(PASS))
    assert world.state() == PASS


@pytest.mark.parametrize("boot", ["1", "2"])
def test_a_check_of_a_broken_gpu_that_hangs_does_not_make_it_better(world: Watched, boot: str) -> None:
    world.report(result(EVICT, value=2.0))
    world.report(result(WARN, at=995.0), boot=boot)
    assert (world.state(), world.view().checks[0].at) == (EVICT, 995.0)
    world.report(result(WARN, value=1.0), boot=boot)
    assert world.state() == WARN


def test_a_broken_gpu_stays_so_when_its_check_cannot_be_made_any_more(world: Watched) -> None:
    world.report(result(EVICT), result(WARN, "xid"))
    world.report(skipped={"ecc": "no NVML", "xid": "it may not be read"})
    assert [(check.name, check.state) for check in world.view().checks] == [("ecc", EVICT)]


def test_a_node_that_starts_again_is_what_it_was_until_it_has_looked(world: Watched) -> None:
    world.report(result(EVICT), result(PASS, "xid"))
    world.report(boot="2")
    assert world.state() == EVICT
    world.report(boot="2", skipped={"xid": "it may not be read"})
    assert [check.name for check in world.view().checks] == ["ecc"]
    world.report(result(PASS), boot="2")
    assert world.state() == PASS


def test_what_the_board_adds_is_not_taken_for_what_an_agent_found(world: Watched) -> None:
    for life in range(FLAKY_RETURNS + 1):
        world.report(result(PASS, "disk", CPU), boot=str(life))
    world.post("symptom", **ECC, state=EVICT)
    world.board = world.open()
    world.post("symptom", **ECC, state=PASS)
    assert [check.name for view in world.board.devices() for check in view.checks] == ["disk"]


def test_a_device_that_an_agent_no_longer_has_is_gone(world: Watched) -> None:
    world.report(result(EVICT))
    world.report(devices=[{"name": CPU, "model": ""}])
    assert [view.device for view in world.board.devices()] == [CPU]


def test_listeners_and_the_disk_learn_of_a_device_that_is_gone(world: Watched) -> None:
    heard = list[int]()
    world.report(result(EVICT))
    world.board.listeners.append(lambda: heard.append(len(world.board.devices())))
    world.report(devices=[{"name": CPU, "model": ""}])
    assert heard == [1]
    world.board = world.open()
    assert [view.device for view in world.board.devices()] == [CPU]


# Silence


def test_a_silent_agent_makes_its_devices_unknown_and_a_report_makes_them_known_again(world: Watched) -> None:
    world.report(result())
    world.seconds(15)
    assert world.state() == PASS
    world.seconds(1)
    assert [(view.state, view.reason) for view in world.board.devices()] == [(UNKNOWN, SILENT)] * 2
    assert world.view().takes_work
    world.report(result())
    assert world.state() == PASS


def test_a_broken_gpu_stays_so_while_its_agent_is_silent(world: Watched) -> None:
    world.report(result(EVICT))
    world.seconds(1000)
    assert (world.state(), world.state(CPU)) == (EVICT, UNKNOWN)


def test_a_machine_that_stood_still_made_nobody_silent(world: Watched) -> None:
    world.report(result(PASS))
    world.seconds(1)
    world.clock.now += 3600
    world.seconds(5)
    assert world.state() == PASS
    world.report(result(PASS))
    world.seconds(1)
    assert world.state() == PASS


def test_an_agent_that_stays_silent_after_that_is_silent(world: Watched) -> None:
    world.report(result(PASS))
    world.seconds(1)
    world.clock.now += 3600
    world.seconds(20)
    assert (world.state(), world.view().reason) == (UNKNOWN, SILENT)


def test_a_node_that_comes_and_goes_is_suspicious_until_it_stays(world: Watched) -> None:
    passes = result(PASS, "disk", CPU)
    world.report(passes, boot="0")
    for life in range(1, FLAKY_RETURNS + 1):
        assert world.state(CPU) == PASS
        world.clock.now += 1
        world.report(passes, boot=str(life))
    assert (world.state(CPU), world.view(CPU).reason) == (WARN, PRESENCE)
    assert world.view(CPU).message == "came back 3 times within 90 s"
    assert world.state(GPU) == UNKNOWN
    for _ in range(20):
        world.clock.now += 5
        world.report(passes, boot=str(FLAKY_RETURNS))
    assert world.state(CPU) == PASS


def test_a_return_after_silence_counts_as_one(world: Watched) -> None:
    world.report()
    for _ in range(FLAKY_RETURNS):
        world.seconds(20)
        world.report()
    assert world.view(CPU).reason == PRESENCE


def test_a_node_that_is_silent_for_long_is_forgotten_unless_a_device_is_broken(world: Watched) -> None:
    world.report(result(PASS))
    world.report(result(EVICT), node="ray-worker-1")
    world.post("symptom", **{**ECC, "device": CPU}, state=WARN)
    world.seconds(int(FORGOTTEN_SECONDS) + 1)
    assert {view.node for view in world.board.devices()} == {"ray-worker-1"}
    assert world.board.view().symptoms == ()


# What an agent is told


def test_the_answer_has_the_time_and_the_other_nodes_that_speak(world: Watched) -> None:
    world.report(node="ray-head")
    world.report(node="ray-worker-1")
    answer = world.report()
    assert answer["now"] == 1000.0
    assert answer["peers"] == {"ray-head": "ray-head:1", "ray-worker-1": "ray-worker-1:1"}
    world.seconds(16)
    assert world.report()["peers"] == {}


# Faults


def test_a_check_says_what_a_fault_wants_until_it_ends(world: Watched) -> None:
    world.report(result(PASS), result(WARN, "xid"))
    symptom = world.post("symptom", **ECC, state=EVICT, message="a\nfault")
    assert symptom["message"] == "a fault"
    assert plain(world.board.view().symptoms) == [symptom]
    assert (world.state(), world.view().reason, world.view().message) == (EVICT, "ecc", "a fault")
    world.report(result(PASS), result(PASS, "xid"))
    assert world.state() == EVICT
    world.post("symptom", **ECC, state=PASS)
    world.post("symptom", **ECC, state=PASS)
    assert (world.state(), world.board.view().symptoms) == (PASS, ())


def test_what_a_fault_wants_outlives_the_controller(world: Watched) -> None:
    world.report(result(PASS))
    world.post("symptom", **ECC, state=EVICT)
    world.board = world.open()
    world.report(result(PASS))
    assert world.state() == EVICT
    world.post("symptom", **ECC, state=PASS)
    world.board = world.open()
    world.report(result(PASS))
    assert world.state() == PASS


def test_a_fault_that_nobody_reverts_ends_by_itself(world: Watched) -> None:
    world.report(result(PASS))
    world.post("symptom", **ECC, state=EVICT, until=1010.0)
    world.seconds(9)
    assert world.state() == EVICT
    world.board = world.open()
    world.clock.now += 1
    world.report(result(PASS))
    assert (world.state(), world.board.view().symptoms) == (PASS, ())


@pytest.mark.parametrize(
    ("page", "body", "error", "message"),
    [
        ("report", {"node": "x"}, UsageError, "boot is missing"),
        ("symptom", {**ECC, "state": EVICT, "chek": "x"}, UsageError, "chek"),
        ("symptom", {**ECC, "state": "UNKNOWN"}, UsageError, "UNKNOWN"),
        ("symptom", {**ECC, "device": "gpu-9", "state": EVICT}, NotFoundError, "no device 'gpu-9'"),
        ("symptom", {**ECC, "node": "x", "state": EVICT}, NotFoundError, "no health agent"),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(
    world: Watched, page: str, body: dict[str, Any], error: type[Exception], message: str
) -> None:
    world.report(result())
    before = world.board.view()
    with pytest.raises(error, match=re.escape(message)):
        world.post(page, **body)
    assert world.board.view() == before


def test_a_report_with_another_state_is_refused(world: Watched) -> None:
    with pytest.raises(UsageError, match="FINE"):
        world.report(result("FINE"))
    assert world.board.devices() == ()


# What is kept


def test_states_are_kept_when_they_change_and_not_with_every_report(world: Watched) -> None:
    world.report(result(EVICT))
    written = world.disk.writes
    for _ in range(20):
        world.clock.now += 5
        world.report(result(EVICT))
    assert world.disk.writes == written
    since = world.view().since
    world.board = world.open()
    assert (world.state(), world.view().since) == (EVICT, since)


def test_a_board_that_goes_on_waits_for_its_agents(world: Watched) -> None:
    world.report(result(PASS), result(PASS, "disk", CPU))
    before = world.board.devices()
    world.clock.now += 100
    world.board = world.open()
    assert world.board.devices() == before
    world.seconds(15)
    assert world.board.devices() == before, "an agent has the time of three reports to be heard again"
    world.seconds(1)
    assert world.view().reason == SILENT


def test_a_full_disk_does_not_hide_a_state(world: Watched) -> None:
    world.disk.full = True
    world.report(result(EVICT))
    assert world.state() == EVICT
    world.seconds(3)
    assert world.said.count("health is not stored: the disk is full") == 1
    world.disk.full = False
    world.seconds(1)
    assert world.disk.document is not None, "what could not be written is written later"


# Metrics


def samples(world: Watched) -> dict[tuple[str, ...], float]:
    """(metric, values of its labels in the order of their names) -> value."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in HealthCollector(world.board).collect()
        for sample in family.samples
    }


def test_the_gauge_has_autopilots_name_labels_and_values(world: Watched) -> None:
    bandwidth = result(PASS, "pciebw", value=12.5, unit="GB/s")
    world.report(result(EVICT), bandwidth, result(PASS, "disk-latency", CPU))
    gauge = {key[1:]: value for key, value in samples(world).items() if key[0] == "autopilot_health_checks"}
    assert gauge == {  # cpumodel, deviceid, gpumodel, health, node
        ("a processor", GPU, "simulated", "ecc", NODE): 1.0,
        ("a processor", GPU, "simulated", "pciebw", NODE): 12.5,
        ("a processor", "cpu", "", "disk-latency", NODE): 0.0,
    }


def test_a_bandwidth_that_was_not_measured_raises_no_alert(world: Watched) -> None:
    world.report(result(PASS, "pciebw"))
    key = ("autopilot_health_checks", "a processor", GPU, "simulated", "pciebw", NODE)
    assert not samples(world)[key] <= 4
    world.report(result(WARN, "pciebw"))
    assert samples(world)[key] <= 4


def test_a_silent_node_has_a_state_and_no_checks(world: Watched) -> None:
    world.report(result())
    world.seconds(20)
    values = samples(world)
    assert values["raylab_health_state", GPU, NODE, UNKNOWN] == 1.0
    assert values["raylab_health_state", GPU, NODE, PASS] == 0.0
    assert not [key for key in values if key[0] == "autopilot_health_checks"]


def test_dashboard_and_alerts_ask_only_for_metrics_that_are_served(world: Watched) -> None:
    world.report(result(value=1.0))
    served = {key[0] for key in samples(world)}
    for path in ("grafana/dashboards/health.json", "prometheus/health.rules.yml"):
        text = (ROOT / "compose" / path).read_text(encoding="utf-8")
        asked = set(re.findall(r"(?:autopilot|raylab)_health_\w+", text))
        assert asked, path
        assert asked <= served, path


def test_the_panels_of_the_dashboard_are_apart() -> None:
    document: Any = json.loads((ROOT / "compose/grafana/dashboards/health.json").read_text())
    panels = document["panels"]
    assert len({p["id"] for p in panels}) == len({p["title"] for p in panels}) == len(panels)
    taken = cells(panels)
    assert len(taken) == len(set(taken))
    assert all(p["datasource"] == {"type": "prometheus", "uid": "raylab-prometheus"} for p in panels)
