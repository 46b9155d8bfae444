"""The table of Ray settings that the lab changes."""

from __future__ import annotations

from lab.cluster.ray_settings import DETECTION, KNOBS, PRIVATE, environment, stock_environment


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


def test_a_hung_rank_is_noticed_sooner_than_stock_ray_notices_it() -> None:
    assert all(float(knob.value) < float(knob.stock) for knob in DETECTION)


def test_the_head_counts_no_node_as_dead_sooner_than_stock_ray() -> None:
    assert not [name for name in environment() if name.startswith("RAY_health_check_")]
