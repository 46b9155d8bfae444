"""SIGTERM and SIGHUP take the way of Ctrl-C: what was begun is undone, and the exit code names the signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from lab.host.interrupts import SignalError
from tests.unit.cli.fakes import Labctl

SIGNALS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture(autouse=True)
def not_under_nohup() -> Iterator[None]:
    """A hang-up that is ignored, as under nohup, stays ignored: these tests are about the others."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, previous)


def signalled(labctl: Labctl, number: signal.Signals) -> list[str]:
    """Send labctl the signal while `up` runs; returns what that has undone."""
    done: list[str] = []

    def up(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            done.append("undone")
            raise

    labctl.stub("up", up)
    return done


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_what_was_begun_is_undone(labctl: Labctl, number: signal.Signals, code: int) -> None:
    undone = signalled(labctl, number)
    before = signal.getsignal(number)

    result = labctl("up", "--quiet")

    assert (undone, result.exit_code) == (["undone"], code)
    assert result.stderr == f"ended by {number.name}\n"
    assert signal.getsignal(number) is before


def test_with_json_it_is_a_document(labctl: Labctl) -> None:
    signalled(labctl, signal.SIGTERM)
    error = labctl.json("up", code=143)["error"]

    assert (error["exit_code"], error["message"]) == (143, "ended by SIGTERM")


def test_what_is_ignored_stays_ignored(labctl: Labctl) -> None:
    undone = signalled(labctl, signal.SIGHUP)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        labctl("up", "--quiet")
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)

    assert undone == []


def test_at_a_question_it_is_no_ctrl_c(labctl: Labctl, monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    def asked(*_: object, **__: object) -> bool:
        """As click does it."""
        try:
            raise SignalError(signal.SIGTERM)
        except KeyboardInterrupt:
            raise click.Abort() from None

    monkeypatch.setattr("lab.cli.context.asks", lambda: True)
    monkeypatch.setattr(click, "confirm", asked)

    assert labctl("down", "--volumes").exit_code == 143


def test_a_terminal_that_is_gone_is_no_second_error(labctl: Labctl, monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    def gone(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    signalled(labctl, signal.SIGHUP)
    monkeypatch.setattr(click, "echo", gone)

    assert labctl("up", "--quiet").exit_code == 129
