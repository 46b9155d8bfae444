"""States that follow from results, on an injected clock."""

from __future__ import annotations

from typing import Any

import pytest

from lab.api.health import CPU, EVICT, PASS, UNKNOWN, WARN, Device, Override, Result
from lab.daemons.health.board import FLAKY_RETURNS, FORGOTTEN_SECONDS, Board
from lab.daemons.health.documents import device
from lab.daemons.health.model import PRESENCE, SILENT, Change, Health, Order

NODE, GPU = "ray-worker-0", "gpu-0"
DEVICES = (Device(GPU, "simulated"), Device(CPU, "a processor"))
T0 = 1000.0


def result(state: str, check: str = "gpu-ecc", device: str = GPU, **more: Any) -> Result:
    return Result(check, device, state, message=f"{check} says {state}", **more)


def heard(board: Board, now: float, *results: Result, boot: str = "1") -> tuple[Change, ...]:
    return board.report(NODE, results, now, devices=DEVICES, interval=5.0, boot=boot)


def state(board: Board, device: str = GPU) -> Health:
    known = board.state(NODE, device)
    assert known is not None
    return known


def fed(states: str, **more: Any) -> str:
    """State of a GPU after a row of results: P, W, E and U."""
    board = Board()
    names = {"P": PASS, "W": WARN, "E": EVICT, "U": UNKNOWN}
    for number, letter in enumerate(states):
        heard(board, T0 + number, result(names[letter], **more))
    return state(board).state


def test_a_machine_that_stood_still_made_nobody_silent() -> None:
    board = Board()
    for second in range(30):
        if second % 5 == 0:
            heard(board, T0 + second, result(PASS))
        board.tick(T0 + second)
    assert board.tick(T0 + 3600) == ()
    assert board.tick(T0 + 3605) == ()
    heard(board, T0 + 3606)
    assert state(board).state == PASS
    assert all(change.new.reason != SILENT for change in board.tick(T0 + 3607))


def test_an_agent_that_stays_silent_after_that_is_silent() -> None:
    board = Board()
    heard(board, T0, result(PASS))
    board.tick(T0 + 1)
    board.tick(T0 + 3600)
    for second in range(20):
        board.tick(T0 + 3600 + second)
    assert (state(board).state, state(board).reason) == (UNKNOWN, SILENT)


def test_a_device_without_results_is_unknown_and_one_whose_checks_pass_passes() -> None:
    board = Board()
    heard(board, T0)
    assert state(board).state == UNKNOWN
    assert state(board).message == "not checked yet"
    heard(board, T0 + 5, result(PASS))
    assert state(board) == Health(NODE, GPU, PASS, "", "", T0 + 5, state(board).checks, "simulated", T0 + 5)


def test_the_worst_check_decides_and_is_the_reason() -> None:
    board = Board()
    heard(board, T0, result(PASS, "a"), result(EVICT, "b"), result(WARN, "c"))
    assert (state(board).state, state(board).reason, state(board).message) == (EVICT, "b", "b says EVICT")
    assert [check.name for check in state(board).checks] == ["a", "b", "c"]


def test_devices_of_a_node_are_apart() -> None:
    board = Board()
    heard(board, T0, result(EVICT), result(PASS, "disk", CPU))
    assert (state(board).state, state(board, CPU).state) == (EVICT, PASS)
    assert [state.device for state in board.states()] == [GPU, CPU]


@pytest.mark.parametrize(
    ("results", "worse_after", "better_after", "expected"),
    [
        ("PE", 1, 2, EVICT),
        ("PW", 1, 2, WARN),
        ("PW", 2, 2, PASS),
        ("PWW", 2, 2, WARN),
        ("PWPW", 2, 2, PASS),
        ("PEW", 2, 2, WARN),  # the least bad of the row
        ("PEEE", 2, 2, EVICT),
        ("PWWEE", 2, 2, EVICT),
        ("WP", 1, 2, WARN),
        ("WPP", 1, 2, PASS),
        ("EPP", 1, 3, EVICT),
        ("EPPP", 1, 3, PASS),
        ("EPWP", 1, 3, WARN),  # the worst of the row
        ("EPEPP", 1, 3, EVICT),
        ("W", 2, 2, PASS),  # the first result is no better founded than others
        ("WW", 2, 2, WARN),
        ("U", 1, 2, UNKNOWN),
        ("PU", 1, 2, PASS),
        ("EUUU", 1, 2, EVICT),
        ("UW", 1, 2, WARN),
        ("UP", 1, 2, PASS),
        ("PWUW", 2, 2, WARN),
    ],
)
def test_hysteresis(results: str, worse_after: int, better_after: int, expected: str) -> None:
    assert fed(results, worse_after=worse_after, better_after=better_after) == expected


def test_a_change_says_what_was_before_and_since_when() -> None:
    board, changes = Board(), list[Change]()
    board.listen(changes.extend)
    heard(board, T0, result(PASS))
    heard(board, T0 + 5, result(PASS))
    heard(board, T0 + 10, result(EVICT))
    heard(board, T0 + 15, result(EVICT))
    assert [
        (change.at, change.old and change.old.state, change.new.state)
        for change in changes
        if change.new.device == GPU
    ] == [
        (T0, None, PASS),
        (T0 + 10, PASS, EVICT),
    ]
    assert state(board).since == T0 + 10


