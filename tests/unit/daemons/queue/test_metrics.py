"""Metrics of the queues: Kueue's names, values of the state as it is, counts that survive a restart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kueue.places import Change
from lab.daemons.queue.gauges import GAUGES
from lab.daemons.queue.metrics import exposition
from lab.daemons.queue.model import QUEUED, QueuedJob, Record
from lab.daemons.queue.tally import COUNTERS, HISTOGRAMS, Tally, bounds
from tests.conftest import ROOT
from tests.dashboard import cells
from tests.unit.daemons.queue.world import ControllerLab, priority, queue, unflavored

ONE = {"replica_role": "standalone"}


@pytest.fixture
def world(tmp_path: Path) -> ControllerLab:
    """Two queues of a cohort, the second of which takes its quota back."""
    world = ControllerLab(tmp_path)
    reclaims = {"preemption": {"reclaimWithinCohort": "Any"}}
    world.apply(*queue("a", 2, "all"))
    world.apply(*unflavored(queue("b", 2, "all", **reclaims)), priority("high", 10))
    return world


def samples(world: ControllerLab) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    from prometheus_client.parser import text_string_to_metric_families

    text = exposition(world.controller)().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(world: ControllerLab, metric: str, /, **labels: str) -> float | None:
    return samples(world).get((f"kueue_{metric}", tuple(sorted({**labels, **ONE}.items()))))


def test_quota_usage_and_share_are_told_in_whole_units(world: ControllerLab) -> None:
    world.submit("one", "a", gpus=3, work=60.0)
    world.run(3)
    place = {"cohort": "all", "cluster_queue": "a", "flavor": "h100", "resource": "nvidia.com/gpu"}
    assert value(world, "cluster_queue_nominal_quota", **place) == 2
    assert value(world, "cluster_queue_resource_usage", **place) == 3
    assert value(world, "cluster_queue_weighted_share", cluster_queue="a", cohort="all") == 250
    assert value(world, "cluster_queue_status", cluster_queue="a", status="active") == 1
    assert value(world, "admitted_active_workloads", cluster_queue="a") == 1


def test_who_waits_is_told_with_the_reason(world: ControllerLab) -> None:
    world.submit("one", "a", gpus=4, work=60.0)
    world.run(3)
    world.submit("two", "a", gpus=1, work=60.0)
    world.run(3)
    values = samples(world)
    waiting = {labels: n for (name, labels), n in values.items() if name == "kueue_pending_workloads" and n}
    assert waiting == {
        (("cluster_queue", "a"), ("replica_role", "standalone"), ("status", "inadmissible")): 1
    }
    reasons = {
        dict(labels)["reason"] for (name, labels), _ in values.items() if name == "kueue_unadmitted_workloads"
    }
    assert reasons == {"WaitingForQuota"}


def test_counts_are_the_same_after_a_restart_and_go_on(world: ControllerLab) -> None:
    world.submit("one", "a", gpus=3, work=30.0)
    world.run(3)
    world.submit("two", "b", gpus=2, work=5.0, priority_class="high")
    world.settle()
    kept = ("_total", "_count", "_sum")
    before = {key: n for key, n in samples(world).items() if key[0].endswith(kept)}
    by = {"preempting_cluster_queue": "b", "reason": "InCohortReclamation"}
    assert value(world, "preempted_workloads_total", **by) == 1
    evicted = {"cluster_queue": "a", "reason": "Preempted", "underlying_cause": "", "priority_class": ""}
    assert value(world, "evicted_workloads_total", **evicted) == 1
    assert value(world, "finished_workloads_total", cluster_queue="a", priority_class="") == 1
    started = "admitted_until_ready_wait_time_seconds_count"
    assert value(world, started, cluster_queue="b", priority_class="high") == 1

    world.start()

    after = {key: n for key, n in samples(world).items() if key in before}
    assert after == before
    world.submit("three", "a", work=2.0)
    world.settle()
    assert value(world, "finished_workloads_total", cluster_queue="a", priority_class="") == 2


JOB = Record("ns/w", QueuedJob(("python",)), QUEUED, 100.0)


class Counted:
    """A tally and what it has counted."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry

        self.registry = CollectorRegistry()
        self.tally = Tally(self.registry)

    def note(self, *changes: Change) -> None:
        for change in changes:
            self.tally.note(change, JOB)

    def value(self, metric: str, **labels: str) -> float | None:
        value: float | None = self.registry.get_sample_value(f"kueue_{metric}", {**labels, **ONE})
        return value


