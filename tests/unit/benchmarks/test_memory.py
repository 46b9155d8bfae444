"""Which processes the benchmark `memory` counts."""

from __future__ import annotations

from pathlib import Path

from benchmarks.memory import processes_of

FOLDER = Path("/tmp/home/bench")
HEAD, OTHER = "/tmp/home/bench:ray-head", "/tmp/home/bench-2:ray-head"


def test_a_labs_processes_are_those_with_its_mark_and_their_unmarked_descendants() -> None:
    table = {
        1: (0, ""),
        10: (1, HEAD),
        11: (10, ""),  # hides its environment
        12: (11, ""),
        13: (12, OTHER),  # started from a notebook, a lab of its own
        14: (13, ""),
        20: (1, "/tmp/home/bench:jupyter"),
        30: (1, OTHER),
    }
    assert processes_of(FOLDER, table) == [10, 11, 12, 20]


def test_none_is_counted_twice() -> None:
    assert processes_of(FOLDER, {10: (1, HEAD), 11: (10, HEAD), 12: (11, "")}) == [10, 11, 12]
