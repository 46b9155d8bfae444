"""The picture of a simulation: where the bars lie."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kueue.model import LocalQueue
from kueue.simulate import Simulation, simulate
from lab.flows import drawing as style
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
    placed = {bar.workload: (bar.begin, bar.end, bar.low, bar.high) for bar in bars(three(), "q", GPU)}
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
    assert alt.startswith("nvidia.com/gpu in use over 30 seconds, queue by queue. q: 3 periods, 0 of them")
    assert alt.endswith("Bars are coloured by person: ns.")


def test_a_person_has_one_colour_and_time_is_the_clocks() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib import rc_context

    eve = replace(job("four", "q", 1, order=4, duration=9.0), namespace="eve")
    run = simulate(
        setup(queue("q", 4), local_queues={(ns, "q"): LocalQueue(ns, "q", "q") for ns in ("ns", "eve")}),
        [job("one", "q", 2, order=1, duration=10.0), job("two", "q", 1, order=2, duration=30.0), eve],
    )
    with rc_context({"svg.fonttype": "none"}), pytest.MonkeyPatch.context() as patch:
        patch.setitem(style.RC, "svg.fonttype", "none")  # texts stay texts
        drawn, undated = draw(replace(run, start=1_800_000_000.0)), draw(replace(run, start=0.0))
    assert drawn is not None
    assert undated is not None
    assert b">00:00</text>" in undated[0]
    assert b"Jan" not in undated[0]
    svg = drawn[0].decode()
    assert len(re.findall(f'<path [^>]*style="fill: {style.COLOURS[0].lower()}', svg)) == 1 + 1  # and its key
    assert len(re.findall(f'<path [^>]*style="fill: {style.COLOURS[1].lower()}', svg)) == 2 + 1
    texts = re.findall(r">([^<>]+)</text>", svg)
    assert {"eve", "ns", "08:00", "2027-Jan-15 08:00"} <= set(texts)


def test_it_has_colours_for_a_dark_screen_and_the_same_ones_in_print() -> None:
    pytest.importorskip("matplotlib")
    drawn = draw(three())
    assert drawn is not None
    svg = drawn[0].decode()
    assert "@media screen and (prefers-color-scheme: dark)" in svg
    assert set(re.findall(r"fill: (#[0-9a-f]{6})", svg)) <= {
        colour.lower() for colour in (*style.DARK, *style.COLOURS)
    }


def test_queues_without_a_quota_make_no_picture() -> None:
    assert draw(simulate(setup(), [])) is None
