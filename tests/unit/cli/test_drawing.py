"""The receipt's panel and the live timeline."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from lab.api.receipt import ExpectedDocument, ReceiptDocument, Timeline, WorldSize
from lab.cli import output
from lab.cli.live import ORDER, Story
from lab.cli.output import Output, coloured
from lab.cli.receipt_panel import panel
from lab.evidence.receipt.expected import Expected
from lab.flows.recovery import Moment, Outcome
from tests.fakes import FakeClock
from tests.unit.cli.fakes import FAULT, MOMENTS, Labctl, receipt
from tests.unit.data.stories import CHECKS


def drawn(shown: ReceiptDocument, *, unicode: bool = True) -> str:
    """The panel as plain text."""
    stream = io.StringIO()
    Console(file=stream, width=200, force_terminal=False).print(panel(shown, unicode=unicode))
    return stream.getvalue()


@pytest.mark.parametrize("verdict", ["recovered", "as-expected", "failed", "not-verified"])
@pytest.mark.parametrize("unicode", [True, False])
def test_the_panel_is_eighty_columns_wide(verdict: str, unicode: bool) -> None:
    long = replace(receipt(verdict), reason="because " * 40)
    long = replace(long, job=replace(long.job, submission_id="job-" + "x" * 90))
    assert {len(line) for line in drawn(long, unicode=unicode).splitlines()} == {80}


def test_the_panel_has_everything_a_person_asks_for() -> None:
    shown = drawn(receipt())
    for words in (
        "RECOVERED  training went on from its checkpoint",
        "kill ray-worker-0",
        "reverted +4.2 s",
        "epoch 5  s3://ray/job-1/checkpoint_000004",
        "saved = loaded 3f3f3f3f3f3f3f3f",
        "1 epoch ",
        "+0.9 s  node declared dead",
        "–  node is back",
        "1  ray-worker-0  1 → 6   21.0 s",
        "2  ray-worker-1  6 → 20  29.0 s",
    ):
        assert words in shown
    for name in CHECKS:
        assert f"✓  {name}" in shown


@pytest.mark.parametrize(
    ("patches", "shown"),
    [
        (("elastic", "forks"), "Ray with    elastic, forks"),
        ((), "Ray with    nothing of the lab's but the ledger"),
    ],
)
def test_the_panel_says_what_was_changed_of_ray(patches: tuple[str, ...], shown: str) -> None:
    assert shown in drawn(replace(receipt(), patches=patches))
    assert "Ray with" not in drawn(receipt())


def test_a_check_that_did_not_pass_stands_out() -> None:
    shown = drawn(receipt("failed", failing="moved"))
    assert shown.count("✗") == 1
    assert "✗  moved" in shown


def test_the_bars_of_the_timeline_are_proportional() -> None:
    shown = drawn(replace(receipt(), timeline=Timeline(node_dead=2.0, first_report=4.0)))
    dead, report = (
        next(line for line in shown.splitlines() if words in line).count("━")
        for words in ("node declared dead", "first new report")
    )
    assert (dead, report) == (8, 16)


@pytest.mark.parametrize(
    ("verdict", "failing", "title"),
    [
        ("failed", "lab whole again", "RECOVERED, LAB NOT WHOLE  training did recover"),
        ("not-verified", "lab whole again", "RECOVERED, LAB NOT WHOLE  training did recover"),
        ("failed", "moved", "FAILED  training went on, but not everything is right"),
        ("not-verified", "moved", "NOT VERIFIED  the evidence does not allow a verdict"),
    ],
)
def test_the_first_line_says_what_became_of_the_training(verdict: str, failing: str, title: str) -> None:
    assert title in drawn(receipt(verdict, failing=failing))


def test_a_training_that_had_nothing_to_resume_is_not_called_recovered() -> None:
    given = replace(receipt("failed", failing="lab whole again"), timeline=Timeline())
    assert "AS EXPECTED, LAB NOT WHOLE  training came through" in drawn(given)


def test_without_unicode_the_panel_is_ascii() -> None:
    shown = drawn(receipt("failed", failing="moved"), unicode=False)
    assert shown.isascii()
    assert "FAIL" in shown


def test_a_receipt_without_evidence_is_drawn_too() -> None:
    empty = replace(
        receipt("not-verified"),
        timeline=Timeline(),
        checkpoint=None,
        attempts=(),
        lost_epochs=None,
        checks=(),
        problems=("the ledger could not be read",),
    )
    shown = drawn(empty)
    assert "NOT VERIFIED" in shown
    assert "the ledger could not be read" in shown
    assert "Attempts" not in shown
    assert "Seconds after the fault" not in shown


def test_hashes_that_differ_are_both_shown() -> None:
    proof = receipt().checkpoint
    assert proof is not None
    shown = drawn(replace(receipt(), checkpoint=replace(proof, loaded_sha256="ab" * 32)))
    assert "saved 3f3f3f3f3f3f3f3f  loaded abababababababab" in shown


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """stderr as a terminal of 80 columns, from now on (a fixture would come before pytest's own capture)."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "80"), ("LINES", "40")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def test_on_a_terminal_the_timeline_fills_in(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with Story(Output(), FakeClock()) as story:
        story.moment(Moment("submitted", None, "job job-1"))
        for moment in MOMENTS:
            story.moment(moment)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    assert "submitted: job job-1" in shown
    last = shown[shown.rindex("!") :]
    assert last.count("✓") == 3
    assert last.count("·") == len(ORDER) - 4


def test_before_the_fault_the_terminal_shows_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with Story(Output(), FakeClock()) as story:
        story.moment(MOMENTS[0])
        assert "waiting for a complete checkpoint" in terminal.getvalue()
        assert "node declared dead" not in terminal.getvalue()


def test_with_quiet_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with Story(Output(quiet=True)) as story:
        for moment in MOMENTS:
            story.moment(moment)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_is_for_terminals_that_want_it(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    terminal = open_terminal(monkeypatch)
    assert coloured(terminal)
    assert not coloured(io.StringIO())
    monkeypatch.setenv(variable, value)
    assert not coloured(terminal)


def test_errors_have_no_escape_codes_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    Output().warn("scarce", "mend it")
    assert "\x1b[" in terminal.getvalue()
    terminal.truncate(0)
    monkeypatch.setenv("NO_COLOR", "1")
    Output().warn("scarce", "mend it")
    assert "\x1b[" not in terminal.getvalue()


def test_a_stream_that_cannot_show_it_gets_ascii(labctl: Labctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "encodable", lambda text, stream=None: text.isascii())
    monkeypatch.setattr("lab.cli.receipt_panel.encodable", lambda text, stream=None: text.isascii())
    result = receipt()
    labctl.stub("lab.flows.recovery.inject", Outcome(FAULT, result))
    labctl.jobs.text = "épöch ✓\n"
    assert labctl.ok("fault-inject", "ray-worker-0").isascii()
    assert json_is_ascii(labctl)


def json_is_ascii(labctl: Labctl) -> bool:
    """Tell if a log with other characters becomes ASCII JSON."""
    document = labctl("submit", "digits", "--json")
    return document.stdout.isascii()


def test_a_receipt_says_what_was_expected_where_the_seconds_went_and_how_many_ranks_trained() -> None:
    judged = receipt("as-expected")
    shown = drawn(
        replace(
            judged,
            expected=ExpectedDocument(Expected.STORE_AWAY.value, Expected.STORE_AWAY.text),
            breakdown={"detect": 0.72, "decide": 0.1, "place": None, "first_step": 0.4, "report": 1.0},
            world_size=tuple(WorldSize(1.0, ranks) for ranks in (2, 1, 1, 2)),
            job=replace(judged.job, resubmitted_as="job-2"),
        )
    )
    assert "AS EXPECTED" in shown
    assert "training waits, or resumes" in shown
    assert "detect 0.7  decide 0.1  first step 0.4  report 1.0" in shown
    assert "2, then 1, then 2" in shown
    assert "submitted again as job-2" in shown
