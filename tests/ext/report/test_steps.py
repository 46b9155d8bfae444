"""The picture of who took a step when, around a fault that the others survived."""

from __future__ import annotations

from dataclasses import replace

from lab.evidence.ledger import steps_of
from lab.evidence.receipt import judge
from lab.ext.report.build import build_report
from lab.ext.report.draw import draw_pictures
from lab.ext.report.model import ReportData, ReportEvidence, Subject
from lab.ext.report.page import page
from tests.unit.data.survivors import evidence, story


def report() -> ReportData:
    receipt = judge(evidence(story()))
    return build_report(ReportEvidence(Subject("job", receipt), steps=steps_of(story())))


def test_steps_around_the_fault_are_told_apart_with_the_gap_of_the_survivor() -> None:
    lost, survivor = report().steps
    assert (lost.rank, survivor.rank) == (0, 1)
    assert lost.gap is None
    assert survivor.gap is not None
    assert [round(at, 3) for at in survivor.gap] == [-0.1, 0.5]
    assert len(survivor.alone) == 16
    assert len(lost.alone) == 1  # the step in which it was healed
    assert min(survivor.together) >= -2.0
    assert max(survivor.together) <= 4.1


def test_the_picture_of_steps_says_its_gap_in_words_and_stands_on_the_page() -> None:
    data = report()
    pictures = {picture.name: picture for picture in draw_pictures(data)}
    assert "longest gap 0.60 s" in pictures["steps"].alt
    assert pictures["steps"].png.startswith(b"\x89PNG")
    assert "Who took a step when" in page(data, pictures.values())


def test_a_training_that_starts_again_has_no_such_picture() -> None:
    receipt = replace(judge(evidence(story())), survivors=None)
    assert build_report(ReportEvidence(Subject("job", receipt), steps=steps_of(story()))).steps == ()
