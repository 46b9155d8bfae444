"""To which job a run's ledger belongs, and what its controller tells of a run that grows."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def ray_job(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    context = SimpleNamespace(get_job_id=lambda: "07000000")
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)


def connected(monkeypatch: pytest.MonkeyPatch, metadata: dict[str, str]) -> None:
    """As in a process of a cluster."""
    from ray._private import worker

    core = SimpleNamespace(get_job_config=lambda: SimpleNamespace(metadata=metadata))
    monkeypatch.setattr(worker.global_worker, "core_worker", core, raising=False)


def test_a_process_of_a_submitted_job_writes_into_that_jobs_ledger(
    monkeypatch: pytest.MonkeyPatch, ray_job: None
) -> None:
    from raylab_ledger.train import submission_id

    connected(monkeypatch, {"job_submission_id": "raysubmit_1"})
    assert submission_id() == "raysubmit_1"


def test_a_driver_that_was_not_submitted_is_named_by_rays_own_id(
    monkeypatch: pytest.MonkeyPatch, ray_job: None
) -> None:
    from raylab_ledger.train import submission_id

    connected(monkeypatch, {})
    assert submission_id() == "interactive-07000000"


def test_so_is_one_that_uses_rays_client_and_is_no_process_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, ray_job: None
) -> None:
    from ray._private import worker

    from raylab_ledger.train import submission_id

    monkeypatch.delattr(worker.global_worker, "core_worker", raising=False)
    assert submission_id() == "interactive-07000000"


def test_a_process_says_when_it_was_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    from raylab_ledger import train

    monkeypatch.setattr("sys.argv", ["default_worker.py", "--worker-launch-time-ms=1500"])
    assert train.launched_at() == 1.5
    monkeypatch.setattr("sys.argv", ["train.py"])
    assert train.launched_at() is None


def test_the_start_of_a_training_function_is_recorded_before_it_runs() -> None:
    from raylab_ledger.rank import watch_start

    journal: list[str] = []
    runner = SimpleNamespace(run=lambda target: target())
    watch_start(runner, lambda event, **fields: journal.append(event))
    runner.run(lambda: journal.append("the function"))
    assert journal == ["function_started", "the function"]


def test_the_steps_of_a_function_that_fails_are_written() -> None:
    import raylab_steps as steps

    from raylab_ledger.rank import watch_start

    journal: list[tuple[str, Any]] = []
    taken = steps.Steps(lambda event, **fields: journal.append((event, fields.get("first"))))
    runner = SimpleNamespace(run=lambda target: target())
    watch_start(runner, lambda event, **fields: None, taken)

    def fails() -> None:
        taken.committed(7, 2)
        raise RuntimeError("a rank is gone")

    with pytest.raises(RuntimeError):
        runner.run(fails)
    assert journal == [("steps", 7)]


def ledger_of(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[tuple[str, int, dict[str, Any]]]]:
    """A controller's ledger, and what it records: event, attempt, fields."""
    from raylab_ledger import train

    recorded: list[tuple[str, int, dict[str, Any]]] = []
    monkeypatch.setattr(train, "submission_id", lambda: "j")
    ledger = train.Ledger()
    monkeypatch.setattr(
        ledger, "_record", lambda event, **fields: recorded.append((event, ledger.attempt, fields))
    )
    return ledger, recorded


@pytest.fixture(autouse=True)
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ray's nodes: one that the lab has named, and one of a cluster that leaves Ray to name it."""
    import ray

    from raylab_ledger import train

    listed = [
        {
            "NodeID": "n",
            "NodeName": "ray-worker-0",
            "NodeManagerAddress": "10.0.0.1",
            "NodeManagerHostname": "h",
        },
        {
            "NodeID": "p",
            "NodeName": "10.0.0.2",
            "NodeManagerAddress": "10.0.0.2",
            "NodeManagerHostname": "pod-a",
        },
    ]
    monkeypatch.setattr(ray, "nodes", lambda: listed)
    yield
    train.services_of.cache_clear()


def test_where_a_rank_ran_is_asked_of_ray_whatever_its_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAYLAB_SERVICE_NAME", "ray-head")
    ledger, recorded = ledger_of(monkeypatch)
    start(ledger, 1)
    (workers,) = [fields["workers"] for event, _, fields in recorded if event == "attempt_started"]
    assert workers == [{"rank": 0, "node_id": "n", "service": "ray-worker-0", "pid": 1}]


def test_a_node_that_nobody_has_named_is_a_pod() -> None:
    from raylab_ledger.train import services_of

    assert services_of(frozenset({"p"}))["p"] == "pod-a"


