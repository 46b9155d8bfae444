"""The table of Ray settings that the lab changes."""

from __future__ import annotations

from lab.cluster.ray_settings import DETECTION, KNOBS, PRIVATE, environment, stock_environment


def value(name: str) -> float:
    return float(next(knob.value for knob in KNOBS if knob.name == name))


def test_every_knob_changes_something_and_says_why() -> None:
    assert all(knob.value != knob.stock and knob.reason for knob in KNOBS)
    assert len({knob.name for knob in KNOBS}) == len(KNOBS)


def test_the_environment_has_every_knob() -> None:
    assert environment() == {knob.name: knob.value for knob in KNOBS}


def test_stock_ray_keeps_only_that_the_lab_reports_to_nobody() -> None:
    assert environment(stock=True) == {"RAY_USAGE_STATS_ENABLED": "0"}
    assert set(stock_environment()) == {knob.name for knob in KNOBS} - {knob.name for knob in PRIVATE}
    assert all(
        stock_environment()[name] != value
        for name, value in environment().items()
        if name not in environment(stock=True)
    )


def test_the_slowest_detection_of_a_silent_node_stays_within_a_few_seconds() -> None:
    period, timeout = value("RAY_health_check_period_ms"), value("RAY_health_check_timeout_ms")

    slowest = value("RAY_health_check_failure_threshold") * (period + timeout)

    assert 2500 <= slowest <= 4500  # below, jobs that start at once on two cores cost living nodes
    assert all(float(knob.value) < float(knob.stock) for knob in DETECTION)