def test_another_reason_for_the_same_state_is_a_change_but_not_a_new_beginning() -> None:
    board = Board()
    heard(board, T0, result(WARN, "a"))
    (change,) = [change for change in heard(board, T0 + 5, result(EVICT, "b")) if change.new.device == GPU]
    assert change.new.reason == "b"
    (change,) = heard(board, T0 + 10, result(EVICT, "a"))
    assert (change.new.reason, change.new.since) == ("a", T0 + 5)


def test_a_silent_agent_makes_its_devices_unknown_and_a_report_makes_them_known_again() -> None:
    board = Board()
    heard(board, T0, result(PASS))
    assert board.tick(T0 + 15) == ()
    changes = board.tick(T0 + 15.1)
    assert [(change.new.device, change.new.state, change.new.reason) for change in changes] == [
        (GPU, UNKNOWN, SILENT),
        (CPU, UNKNOWN, SILENT),
    ]
    assert device(state(board)).takes_work
    heard(board, T0 + 20)
    assert state(board).state == PASS


def test_a_broken_gpu_stays_so_while_its_agent_is_silent() -> None:
    board = Board()
    heard(board, T0, result(EVICT))
    board.tick(T0 + 1000)
    assert state(board).state == EVICT
    assert state(board, CPU).state == UNKNOWN


def test_an_override_is_believed_at_once_and_after_it_results_have_to_confirm() -> None:
    board = Board()
    more: dict[str, Any] = {"worse_after": 3, "better_after": 2}
    heard(board, T0, result(PASS, **more))
    order = Override(NODE, GPU, "gpu-ecc", EVICT)
    board.override(order, T0 + 1)
    assert board.overrides(NODE) == (order,)
    assert board.overrides("ray-worker-1") == ()
    heard(board, T0 + 5, result(EVICT, ordered=True, **more))
    assert state(board).state == EVICT
    board.lift(NODE, GPU, "gpu-ecc", T0 + 6)
    assert board.overrides() == ()
    heard(board, T0 + 10, result(PASS, **more))
    assert state(board).state == EVICT
    heard(board, T0 + 15, result(PASS, **more))
    assert state(board).state == PASS


def test_what_has_to_be_confirmed_is_due() -> None:
    board = Board()
    heard(board, T0, result(PASS, worse_after=2), result(PASS, "disk", CPU))
    assert board.due(T0) == ()
    heard(board, T0 + 5, result(WARN, worse_after=2))
    assert board.due(T0 + 5) == (Order(NODE, "gpu-ecc"),)
    assert board.due(T0 + 60) == (), "a silent agent runs nothing"
    heard(board, T0 + 65, result(WARN, worse_after=2))
    assert board.due(T0 + 65) == ()


def test_a_node_that_comes_and_goes_is_suspicious_until_it_stays() -> None:
    board = Board()
    heard(board, T0, result(PASS, "disk", CPU), boot="0")
    for life in range(1, FLAKY_RETURNS + 1):
        assert state(board, CPU).state == PASS
        heard(board, T0 + life, boot=str(life))
    assert (state(board, CPU).state, state(board, CPU).reason) == (WARN, PRESENCE)
    assert state(board, CPU).message == "came back 3 times within 90 s"
    for second in range(5, 700, 5):
        heard(board, T0 + second, boot=str(FLAKY_RETURNS))
    assert state(board, CPU).state == PASS


def test_a_return_after_silence_counts_as_one() -> None:
    board = Board()
    heard(board, T0)
    for second in range(1, 61):
        board.tick(T0 + second)
        if second % 20 == 0:
            heard(board, T0 + second)
    assert state(board, CPU).reason == PRESENCE


def test_a_device_that_an_agent_no_longer_has_is_gone() -> None:
    board = Board()
    heard(board, T0, result(EVICT))
    board.report(NODE, (), T0 + 5, devices=DEVICES[1:], interval=5.0)
    assert board.state(NODE, GPU) is None


def test_a_node_that_is_silent_for_long_is_forgotten_unless_a_device_is_broken() -> None:
    board = Board()
    heard(board, T0, result(PASS))
    board.report("ray-worker-1", [result(EVICT)], T0, devices=DEVICES, interval=5.0)
    board.tick(T0 + FORGOTTEN_SECONDS + 1)
    assert [(state.node, state.device) for state in board.states()] == [
        ("ray-worker-1", GPU),
        ("ray-worker-1", CPU),
    ]


def test_a_forgotten_node_leaves_nothing() -> None:
    board = Board()
    heard(board, T0, result(PASS))
    board.override(Override(NODE, GPU, "gpu-ecc", EVICT), T0)
    board.forget(NODE, T0)
    assert (board.states(), board.overrides()) == ((), ())


def test_a_board_goes_on_from_what_was_kept() -> None:
    board = Board()
    heard(board, T0, result(EVICT), result(PASS, "disk", CPU))
    again = Board(board.states(), T0 + 100)
    assert again.states() == board.states()
    again.tick(T0 + 114)
    assert again.states() == board.states(), "an agent has the time of three reports to be heard again"
    assert again.report(NODE, [result(EVICT)], T0 + 114, devices=DEVICES, interval=5.0) == ()
    assert again.state(NODE, GPU) is not None
    assert state(again).since == T0
