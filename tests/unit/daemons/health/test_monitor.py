"""Reports of agents and orders of people, and what becomes of them."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import pytest

from lab.api.base import plain
from lab.api.health import EVICT, PASS, UNKNOWN, WARN
from lab.daemons.health.gauges import HealthCollector
from lab.daemons.health.model import Change
from lab.daemons.health.monitor import HealthMonitor
from lab.errors import NotFoundError, StateError, UsageError
from tests.conftest import ROOT
from tests.dashboard import cells
from tests.fakes.host import FakeClock

NODE, GPU = "ray-worker-0", "gpu-0"


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
    """A monitor and its disk."""

    def __init__(self) -> None:
        self.clock, self.disk, self.said = FakeClock(1000.0), Disk(), list[str]()
        self.monitor = self.open()

    def open(self) -> HealthMonitor:
        return HealthMonitor(self.disk, threading.RLock(), self.clock, self.said.append)

    def report(self, *results: dict[str, Any], node: str = NODE, **more: Any) -> dict[str, Any]:
        given = {
            "node": node,
            "boot": "1",
            "interval": 5.0,
            "devices": [{"name": GPU, "model": "simulated"}, {"name": "cpu", "model": "a processor"}],
            "checks": ["ecc", "disk-latency"],
            "address": f"{node}:1",
            "results": list(results),
            "skipped": {},
            **more,
        }
        orders: dict[str, Any] = plain(self.monitor.report(json.dumps(given).encode()))
        return orders

    def post(self, page: str, **body: Any) -> dict[str, Any]:
        answer: dict[str, Any] = plain(getattr(self.monitor, page)(json.dumps(body).encode()))
        return answer

    def state(self, device: str = GPU) -> str:
        rows = [row for row in plain(self.monitor.view())["devices"] if row["device"] == device]
        return str(rows[0]["state"])

    def second(self) -> None:
        self.clock.now += 1.0
        self.monitor.tick()


@pytest.fixture
def world() -> Watched:
    return Watched()


def result(state: str = PASS, check: str = "ecc", device: str = GPU, **more: Any) -> dict[str, Any]:
    return {"check": check, "device": device, "state": state, **more}


ECC = {"node": NODE, "device": GPU, "check": "ecc"}


def test_what_an_agent_reports_is_shown(world: Watched) -> None:
    world.report(result(EVICT, value=2, unit="errors", message="2 errors", evidence={"ecc": "2"}, at=990.0))
    (gpu, cpu) = plain(world.monitor.view())["devices"]
    assert (gpu["state"], gpu["reason"], gpu["message"], gpu["model"]) == (
        EVICT,
        "ecc",
        "2 errors",
        "simulated",
    )
    assert gpu["checks"][0]["evidence"] == {"ecc": "2"}
    assert cpu["state"] == UNKNOWN
    assert world.said == [
        "health: ray-worker-0 gpu-0 is EVICT (ecc: 2 errors)",
        "health: ray-worker-0 cpu is UNKNOWN",
    ]


def test_the_answer_has_the_time_and_the_other_nodes_that_speak(world: Watched) -> None:
    world.report(node="ray-head")
    world.report(node="ray-worker-1")
    answer = world.report()
    assert answer["now"] == 1000.0
    assert answer["peers"] == {"ray-head": "ray-head:1", "ray-worker-1": "ray-worker-1:1"}
    world.clock.now += 16.0
    assert world.report()["peers"] == {}


def test_an_ordered_check_is_told_once(world: Watched) -> None:
    world.report()
    assert world.post("run", node=NODE)["ordered"] == {NODE: ["ecc", "disk-latency"]}
    assert world.report()["run"] == ["ecc", "disk-latency"]
    assert world.report()["run"] == []
    world.post("run", check="ecc")
    assert world.report()["run"] == ["ecc"]


def test_an_override_is_told_until_it_is_lifted_and_outlives_the_controller(world: Watched) -> None:
    world.report()
    order = world.post("override", **ECC, state=EVICT, message="a\nfault")
    assert order["message"] == "a fault"
    assert world.report()["overrides"] == [order]
    world.monitor = world.open()
    assert world.report()["overrides"] == [order]
    world.post("lift", **ECC)
    assert world.report()["overrides"] == []


def test_a_result_that_has_to_be_confirmed_is_asked_for_again(world: Watched) -> None:
    world.report(result(PASS, worse_after=2))
    assert world.report(result(WARN, worse_after=2))["confirm"] == ["ecc"]
    assert world.report(result(WARN, worse_after=2))["confirm"] == []


@pytest.mark.parametrize(
    ("page", "body", "error", "message"),
    [
        ("report", {"node": "x"}, UsageError, "boot is missing"),
        ("run", {"node": "x"}, NotFoundError, "no health agent of a node 'x'"),
        ("run", {"check": "x"}, NotFoundError, "no node makes the check 'x'"),
        ("run", {"chek": "x"}, UsageError, "chek"),
        ("override", {**ECC, "state": "TESTING"}, UsageError, "TESTING"),
        ("override", {**ECC, "device": "gpu-9", "state": EVICT}, NotFoundError, "no device 'gpu-9'"),
        ("override", {**ECC, "node": "x", "state": EVICT}, NotFoundError, "no health agent"),
        ("lift", {"node": NODE}, UsageError, "device is missing"),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(
    world: Watched, page: str, body: dict[str, Any], error: type[Exception], message: str
) -> None:
    world.report(result())
    before = plain(world.monitor.view())
    with pytest.raises(error, match=re.escape(message)):
        world.post(page, **body)
    assert plain(world.monitor.view()) == before


def test_a_report_with_another_state_is_refused(world: Watched) -> None:
    with pytest.raises(UsageError, match="FINE"):
        world.report(result("FINE"))
    assert plain(world.monitor.view())["devices"] == []


def test_states_are_kept_when_they_change_and_not_with_every_report(world: Watched) -> None:
    world.report(result(EVICT))
    written = world.disk.writes
    for _ in range(20):
        world.clock.now += 5
        world.report(result(EVICT))
    assert world.disk.writes == written
    world.monitor = world.open()
    assert world.state() == EVICT


def test_a_full_disk_does_not_hide_a_state(world: Watched) -> None:
    world.disk.full = True
    world.report(result(EVICT))
    assert world.state() == EVICT
    for _ in range(3):
        world.second()
    assert world.said.count("health is not stored: the disk is full") == 1
    world.disk.full = False
    world.second()
    assert world.disk.document is not None, "what could not be written is written later"


def test_a_silent_agent_is_noticed_by_time(world: Watched) -> None:
    world.report(result())
    for _ in range(16):
        world.second()
    assert (world.state(), world.state("cpu")) == (UNKNOWN, UNKNOWN)


def test_listeners_hear_of_a_change_under_the_lock(world: Watched) -> None:
    heard = list[Change]()
    world.monitor.board.listen(heard.extend)
    world.report(result(EVICT))
    assert [(change.new.device, change.new.state) for change in heard] == [(GPU, EVICT), ("cpu", UNKNOWN)]


# Metrics


def samples(world: Watched) -> dict[tuple[str, ...], float]:
    """(metric, values of its labels in the order of their names) -> value."""
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in HealthCollector(world.monitor).collect()
        for sample in family.samples
    }


def test_the_gauge_has_autopilots_name_labels_and_values(world: Watched) -> None:
    world.report(
        result(EVICT), result(PASS, "pciebw", value=12.5, unit="GB/s"), result(PASS, "disk-latency", "cpu")
    )
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
    world.clock.now += 20
    world.monitor.tick()
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
