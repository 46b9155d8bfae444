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
from lab.daemons.pages import Request
from lab.errors import NotFoundError, UsageError
from lab.ext.health.board import FLAKY_RETURNS, FORGOTTEN_SECONDS, PRESENCE, SILENT, Board
from tests.conftest import ROOT
from tests.dashboard import cells
from tests.fakes.host import FakeClock

NODE, GPU = "ray-worker-0", "gpu-0"
MODELS = {GPU: "simulated", CPU: "a processor"}
ECC = {"node": NODE, "device": GPU, "check": "ecc"}


class Watched:
    """A board; an agent reports all that its checks found, each time."""

    def __init__(self) -> None:
        self.clock, self.said, self.woken = FakeClock(1000.0), list[str](), list[float]()
        wake = lambda: self.woken.append(self.clock.now)  # noqa: E731
        self.board = Board(threading.RLock(), self.clock, wake, self.said.append)

    def post(self, page: str, **document: Any) -> dict[str, Any]:
        handlers = {path: handler for method, path, handler in self.board.pages() if method == "POST"}
        sent = json.dumps(document).encode()
        request = Request({"CONTENT_LENGTH": str(len(sent)), "wsgi.input": io.BytesIO(sent)}, ())
        answer: dict[str, Any] = plain(handlers[f"/health/{page}"](request).document)
        return answer

    def report(self, *results: dict[str, Any], node: str = NODE, **more: Any) -> dict[str, Any]:
        devices = [
            {"name": name, "model": model, "checks": [of(r) for r in results if r["device"] == name]}
            for name, model in MODELS.items()
        ]
        base = {"node": node, "boot": "1", "address": f"{node}:1", "devices": devices}
        return self.post("report", **{**base, **more})

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


def test_the_controller_is_woken_for_another_state_and_for_another_reason(world: Watched) -> None:
    for a, b in ((EVICT, PASS), (EVICT, PASS), (PASS, EVICT), (PASS, PASS)):
        world.report(result(a, "a"), result(b, "b"))
        world.clock.now += 5
    assert world.woken == [1000.0, 1010.0, 1015.0]


@pytest.mark.parametrize("boot", ["1", "2"])
@pytest.mark.parametrize("state", [UNKNOWN, WARN])
def test_a_broken_gpu_stays_so_while_its_check_cannot_tell_or_hangs(
    world: Watched, state: str, boot: str
) -> None:
    world.report(result(EVICT, value=2.0))
    world.report(boot=boot)
    world.report(result(state, at=995.0), boot=boot)
    assert (world.state(), world.view().message) == (EVICT, "ecc says EVICT")
    assert world.view().checks[0].at == 995.0
    world.report(result(WARN, value=1.0), boot=boot)
    assert world.state() == WARN


def test_what_is_suspicious_is_not_known_any_more_when_its_check_cannot_tell(world: Watched) -> None:
    world.report(result(WARN))
    world.report(result(UNKNOWN))
    assert (world.state(), world.view().message) == (UNKNOWN, "ecc says UNKNOWN")


def test_the_controller_is_woken_for_a_device_that_is_gone(world: Watched) -> None:
    world.report(result(EVICT))
    world.report(devices=[{"name": CPU, "model": ""}])
    assert [view.device for view in world.board.devices()] == [CPU]
    assert len(world.woken) == 2


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


def test_a_fault_that_nobody_reverts_ends_by_itself(world: Watched) -> None:
    world.report(result(PASS))
    world.post("symptom", **ECC, state=EVICT, until=1010.0)
    world.seconds(9)
    assert world.state() == EVICT
    world.seconds(1)
    assert (world.state(), world.board.view().symptoms) == (PASS, ())


@pytest.mark.parametrize(
    ("page", "body", "error", "message"),
    [
        ("report", {"node": "x"}, UsageError, "boot is missing"),
        ("symptom", {**ECC, "state": EVICT, "chek": "x"}, UsageError, "chek"),
        ("symptom", {**ECC, "state": "UNKNOWN"}, UsageError, "UNKNOWN"),
        (
            "symptom",
            {**ECC, "device": "gpu-9", "state": EVICT},
            NotFoundError,
            f"no health agent has told of {NODE} gpu-9",
        ),
        (
            "symptom",
            {**ECC, "node": "x", "state": EVICT},
            NotFoundError,
            "no health agent has told of x gpu-0",
        ),
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


# Metrics


def samples(world: Watched) -> dict[tuple[str, ...], float]:
    """(metric, values of its labels in the order of their names) -> value."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in world.board.collect()
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


@pytest.mark.parametrize(
    ("state", "value", "alert"),
    [(PASS, None, False), (WARN, None, True), (WARN, 0.0, True), (UNKNOWN, None, False)],
)
def test_only_a_bandwidth_that_is_low_raises_an_alert(
    world: Watched, state: str, value: float | None, alert: bool
) -> None:
    world.report(result(PASS), result(state, "pciebw", value=value))
    key = ("autopilot_health_checks", "a processor", GPU, "simulated", "pciebw", NODE)
    assert (samples(world)[key] <= 4) is alert


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
