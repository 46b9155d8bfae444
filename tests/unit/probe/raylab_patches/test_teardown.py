"""The end of an attempt whose rank was killed for want of memory."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray")
from ray.exceptions import OutOfMemoryError

from raylab_patches.teardown import bear


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


def test_other_errors_are_raised_as_before() -> None:
    with pytest.raises(ValueError, match="x"):
        callback(ValueError("x")).before_execution_group_shutdown(object())
    callback(None).before_execution_group_shutdown(object())


def test_ray_shuts_process_groups_down_there() -> None:
    from ray.train.v2._internal.callbacks.backend_setup import BackendSetupCallback

    assert callable(BackendSetupCallback.before_execution_group_shutdown)
