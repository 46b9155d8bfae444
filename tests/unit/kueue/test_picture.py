"""The picture of a simulation: where the bars lie."""

from __future__ import annotations

import pytest

from kueue.simulate import Simulation, simulate
from lab.flows.queues.picture import bars, draw
from tests.unit.kueue.made import GPU, job, queue, setup


def three() -> Simulation:
    """Two that run beside each other, and one in the place of the first."""
    return simulate(
        setup(queue("q", 4)),
        [
            job("one", "q", 2, order=1, duration=10.0),
            job("two", "q", 1, order=2, duration=30.0),
            job("three", "q", 2, order=3, duration=5.0),
        ],
    )


def test_each_bar_lies_on_the_lowest_free_place() -> None:
    placed = {each.workload: (each.begin, each.end, each.low, each.high) for each in bars(three(), "q", GPU)}
    assert placed == {
        "ns/one": (0.0, 10.0, 0.0, 2),
        "ns/two": (0.0, 30.0, 2, 1),
        "ns/three": (10.0, 15.0, 0.0, 2),
    }


def test_it_is_drawn_with_words_beside_it() -> None:
    pytest.importorskip("matplotlib")
    drawn = draw(three())
    assert drawn is not None
    svg, alt = drawn
    assert svg.startswith(b"<?xml")
    assert alt.startswith("nvidia.com/gpu in use over 30 seconds, queue by queue. q: 3 stretches, 0 of them")


def test_queues_without_a_quota_make_no_picture() -> None:
    assert draw(simulate(setup(), [])) is None
