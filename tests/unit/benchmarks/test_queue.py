"""The benchmark of simulated queues, at a small size."""

from __future__ import annotations

from benchmarks.queue import CLASSES, results, scenario
from kueue.reading import read
from kueue.simulate import simulate
from kueue.trace import document
from lab.api.base import plain


def test_the_scenario_is_kueues() -> None:
    kinds = [text.splitlines()[1] for text in scenario()]
    assert kinds.count("kind: Workload") == 15_000
    assert kinds.count("kind: ClusterQueue") == 30


def test_its_figures_come_from_the_document() -> None:
    reading = read([("scenario.yaml", "---\n".join(scenario(1, 2, 0.02)))])
    assert (reading.errors, reading.warnings) == ((), ())
    figures = results(plain(document(simulate(reading.setup, reading.workloads))))
    assert set(figures) == {*(priority.name for priority in CLASSES), "use"}
    assert figures["large"] == 0.0
    assert 0 < figures["use"] <= 100
