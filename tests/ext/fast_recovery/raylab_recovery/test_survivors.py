"""Ranks with torchft report alone, under the lighthouse's time-outs that the lab has set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from raylab_recovery.survivors import (
    LONG_SECONDS,
    end_if_given_up,
    name_alone,
    settle_timeouts,
    take_each_report,
    timeouts,
)


def test_time_outs_are_read_from_the_settings_that_are_numbers() -> None:
    settings = {"RAYLAB_TORCHFT_HEARTBEAT_MS": "400", "RAYLAB_TORCHFT_JOIN_MS": "soon", "OTHER": "1"}
    assert timeouts(settings) == {"heartbeat_timeout_ms": 400}


@pytest.mark.parametrize(
    ("script", "used"),
    [({"min_replicas": 1}, 400), ({"min_replicas": 1, "heartbeat_timeout_ms": 9000}, 9000)],
)
def test_a_script_that_names_a_time_out_keeps_it(script: dict[str, Any], used: int) -> None:
    class Backend:
        def _maybe_create_lighthouse_actor(self, config: Any) -> dict[str, Any]:
            return dict(config.lighthouse_kwargs)

    settle_timeouts(Backend, {"heartbeat_timeout_ms": 400})
    started = Backend()._maybe_create_lighthouse_actor(SimpleNamespace(lighthouse_kwargs=script))
    assert started == {"min_replicas": 1, "heartbeat_timeout_ms": used}


def test_each_report_is_taken_as_it_comes_from_whichever_rank() -> None:
    taken: list[tuple[Any, Any]] = []
    callback = SimpleNamespace(
        after_report=lambda training_report, metrics: taken.append((training_report.metrics, metrics))
    )
    reports = {0: None, 1: SimpleNamespace(metrics={"epoch": 3}), 2: None}
    statuses = {rank: SimpleNamespace(training_report=report) for rank, report in reports.items()}
    take_each_report(SimpleNamespace(_report_callbacks=[callback]), SimpleNamespace(worker_statuses=statuses))
    assert taken == [({"epoch": 3}, [{"epoch": 3}])]


def test_a_checkpoint_is_named_without_asking_the_other_ranks() -> None:
    storage = SimpleNamespace(make_default_checkpoint_dir_name=lambda: "checkpoint_7")
    context = SimpleNamespace(storage_context=storage)
    assert name_alone(context) == "checkpoint_7"
    assert name_alone(context, "mine") == "mine"


def test_a_rank_whose_node_was_given_up_begins_and_commits_no_step() -> None:
    now, alive = [0.0], [True]
    asked: list[float] = []
    done: list[tuple[str, float, bool]] = []

    class Manager:
        def start_quorum(self, shrink: bool = False) -> None:
            done.append(("begun", now[0], shrink))

        def should_commit(self) -> bool:
            done.append(("committed", now[0], True))
            return True

    def node_is_alive() -> bool:
        asked.append(now[0])
        return alive[0]

    end_if_given_up(Manager, node_is_alive, lambda: now[0])
    manager = Manager()
    for seconds in (0.0, LONG_SECONDS / 2, LONG_SECONDS):
        now[0] = seconds
        manager.start_quorum(shrink=True)
        assert manager.should_commit()
    assert (asked, len(done)) == ([], 6), "steps that follow each other cost nothing"

    now[0] = 60.0
    manager.start_quorum()
    assert (asked, done[-1]) == ([60.0], ("begun", 60.0, False)), "its node is alive: it was only slow"

    alive[0], now[0] = False, 90.0
    for wakes_up in (manager.should_commit, manager.start_quorum):
        with pytest.raises(RuntimeError, match=r"30 s, .*declared dead"):
            wakes_up()
    assert done[-1] == ("begun", 60.0, False)