def test_a_trial_that_tune_ends_is_recorded_before_its_process_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray.tune.trainable import function_trainable

    from raylab_ledger import train

    journal: list[Any] = []

    class Recorder:
        def record(self, event: str, **fields: Any) -> None:
            journal.append((event, fields))

        def flush(self, timeout: float) -> None:
            journal.append("written")

    class Trainable:
        def cleanup(self) -> None:
            journal.append("ended")

    monkeypatch.setattr(function_trainable, "FunctionTrainable", Trainable)
    monkeypatch.setattr(train, "open_recorder", lambda job, role, common: Recorder())
    train.watch_stop("t_00001", "j")
    Trainable().cleanup()
    assert journal == [("trial_stopped", {"trial": "t_00001"}), "written", "ended"]


def test_a_driver_outside_of_tune_is_no_trial() -> None:
    from raylab_ledger.train import trial_of_tune

    assert trial_of_tune() == ""


def group(ranks: int) -> Any:
    """Ray's worker group of so many ranks, and what it is made from."""
    worker = SimpleNamespace(
        distributed_context=SimpleNamespace(world_rank=0), metadata=SimpleNamespace(node_id="n", pid=1)
    )
    return SimpleNamespace(get_workers=lambda: [worker] * ranks, num_workers=ranks)


def start(ledger: Any, ranks: int) -> None:
    """An attempt starts, as Ray's controller tells it."""
    ledger.before_controller_execute_resize_decision(SimpleNamespace(num_workers=ranks))
    ledger.before_worker_group_start(group(ranks))
    ledger.after_worker_group_start(group(ranks))


def test_a_run_that_grows_tells_it_before_its_attempt_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, recorded = ledger_of(monkeypatch)
    start(ledger, 1)
    ledger.before_controller_execute_resize_decision(SimpleNamespace(num_workers=2))
    ledger.before_worker_group_shutdown(group(1))
    assert [event for event, *_ in recorded].count("resized") == 1
    assert recorded[-2:] == [("resized", 1, {"ranks": 1, "to": 2}), ("attempt_ended", 1, {"reports": 0})]


def test_an_attempt_that_ends_tells_what_ray_train_had_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, recorded = ledger_of(monkeypatch)
    for epochs in (3, 0):
        start(ledger, 1)
        for epoch in range(1, epochs + 1):
            ledger.after_report(SimpleNamespace(checkpoint=None, metrics={"epoch": epoch}), [])
        ledger.before_controller_execute_failure_decision(SimpleNamespace(name="RETRY"))
    failures = [fields for event, _, fields in recorded if event == "failure_detected"]
    assert failures == [
        {"decision": "RETRY", "reports": 3, "metrics": {"epoch": 3}}, {"decision": "RETRY", "reports": 0}
    ]  # fmt: skip


def test_an_attempt_after_a_failure_is_no_resize(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, recorded = ledger_of(monkeypatch)
    start(ledger, 2)
    ledger.before_controller_execute_failure_decision(SimpleNamespace(name="RETRY"))
    ledger.before_worker_group_shutdown(group(2))
    start(ledger, 1)
    assert "resized" not in [event for event, *_ in recorded]


@pytest.mark.parametrize("keeping", [None, (2, "val_loss"), (None, None)])
def test_the_start_of_a_run_tells_which_checkpoints_it_keeps(
    monkeypatch: pytest.MonkeyPatch, ray_job: None, keeping: tuple[int | None, str | None] | None
) -> None:
    import ray
    from ray.train import CheckpointConfig

    from raylab_ledger import train

    keep, score = keeping or (None, None)
    config = CheckpointConfig(num_to_keep=keep, checkpoint_score_attribute=score) if keeping else None
    run = SimpleNamespace(name="r", storage_path="s3://ray", failure_config=None, checkpoint_config=config)
    scaling = SimpleNamespace(num_workers=1, _resources_per_worker_not_none={"CPU": 1})
    ledger, recorded = ledger_of(monkeypatch)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "n"))
    monkeypatch.setattr(train, "open_recorder", lambda *_: None)
    monkeypatch.setattr(train, "environment", dict)

    ledger.after_controller_start(
        SimpleNamespace(run_config=run, scaling_config=scaling, run_id="1", train_loop_config={})
    )

    ((event, _, fields),) = recorded
    assert event == "run_started"
    assert (fields["num_to_keep"], fields["checkpoint_score_attribute"]) == (keep, score)
    assert isinstance(fields["patches"], list)
