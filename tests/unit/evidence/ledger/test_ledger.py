"""Lines of a ledger become events; events become runs, attempts and checkpoints."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.api.ledger import LEDGER_SCHEMA
from lab.evidence.ledger import Event, History, epochs_of, manifest_sha256, number, parse_events

DATA = Path(__file__).parents[2] / "data"
A, B = "a" * 64, "b" * 64


def line(event: str, at: float, **fields: Any) -> str:
    """One line as the probe writes it."""
    common = {"schema": LEDGER_SCHEMA, "event": event, "at": at, "job": "j", "run": "r", "attempt": 1}
    return json.dumps({**common, **fields})


def history(*lines: str) -> History:
    return History.of(parse_events(lines))


def report(at: float, *, rank: int = 0, attempt: int = 1, run_id: str = "", **metrics: Any) -> str:
    fields = {"rank": rank, "attempt": attempt, "metrics": metrics, "run_id": run_id, "checkpoint": None}
    return line("report", at, **fields)


def saved(at: float, rank: int, files: dict[str, str] | None, uri: str = "s3://ray/c") -> str:
    manifest = None if files is None else {p: {"size": 1, "sha256": s} for p, s in files.items()}
    return line("checkpoint_saved", at, rank=rank, uri=uri, files=manifest, metrics={"epoch": 3})


def committed(at: float, uri: str = "s3://ray/c", **metrics: Any) -> str:
    return line("checkpoint_committed", at, uri=uri, metrics=metrics)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_line_becomes_an_event(as_bytes: bool) -> None:
    text = line("report", 12.5, rank=1, node_id="n", attempt=2, metrics={"epoch": 3}, pid=7)
    (event,) = parse_events([text.encode() if as_bytes else text])
    fields = {"metrics": {"epoch": 3}, "pid": 7}
    assert event == Event("report", 12.5, "j", "r", 2, 1, "n", fields)


def test_what_the_controller_writes_has_no_rank_and_no_node() -> None:
    (event,) = parse_events([line("training_started", 1)])
    assert (event.rank, event.node_id) == (None, "")


def test_events_come_by_time_and_unknown_ones_stay() -> None:
    events = parse_events([line("b", 2), line("invented_later", 3), line("a", 1)])
    assert [e.event for e in events] == ["a", "b", "invented_later"]


def test_a_line_that_was_read_twice_counts_once() -> None:
    assert len(parse_events([line("a", 1), line("a", 1) + "\n", line("a", 2)])) == 2


@pytest.mark.parametrize(
    "bad",
    [
        line("report", 1)[:-9],
        "not json",
        "[1, 2]",
        "null",
        b"\xff\xfe{",
        "[" * 100_000,
        '{"event": "report"}',
        '{"at": 1}',
        line("", 1),
        line("report", float("nan")),
        line("report", float("inf")),
        line("report", 10**400),
        '{"event": "report", "at": true}',
        '{"event": "report", "at": "1"}',
        line("report", 1, attempt="1"),
        line("report", 1, attempt=1.5),
        line("report", 1, rank="0"),
        line("report", 1, rank=True),
        line("report", 1, job=7),
        line("report", 1, run=None),
        line("report", 1, node_id=7),
        line("report", 1, schema="ledger/2"),
    ],
)
def test_an_unreadable_line_is_skipped(bad: str | bytes) -> None:
    events = parse_events([line("a", 1), bad, "", "  \n", line("b", 2)])
    assert [e.event for e in events] == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3), (3.0, 3), (0.5, 0.5), (-1, -1), (True, None), ("3", None), (None, None)]
    + [(v, None) for v in (float("nan"), float("inf"), 10**400)],
)
def test_only_numbers_of_sane_size_are_numbers(value: object, expected: float | None) -> None:
    assert number(value) == expected
    assert type(number(value)) is type(expected)


def test_the_sha256_of_a_manifest_depends_on_paths_and_content_but_not_on_order() -> None:
    assert manifest_sha256({"a": A, "b": B}) == manifest_sha256({"b": B, "a": A})
    sums = {manifest_sha256(m) for m in ({"a": A, "b": B}, {"a": B, "b": A}, {"a": A}, {"c": A}, {})}
    assert len(sums) == 5
    # printf '[["a","b"]]' | sha256sum
    assert manifest_sha256({"a": "b"}) == "db8992cf941b185a1c5bbcfbdc3f43204fe09d42b1a57ff584f6ad2e5e6dfdbd"


def test_runs_of_one_job_are_kept_apart_and_in_order() -> None:
    job_history = history(
        report(5, epoch=1),
        line("report", 1, run="first", rank=0, metrics={"epoch": 8}),
        line("report", 2, run="first", rank=0, attempt=2, metrics={"epoch": 9}),
        line("report", 3, job="other", rank=0, metrics={"epoch": 4}),
        line("job_noise", 0, run=""),
    )
    assert [(r.job, r.name, len(r.attempts)) for r in job_history.runs] == [
        ("j", "first", 2),
        ("other", "r", 1),
        ("j", "r", 1),
    ]


def controllers(*ends: dict[str, Any]) -> History:
    """A run whose driver starts a controller twice: after a first that ended like this, or not at all."""
    return history(
        line("run_started", 1, attempt=0, run_id="a"),
        report(2, epoch=7, run_id="a"),
        *(line("run_finished", 2.5, run_id="a", **end) for end in ends),
        line("run_started", 3, attempt=0, run_id="b"),
        report(4, epoch=8, run_id="b"),
    )


def test_a_second_run_of_the_same_name_is_another_run_once_the_first_has_ended() -> None:
    assert [r.last.progress for r in controllers({"error": None}).runs if r.last] == [7, 8]


@pytest.mark.parametrize("ends", [(), ({"error": "ActorDiedError"},)])
def test_a_controller_that_is_started_again_goes_on_with_the_run(ends: tuple[dict[str, Any], ...]) -> None:
    (run,) = controllers(*ends).runs
    assert [(a.number, a.reports[0].progress) for a in run.attempts] == [(1, 7), (2, 8)]
    assert run.error is None


def test_what_names_no_controller_belongs_to_the_one_that_had_started() -> None:
    given = [line("state_given", at, attempt=0, step=step, source="w") for at, step in ((0.5, 3), (3.5, 8))]
    started = [line("run_started", at, attempt=0, run_id=name) for at, name in ((1, "a"), (3, "b"))]
    (run,) = history(*started, *given).runs
    assert [state.step for state in run.given] == [3, 8]
    two = history(*started, *given, line("run_finished", 2, run_id="a", error=None)).runs
    assert [[state.step for state in run.given] for run in two] == [[3], [8]]


def test_no_events_are_no_runs() -> None:
    assert history().runs == ()


@pytest.mark.parametrize(
    ("config", "epochs"),
    [
        ({"epochs": 20}, 20),
        ({"num_epochs": 3, "max_epochs": 9}, 3),
        ({"max_epochs": 9}, 9),
        ({"total_epochs": 4.0}, 4),
        ({"epochs": "many", "max_epochs": 5}, 5),
        ({"epochs": -1}, None),
        ({"lr": 0.1}, None),
        (None, None),
        ("text", None),
    ],
)
def test_the_plan_is_in_the_train_loop_config(config: object, epochs: int | None) -> None:
    (run,) = history(line("run_started", 1, attempt=0, config=config)).runs
    assert run.plan is not None
    assert run.plan.epochs == epochs


@pytest.mark.parametrize(("workers", "expected"), [(2, 2), ([1, 4], 4), (None, None)])
def test_the_plan_holds_workers_and_resources(workers: object, expected: int | None) -> None:
    start = line(
        "run_started", 1, attempt=0, num_workers=workers, resources_per_worker={"CPU": 1, "GPU": 0.5}
    )
    plan = history(start).runs[0].plan
    assert plan is not None
    assert (plan.num_workers, plan.resources_per_worker) == (expected, {"CPU": 1, "GPU": 0.5})


@pytest.mark.parametrize(
    ("fields", "keep", "best_by"),
    [
        ({}, None, ""),  # as before these were recorded
        ({"num_to_keep": None, "checkpoint_score_attribute": None}, None, ""),
        ({"num_to_keep": 2, "checkpoint_score_attribute": None}, 2, ""),
        ({"num_to_keep": 2, "checkpoint_score_attribute": "val_loss"}, 2, "val_loss"),
        ({"num_to_keep": None, "checkpoint_score_attribute": "val_loss"}, None, ""),  # nothing is deleted
        ({"num_to_keep": "2", "checkpoint_score_attribute": 7}, None, ""),
    ],
)
def test_the_plan_says_which_checkpoints_are_kept(
    fields: dict[str, Any], keep: int | None, best_by: str
) -> None:
    plan = history(line("run_started", 1, attempt=0, **fields)).runs[0].plan
    assert plan is not None
    assert (plan.num_to_keep, plan.best_by) == (keep, best_by)


def test_a_ledger_without_the_start_of_its_run_has_no_plan() -> None:
    assert history(report(1, epoch=1)).runs[0].plan is None


def test_an_attempt_holds_its_nodes_and_times() -> None:
    workers = [{"rank": 1, "node_id": "n1"}, {"rank": 0, "node_id": "n0"}, {"rank": 2}, "noise"]
    (run,) = history(
        line("attempt_scheduled", 1),
        line("attempt_started", 2, workers=workers),
        line("training_started", 3),
        line("failure_detected", 5, decision="RETRY"),
        line("attempt_ended", 6),
        line("attempt_ended", 7, aborted=True),
        line("attempt_scheduled", 8, attempt=2),
    ).runs
    one, two = run.attempts
    assert one.nodes == {0: "n0", 1: "n1"}
    assert (one.scheduled_at, one.started_at, one.training_started_at) == (1, 2, 3)
    assert (one.failure_detected_at, one.ended_at) == (5, 6)
    assert (two.number, two.scheduled_at, two.started_at, two.nodes) == (2, 8, None, {})


def test_the_reports_of_an_attempt_are_those_of_rank_0() -> None:
    (run,) = history(report(1, rank=1, epoch=9), report(2, epoch=1), report(3, rank=1, epoch=9)).runs
    (attempt,) = run.attempts
    assert [(r.at, r.progress) for r in attempt.reports] == [(2, 1)]
    assert {rank: [r.at for r in reports] for rank, reports in attempt.by_rank.items()} == {0: [2], 1: [1, 3]}


def test_what_every_rank_asked_for_and_loaded_is_kept() -> None:
    files = {"f": {"size": 1, "sha256": A}}
    (run,) = history(
        line("get_checkpoint", 1, rank=0, uri=None),
        line("get_checkpoint", 2, rank=1, uri="u"),
        line("checkpoint_loaded", 3, rank=1, uri="u", files=files),
        line("checkpoint_loaded", 4, rank=0, uri="u", files={"f": "odd"}),
        line("checkpoint_loaded", 5, rank=0, uri=None, files=files),
    ).runs
    (attempt,) = run.attempts
    assert [(r.rank, r.uri) for r in attempt.requests] == [(0, None), (1, "u")]
    assert [(load.rank, load.uri, load.files) for load in attempt.loads] == [
        (1, "u", {"f": A}),
        (0, "u", None),
    ]


def asked(at: float, uri: str, attempt: int = 2) -> str:
    return line("get_checkpoint", at, rank=0, attempt=attempt, uri=uri)


ENDED = line("attempt_ended", 8)
B_AND_C = ["s3://ray/b", "s3://ray/c"]


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        pytest.param([asked(9, "s3://ray/c")], B_AND_C, id="the next attempt has it"),
        pytest.param([], ["s3://ray/b"], id="nobody was given it"),
        pytest.param([asked(9, "s3://ray/c", 1)], ["s3://ray/b"], id="the same attempt asked"),
        pytest.param([asked(9, "s3://ray/d")], ["s3://ray/b"], id="it was not saved"),
        pytest.param(
            [saved(6.5, 0, {"f": A}, "s3://ray/between"), asked(9, "s3://ray/c")], B_AND_C,
            id="another one before it was not recorded either",
        ),
        pytest.param([ENDED, asked(9, "s3://ray/c")], ["s3://ray/b"], id="the attempt ended before"),
    ],
)  # fmt: skip
def test_the_last_commit_of_a_controller_that_was_killed_is_known_from_who_was_given_it(
    lines: list[str], known: list[str]
) -> None:
    before = [
        report(4, epoch=2),
        saved(5, 0, {"f": A}, "s3://ray/b"),
        committed(6, "s3://ray/b"),
        saved(7, 0, {"f": B}),
    ]
    (run,) = history(*before, *lines).runs
    assert [c.uri for c in run.checkpoints] == known
    if len(known) > 1:
        newest = run.checkpoints[-1]
        assert (newest.at, newest.progress, newest.files) == (9, 3, {"f": frozenset({B})})


def test_a_name_that_returns_is_that_of_its_last_save_even_if_its_commit_was_not_recorded() -> None:
    lines = [
        saved(1, 0, {"f": A}),
        committed(2),
        ENDED,
        line("checkpoint_saved", 9, attempt=2, rank=0, uri="s3://ray/c", files={"f": {"sha256": B}}),
    ]
    (run,) = history(*lines, asked(12, "s3://ray/c", 3)).runs
    assert [c.files for c in run.checkpoints] == [{"f": frozenset({A})}, {"f": frozenset({B})}]
    assert run.perhaps_committed == {(2, "s3://ray/c")}
    (run,) = history(*lines, line("attempt_ended", 10, attempt=2), asked(12, "s3://ray/c", 3)).runs
    assert [c.files for c in run.checkpoints] == [{"f": frozenset({A})}]


@pytest.mark.parametrize("ahead", [0.0, 0.5])
def test_saves_and_commits_belong_together_in_their_order_whatever_the_clocks_of_their_nodes(
    ahead: float,
) -> None:
    again = line("checkpoint_saved", 3 + ahead, rank=0, uri="s3://ray/c", files={"f": {"sha256": B}})
    (run,) = history(saved(1 + ahead, 0, {"f": A}), committed(1.2), again, committed(3.2)).runs
    assert [c.files for c in run.checkpoints] == [{"f": frozenset({A})}, {"f": frozenset({B})}]


def test_checkpoints_are_in_the_order_of_their_attempts_whatever_the_clocks_of_their_controllers() -> None:
    behind = line("checkpoint_committed", 1.5, attempt=2, uri="s3://ray/d")
    (run,) = history(saved(1, 0, {"f": A}), committed(2), behind).runs
    assert [c.attempt for c in run.checkpoints] == [1, 2]


@pytest.mark.parametrize(
    ("reports", "key", "repeats", "stride"),
    [
        ([{"epoch": 1, "step": 10}, {"epoch": 2, "step": 20}], "epoch", False, 1),
        ([{"step": 100}, {"step": 200}, {"step": 250}, {"step": 350}], "step", False, 100),
        ([{"epoch": "one", "current_epoch": 0}, {"current_epoch": 5}], "current_epoch", False, 5),
        ([{"epoch": True, "global_step": 1}], "global_step", False, 1),
        ([{"epoch": 1, "step": 1}, {"epoch": 1, "step": 2}, {"epoch": 2, "step": 3}], "step", False, 1),
        ([{"epoch": 1}, {"epoch": 1}, {"epoch": 2}], "epoch", True, 1),
        ([{"epoch": 1}, {"epoch": 2}, {"epoch": 4}], "epoch", False, 1),
        ([{"epoch": 0.1}, {"epoch": 0.2}, {"epoch": 0.3}], "epoch", False, 0.1),
        ([{"training_iteration": 3}], "training_iteration", False, 1),
        ([{"loss": 3.0}], None, False, 1),
        ([], None, False, 1),
    ],
)
def test_progress_is_the_first_metric_that_grows(
    reports: list[dict[str, Any]], key: str | None, repeats: bool, stride: float
) -> None:
    lines = [report(at, **metrics) for at, metrics in enumerate(reports)]
    (run,) = history(line("run_started", -1, attempt=0), *lines).runs
    assert (run.progress_key, run.progress_repeats, run.stride) == (key, repeats, stride)


def test_the_same_epoch_in_two_attempts_does_not_count_as_repeating() -> None:
    (run,) = history(report(1, epoch=1), report(2, epoch=2), report(3, attempt=2, epoch=1)).runs
    assert (run.progress_key, run.progress_repeats, run.stride) == ("epoch", False, 1)


def test_an_attempt_reached_also_what_it_saved_but_not_what_it_did_when_it_was_over() -> None:
    (run,) = history(
        report(1, epoch=2), saved(2, 0, {"f": A}), line("failure_detected", 3), report(4, epoch=9)
    ).runs
    assert run.attempts[0].furthest == 3


def test_a_checkpoint_counts_from_when_it_was_committed() -> None:
    (run,) = history(
        saved(1, 0, {"f": A}),
        saved(1, 0, {"f": A}, "s3://ray/lost"),
        committed(2, epoch=3),
        report(3, epoch=3),
    ).runs
    (checkpoint,) = run.checkpoints
    assert (checkpoint.uri, checkpoint.at, checkpoint.attempt, checkpoint.progress) == ("s3://ray/c", 2, 1, 3)
    assert checkpoint.sha256() == manifest_sha256({"f": A})


def test_a_commit_without_metrics_takes_its_progress_from_what_was_saved() -> None:
    (run,) = history(saved(1, 0, {"f": A}), committed(2), report(3, epoch=4)).runs
    assert run.checkpoints[0].progress == 3


@pytest.mark.parametrize(
    ("by_rank", "loaded", "accepted"),
    [
        ([{"f": A}], {"f": A}, True),
        ([{"f": A}], {"f": B}, False),
        ([{"f": A}], {"f": A, "g": A}, False),
        ([{"f": A}], {}, False),
        ([{"f": A}, {"g": B}], {"f": A, "g": B}, True),
        ([{"f": A}, {"g": B}], {"f": A}, False),
        ([{"f": A}, {"f": B}], {"f": A}, True),
        ([{"f": A}, {"f": B}], {"f": B}, True),
        ([{"f": A}, {"f": B}], {"f": "c" * 64}, False),
        ([{"f": A}, None], {"f": A}, False),
        ([], {}, False),
    ],
)
def test_a_checkpoint_is_the_union_of_what_its_ranks_saved(
    by_rank: list[dict[str, str] | None], loaded: dict[str, str], accepted: bool
) -> None:
    lines = [saved(1, rank, files) for rank, files in enumerate(by_rank)]
    (run,) = history(*lines, committed(2, epoch=3)).runs
    (checkpoint,) = run.checkpoints
    assert checkpoint.accepts(loaded) is accepted
    if accepted:
        assert checkpoint.sha256(loaded) == manifest_sha256(loaded)
    else:
        assert checkpoint.sha256(loaded) != manifest_sha256(loaded)


def test_a_checkpoint_of_unknown_content_has_no_sha256() -> None:
    (run,) = history(saved(1, 0, {"f": A}), saved(1, 1, None), committed(2, epoch=3)).runs
    assert run.checkpoints[0].sha256({"f": A}) is None
    assert run.checkpoints[0].saved_by == {0}


@pytest.mark.parametrize(
    ("name", "spans"), [("ledger_kill", [(1, 6), (7, 20)]), ("ledger_undisturbed", [(1, 20)])]
)
def test_a_real_ledger_is_read_whole(name: str, spans: list[tuple[int, int]]) -> None:
    lines = (DATA / f"{name}.jsonl").read_bytes().splitlines()
    events = parse_events(lines)
    assert len(events) == len(set(lines))
    assert all(a.at <= b.at for a, b in pairwise(events))
    (run,) = History.of(events).runs
    assert [(a.reports[0].progress, a.furthest) for a in run.attempts] == spans
    assert [c.progress for c in run.checkpoints] == list(range(1, 21))
    assert all(c.sha256() for c in run.checkpoints)
    assert run.plan is not None
    assert (run.plan.epochs, run.plan.num_workers, run.error) == (20, 1, None)
    assert run.finished_at is not None


def test_the_order_of_events_does_not_matter() -> None:
    events = parse_events((DATA / "ledger_kill.jsonl").read_text().splitlines())
    assert History.of(reversed(events)) == History.of(events)


def test_an_elastic_run_changes_its_ranks_without_a_failure() -> None:
    (run,) = history(
        line("run_started", 1.0, attempt=0, num_workers=[1, 2]),
        line("attempt_started", 2.0, workers=[{"rank": 0, "node_id": "n0"}]),
        report(3.0, epoch=1),
        line("resized", 4.0, ranks=1, to=2),
        line("attempt_ended", 4.1),
        line("attempt_started", 5.0, attempt=2, workers=[{"rank": r, "node_id": f"n{r}"} for r in (0, 1)]),
        line("resized", 6.0, attempt=2, ranks=2, to="many"),
    ).runs
    assert run.plan is not None
    assert (run.plan.min_workers, run.plan.num_workers) == (1, 2)
    first, second = run.attempts
    assert (first.resized_at, first.failure_detected_at) == (4.0, None)
    assert second.resized_at == 6.0


def test_a_run_of_which_only_an_evaluation_is_left_has_no_steps() -> None:
    (run,) = history(
        line("run_started", 1, attempt=0, config={"steps": 50}),
        line("report", 2, rank=0, metrics={"step": 30}, optimizer_steps=0),
        line("report", 3, rank=1, metrics={}, optimizer_steps=5),
    ).runs
    assert run.attempts[0].first is None
    assert epochs_of(run) is None
