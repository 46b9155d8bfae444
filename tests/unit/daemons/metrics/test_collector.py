"""The metrics as Prometheus reads them, and what is left of them when a source fails."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.daemons.metrics.collector import FAULT_SHOWN_SECONDS, STATUSES, LabCollector
from lab.daemons.metrics.follower import STALE_SECONDS, Follower
from lab.daemons.metrics.sources import (
    MAX_FAULT_PAIRS,
    MAX_SERVICES,
    Address,
    ClusterView,
    RunView,
    StoreView,
)
from lab.errors import ClusterError
from lab.faults import FAULTS
from lab.faults.records import LoggedFault
from tests.fakes.host import FakeClock

W0 = "ray-worker-0"
NOW = 1000.0


def node(node_id: str, service: str = W0, *, alive: bool = True, started_at: float = 1.0) -> Node:
    return Node(node_id, service, alive, False, {}, started_at, None, "")


def job(submission_id: str, status: str = "RUNNING") -> Job:
    metadata = {"raylab_recipe": "digits"}
    return Job(submission_id, status, "python train.py", "", 1.0, None, "n", None, metadata)


RUN = RunView("j1", "run", 3, {"loss": 0.5}, 2, 1)


class Lab:
    """Two sources, as a test sets them, and a clock."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.cluster: ClusterView | Exception = ClusterView((), {}, ())
        self.store: StoreView | Exception = StoreView((), ())
        self.said: list[str] = []
        self.followers = (
            Follower("ray", lambda: self._read("cluster"), clock=self.clock, say=self.said.append),
            Follower("store", lambda: self._read("store"), clock=self.clock, say=self.said.append),
        )
        self.collector = LabCollector(*self.followers, self.clock)

    def _read(self, name: str) -> Any:
        value = getattr(self, name)
        if isinstance(value, Exception):
            raise value
        return value

    def look(self) -> None:
        for follower in self.followers:
            follower.look()

    def samples(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Metric -> values of its labels, in order -> value; after a look at both sources."""
        self.look()
        return {
            family.name: {tuple(s.labels.values()): s.value for s in family.samples}
            for family in self.collector.collect()
        }


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_a_service_is_alive_when_its_newest_node_is(lab: Lab) -> None:
    dead, anew = node("a", alive=False), node("b", started_at=5.0)
    lab.cluster = ClusterView((dead, anew, node("c", "ray-head", alive=False)), {}, ())
    assert lab.samples()["raylab_node_alive"] == {(W0,): 1.0, ("ray-head",): 0.0}
    lab.cluster = ClusterView((node("a"), node("b", alive=False, started_at=5.0)), {}, ())
    assert lab.samples()["raylab_node_alive"] == {(W0,): 1.0}, "Ray learns late that the older is gone"


def test_a_living_node_can_be_joined_to_its_own_metrics(lab: Lab) -> None:
    addresses = {"a": Address("10.0.0.2", "10.0.0.2:1"), "b": Address("10.0.0.3", "10.0.0.3:1")}
    lab.cluster = ClusterView((node("a", alive=False), node("b"), node("c", "ray-head")), addresses, ())
    assert lab.samples()["raylab_node_info"] == {(W0, "b", "10.0.0.3", "10.0.0.3:1"): 1.0}


def test_jobs_are_counted_by_status_whether_there_are_any_or_not(lab: Lab) -> None:
    assert lab.samples()["raylab_jobs"] == {(status,): 0.0 for status in STATUSES}
    lab.cluster = ClusterView((), {}, (job("a"), job("b"), job("c", "FAILED")))
    samples = lab.samples()
    assert samples["raylab_jobs"]["RUNNING",] == 2.0
    assert samples["raylab_jobs"]["FAILED",] == 1.0


def test_runs_are_shown_and_what_a_run_does_not_tell_is_left_out(lab: Lab) -> None:
    silent = RunView("j2", "run", None, {}, 0, 1)
    lab.store = StoreView((RUN, silent), ())
    samples = lab.samples()
    assert samples["raylab_run_epoch"] == {("j1", "run"): 3.0}
    assert samples["raylab_run_metric"] == {("j1", "run", "loss"): 0.5}
    assert samples["raylab_checkpoints"] == {("j1", "run"): 2.0, ("j2", "run"): 0.0}
    assert samples["raylab_attempts"] == {("j1", "run"): 1.0, ("j2", "run"): 1.0}


# Faults

LASTS = LoggedFault("kill", W0, NOW - 100)


@pytest.mark.parametrize(
    ("fault", "nodes", "active"),
    [
        (LASTS, (), True),
        (LASTS, (node("a", started_at=NOW - 200),), True),
        (LASTS, (node("b", started_at=NOW - 50),), False),
        (LASTS, (node("b", "ray-head", started_at=NOW - 50),), True),
        (LASTS, (node("b", started_at=NOW - 50, alive=False),), True),
        (dataclasses.replace(LASTS, reverted_at=NOW - 90), (), False),
        (LoggedFault("stop", W0, NOW - 2, NOW - 1), (), True),
        (LoggedFault("stop", W0, NOW - FAULT_SHOWN_SECONDS, NOW - 1), (), False),
    ],
)
def test_a_fault_is_active_until_it_is_reverted_or_its_node_is_back_and_never_too_short_to_be_seen(
    lab: Lab, fault: LoggedFault, nodes: tuple[Node, ...], active: bool
) -> None:
    lab.cluster, lab.store = ClusterView(nodes, {}, ()), StoreView((), (fault,))
    samples = lab.samples()
    assert samples["raylab_fault_active"] == {(fault.kind, W0): float(active)}
    assert samples["raylab_faults"][fault.kind,] == 1.0


def test_every_kind_of_fault_is_counted_from_nought(lab: Lab) -> None:
    assert lab.samples()["raylab_faults"] == {(kind,): 0.0 for kind in FAULTS}
    lab.store = StoreView((), (LASTS, dataclasses.replace(LASTS, at=1.0, reverted_at=2.0)))
    samples = lab.samples()
    assert samples["raylab_faults"]["kill",] == 2.0
    assert samples["raylab_fault_active"] == {("kill", W0): 1.0}


# Bounds


def test_the_number_of_series_is_bounded(lab: Lab) -> None:
    nodes = tuple(node(f"n{n}", f"s{n}") for n in range(2 * MAX_SERVICES))
    lab.cluster = ClusterView(nodes, {}, ())
    lab.store = StoreView((), tuple(LoggedFault(f"k{n}", "w", 1.0, 2.0) for n in range(2 * MAX_FAULT_PAIRS)))
    samples = lab.samples()
    assert len(samples["raylab_node_alive"]) == MAX_SERVICES
    assert len(samples["raylab_fault_active"]) == len(samples["raylab_faults"]) == MAX_FAULT_PAIRS


# Sources that fail


def test_a_source_that_fails_is_told_and_the_other_is_served(lab: Lab) -> None:
    lab.store = StoreView((RUN,), ())
    lab.samples()
    lab.cluster = ClusterError("Ray's dashboard does not answer")
    samples = lab.samples()
    assert samples["raylab_source_up"] == {("ray",): 0.0, ("store",): 1.0}
    assert samples["raylab_run_epoch"]
    assert samples["raylab_jobs"], "a short silence costs no figures"

    lab.clock.now += STALE_SECONDS + 1
    samples = lab.samples()
    assert "raylab_jobs" not in samples
    assert samples["raylab_run_epoch"]

    lab.cluster = ClusterView((), {}, ())
    assert lab.samples()["raylab_source_up"]["ray",] == 1.0


def test_a_source_that_hangs_is_not_up_once_its_figures_are_old(lab: Lab) -> None:
    lab.look()
    lab.clock.now += STALE_SECONDS + 1
    assert not lab.followers[0].up
    assert lab.followers[0].current is None


def test_a_source_that_never_answered_is_served_as_down(lab: Lab) -> None:
    lab.cluster = lab.store = ClusterError("no")
    samples = lab.samples()
    assert samples == {"raylab_source_up": {("ray",): 0.0, ("store",): 0.0}}


def test_an_answer_of_an_unknown_shape_ends_nothing_and_is_logged_once(lab: Lab) -> None:
    lab.cluster = KeyError("data")
    for _ in range(3):
        lab.look()
    lab.cluster = ClusterView((), {}, ())
    lab.look()
    assert lab.said == ["ray: KeyError('data')", "ray: answers again"]
