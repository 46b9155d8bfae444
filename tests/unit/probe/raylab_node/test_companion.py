"""A process beside a node: its steps."""

from __future__ import annotations

import pytest

from raylab_node import companion


def test_a_step_that_fails_ends_no_agent(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [None, KeyError("now"), *[OSError("full")] * 8, None, ValueError("odd")]
    slept: list[float] = []

    def step() -> None:
        error = steps.pop(0)
        if error is not None:
            raise error

    companion.repeat("raylab-x", step, lambda: bool(steps), slept.append)
    assert slept == [1.0, 2.0, 4.0, 8.0, 16.0, *[companion.LONGEST_SECONDS] * 4, 1.0]
    assert capsys.readouterr().err.splitlines() == [
        "a step of raylab-x failed: KeyError('now')",
        "a step of raylab-x failed: ValueError('odd')",
    ]
