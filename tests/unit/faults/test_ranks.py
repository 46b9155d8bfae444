"""Faults of one training process over a fake lab: rank-kill, rank-hang."""

from __future__ import annotations

import pytest

from lab.errors import RefusedError, ServiceError
from lab.faults import Scene, find_fault
from lab.faults.kinds._probe import tell
from lab.services import worker
from lab.topology import LabSpec
from tests.unit.faults.ranks import PID, W0, asked, probe, scene, up


def test_a_killed_rank_is_killed_on_its_node_by_its_own_process_id() -> None:
    runtime = up()
    probe(runtime, "rank", "kill", PID)

    find_fault("rank-kill").inject(scene(runtime))
    find_fault("rank-kill").revert(scene(runtime))

    assert asked(runtime) == 1


def test_a_hung_rank_is_remembered_before_it_is_frozen_and_thawed_by_another_labctl() -> None:
    runtime = up()
    kept: list[tuple[dict[str, object], int]] = []
    first = scene(runtime)
    hung = scene(runtime, memo=first.memo, remember=lambda: kept.append((dict(first.memo), asked(runtime))))
    probe(runtime, "rank", "hang", PID)
    probe(runtime, "rank", "thaw", PID)

    find_fault("rank-hang").inject(hung)
    assert kept == [({"pid": PID}, 0)]
    find_fault("rank-hang").revert(scene(runtime, ranks=(), memo=kept[0][0]))

    assert asked(runtime) == 2


def test_nothing_is_thawed_that_was_never_frozen_nor_on_a_node_that_is_down() -> None:
    runtime = up()
    find_fault("rank-hang").revert(scene(runtime))
    runtime.kill(W0)
    find_fault("rank-hang").revert(scene(runtime, memo={"pid": PID}))
    assert asked(runtime) == 1


def test_nothing_is_thawed_on_a_node_that_the_lab_has_no_more() -> None:
    runtime = up()
    runtime.down()
    runtime.up(LabSpec(workers=1))
    find_fault("rank-hang").revert(Scene(runtime, worker(1), job="j", memo={"pid": PID}))
    assert asked(runtime) == 1


def test_a_process_that_is_no_rank_is_refused_with_the_reason() -> None:
    runtime = up()
    probe(runtime, "rank", "kill", PID, problem="process 4711 is not a rank of Ray Train: bash", exit_code=3)
    with pytest.raises(RefusedError, match="4711 is not a rank"):
        find_fault("rank-kill").inject(scene(runtime))


def test_a_rank_that_is_not_on_the_target_is_refused() -> None:
    with pytest.raises(RefusedError, match="no rank 3"):
        find_fault("rank-kill").inject(scene(up(), parameters={"rank": 3}))


@pytest.mark.parametrize(
    ("output", "why"), [("Traceback\nOSError: no\n", "OSError: no"), ("", "exit code 1")]
)
def test_a_command_that_breaks_is_told_by_its_last_line(output: str, why: str) -> None:
    runtime = up()
    runtime.answer(W0, ["python", "-m", "raylab_faults.rank", "kill", "1"], output, 1)
    with pytest.raises(ServiceError, match=why):
        tell(scene(runtime), "rank", "kill", 1)


def test_an_answer_with_another_shape_is_no_success() -> None:
    runtime = up()
    runtime.answer(W0, ["python", "-m", "raylab_faults.rank", "kill", "1"], "[1]\n")
    with pytest.raises(ServiceError):
        tell(scene(runtime), "rank", "kill", 1)
