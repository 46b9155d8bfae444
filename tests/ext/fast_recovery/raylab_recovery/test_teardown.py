"""The end of an attempt whose rank was killed for want of memory, and of a run that Ray has given up."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")
from ray.exceptions import OutOfMemoryError

from raylab_recovery import teardown
from raylab_recovery.teardown import Teardown, bear, clear, end_if_given_up


def callback(error: Exception | None) -> Any:
    class Callback:
        calls = 0

        def before_execution_group_shutdown(self, execution_group: Any) -> None:
            Callback.calls += 1
            if error is not None:
                raise error

    bear(Callback)
    return Callback()


def test_a_rank_that_was_killed_for_want_of_memory_is_borne(capsys: pytest.CaptureFixture[str]) -> None:
    changed = callback(OutOfMemoryError("1 worker killed"))
    changed.before_execution_group_shutdown(object())
    assert changed.calls == 1
    assert "killed for want of memory" in capsys.readouterr().out


@pytest.mark.parametrize("whole", [True, False])
def test_ranks_of_an_attempt_that_fails_to_start_are_cleared_away_if_ray_leaves_them(whole: bool) -> None:
    class Group:
        def __init__(self) -> None:
            self.cleared = 0
            self._worker_group_state = SimpleNamespace(shutdown=self._shut_down) if whole else None

        def _shut_down(self) -> None:
            self.cleared += 1

        def has_started(self) -> bool:
            return self._worker_group_state is not None

        def _start(self) -> None:
            raise ValueError("a rank was lost while it started")

    clear(Group)
    group = Group()
    with pytest.raises(ValueError, match="a rank was lost"):
        group._start()
    assert group.cleared == whole


def test_other_errors_are_raised_as_before() -> None:
    with pytest.raises(ValueError, match="x"):
        callback(ValueError("x")).before_execution_group_shutdown(object())
    callback(None).before_execution_group_shutdown(object())


def test_ray_shuts_process_groups_down_there() -> None:
    from ray.train.v2._internal.callbacks.backend_setup import BackendSetupCallback

    assert callable(BackendSetupCallback.before_execution_group_shutdown)


@pytest.mark.parametrize("state", ["ALIVE", "RESTARTING", "PENDING_CREATION", "DEAD", ""])
def test_a_controller_that_is_dead_for_ray_ends_before_it_reserves_anything(state: str) -> None:
    ends: list[int] = []
    end_if_given_up(lambda: state, ends.append)
    assert ends == ([0] if state == "DEAD" else [])


def test_it_is_asked_right_before_ray_reserves_for_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.train.v2._internal.execution.worker_group import worker_group

    text = inspect.getsource(worker_group.WorkerGroup)
    assert text.index("callback.before_worker_group_start(") < text.index("self._create_placement_group(")
    asked: list[str] = []
    monkeypatch.setattr(teardown, "end_if_given_up", lambda: asked.append("asked"))
    Teardown().before_worker_group_start(None)
    monkeypatch.setenv("RAYLAB_PATCHES_OFF", "teardown")
    Teardown().before_worker_group_start(None)
    assert asked == ["asked"]


def test_a_head_that_cannot_be_asked_keeps_no_attempt_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise ConnectionError("no head")

    monkeypatch.setattr(teardown, "state_of_this_actor", broken)
    Teardown().before_worker_group_start(None)
