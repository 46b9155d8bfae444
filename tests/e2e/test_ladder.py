"""The ladder, for real: a rank is lost on every rung, in a lab of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.api.base import parse, plain
from lab.ext.fast_recovery.documents import LadderDocument
from lab.ext.fast_recovery.ladder import RUNGS
from tests.e2e.harness import PATIENCE, Bench


@pytest.mark.rare
def test_every_rung_is_measured_and_the_lab_is_gone_again(bench: Bench, tmp_path: Path) -> None:
    picture = tmp_path / "ladder.png"
    ended = bench.labctl("ladder", "--png", str(picture), "--json", timeout=20 * PATIENCE)

    assert plain(parse(LadderDocument, ended.document, "the ladder")) == ended.document
    cost = {rung["rung"]: rung["median"] for rung in ended.document["rungs"]}
    assert list(cost) == [rung.name for rung in RUNGS]
    possible = {
        rung["rung"] for rung in ended.document["rungs"] if not any(run["impossible"] for run in rung["runs"])
    }
    assert possible >= set(cost) - {"torchft"}
    for name in possible:
        assert cost[name]["all_back"] > 0, name
    assert cost["memory"]["steps_repeated"] <= cost["stock"]["steps_repeated"]
    assert cost["memory"]["sent_bytes"] > 0
    if "torchft" in possible:
        assert cost["torchft"]["steps_repeated"] == 0
        assert cost["torchft"]["longest_gap"] < cost["stock"]["longest_gap"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert bench.healthy()
