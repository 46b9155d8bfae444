"""To which job a run's ledger belongs."""

from __future__ import annotations

from types import SimpleNamespace

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
    from raylab_probe.train import submission_id

    connected(monkeypatch, {"job_submission_id": "raysubmit_1"})
    assert submission_id() == "raysubmit_1"


def test_a_driver_that_was_not_submitted_is_named_by_rays_own_id(
    monkeypatch: pytest.MonkeyPatch, ray_job: None
) -> None:
    from raylab_probe.train import submission_id

    connected(monkeypatch, {})
    assert submission_id() == "interactive-07000000"


def test_so_is_one_that_uses_rays_client_and_is_no_process_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, ray_job: None
) -> None:
    from ray._private import worker

    from raylab_probe.train import submission_id

    monkeypatch.delattr(worker.global_worker, "core_worker", raising=False)
    assert submission_id() == "interactive-07000000"


def test_a_process_says_when_it_was_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    from raylab_probe import train

    monkeypatch.setattr("sys.argv", ["default_worker.py", "--worker-launch-time-ms=1500"])
    assert train.launched_at() == 1.5
    monkeypatch.setattr("sys.argv", ["train.py"])
    assert train.launched_at() is None


def test_the_start_of_a_training_function_is_recorded_before_it_runs() -> None:
    from raylab_probe.train import watch_start

    told: list[str] = []
    runner = SimpleNamespace(run=lambda target: target())
    watch_start(runner, lambda event, **fields: told.append(event))
    runner.run(lambda: told.append("the function"))
    assert told == ["function_started", "the function"]
