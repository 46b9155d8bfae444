"""What notebooks and programs import stays importable under the names that the documents have."""

from __future__ import annotations

import lab.ext.course.lessons
import lab.flows.recovery
import lab.lessons
import lab.recovery


def test_a_notebook_gets_its_session() -> None:
    assert lab.lessons.Session is lab.ext.course.lessons.Session


def test_a_program_breaks_a_lab_as_the_command_does() -> None:
    assert lab.recovery.inject is lab.flows.recovery.inject
    assert lab.recovery.FaultRequest is lab.flows.recovery.FaultRequest