def change(at: float, event: str, reason: str = "", message: str = "") -> Change:
    return Change(at, event, "ns/w", reason, message, "a")


def test_one_that_waits_is_deactivated_but_not_evicted() -> None:
    counted = Counted()
    counted.note(change(101.0, "Deactivated", "Deactivated"))
    evicted = {"cluster_queue": "a", "reason": "Deactivated", "underlying_cause": "", "priority_class": ""}
    assert counted.value("evicted_workloads_total", **evicted) is None


def test_an_eviction_is_counted_once_however_often_it_is_ordered() -> None:
    counted = Counted()
    counted.note(
        change(101.0, "Admitted"),
        change(102.0, "Evicted", "ClusterQueueStopped"),
        change(103.0, "Deactivated", "MaximumExecutionTimeExceeded"),
    )
    (family,) = (family for family in counted.registry.collect() if family.name == "kueue_evicted_workloads")
    evicted = {"reason": "ClusterQueueStopped", "underlying_cause": "", "priority_class": ""}
    assert [(sample.labels, sample.value) for sample in family.samples] == [
        ({"cluster_queue": "a", **evicted, **ONE}, 1.0)
    ]


def test_the_wait_begins_anew_with_every_return_to_the_queue() -> None:
    counted = Counted()
    counted.note(
        change(104.0, "Admitted"),
        change(110.0, "Evicted", "NodeFailures"),
        change(112.0, "Requeued", "NodeFailures"),
        change(113.0, "Admitted"),
    )
    waited = {"cluster_queue": "a", "priority_class": ""}
    assert counted.value("admission_wait_time_seconds_sum", **waited) == 4.0 + 1.0


def test_a_histogram_has_kueues_bounds_and_a_clock_that_was_set_makes_no_negative_time() -> None:
    assert bounds(4) == (1.0, 2.5, 5.0, 10.0)
    counted = Counted()
    counted.note(change(99.0, "Admitted"))
    waited = {"cluster_queue": "a", "priority_class": ""}
    assert counted.value("admission_wait_time_seconds_bucket", le="1.0", **waited) == 1.0
    assert counted.value("admission_wait_time_seconds_bucket", le="2.5", **waited) == 1.0
    assert counted.value("admission_wait_time_seconds_sum", **waited) == 0.0


def test_no_series_is_served_that_kueue_does_not_have(world: ControllerLab) -> None:
    world.submit("one", "a", gpus=1, work=2.0)
    world.settle()
    assert asked(exposition(world.controller)().decode()) <= names() | {f"kueue_{name}" for name in COUNTERS}


def names() -> set[str]:
    """Every metric, as Prometheus has it; of histograms without the suffix."""
    metrics = {*GAUGES, *(f"{name}_total" for name in COUNTERS), *HISTOGRAMS}
    return {f"kueue_{name}" for name in metrics}


def asked(text: str) -> set[str]:
    """The metrics in a text, of histograms without the suffix."""
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"kueue_\w+", text)}


def test_every_metric_stands_in_the_document() -> None:
    rows = re.findall(r"^\| `(kueue_\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    assert set(rows) == names()


def test_just_those_metrics_are_served_that_the_labs_charts_and_alerts_ask_for() -> None:
    compose = ROOT / "compose"
    files = (*compose.glob("grafana/dashboards/*.json"), *compose.glob("prometheus/*.rules.yml"))
    assert set().union(*(asked(file.read_text()) for file in files)) == names()


def test_the_panels_of_the_dashboard_lie_apart_and_ask_the_provisioned_datasource() -> None:
    document: Any = json.loads((ROOT / "compose/grafana/dashboards/queues.json").read_text())
    taken = cells(document["panels"])
    assert len(taken) == len(set(taken))
    assert {panel["datasource"]["uid"] for panel in document["panels"]} == {"raylab-prometheus"}
