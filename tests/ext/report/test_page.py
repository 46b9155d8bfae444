"""The page and its pictures: complete in itself, parsable, and readable without seeing or colour."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.api.receipt import Verdict
from lab.errors import UsageError
from lab.ext.report.build import build_report
from lab.ext.report.draw import Picture, draw_pictures, workers
from lab.ext.report.model import ReportData, Subject
from lab.ext.report.page import page, write_report
from lab.flows.drawing import COLOURS, HATCHES, MARKERS, render, styled
from lab.host.redaction import Redaction
from tests.ext.report import cases

VOID = {"meta", "img", "br", "hr", "link", "input"}
ALL = ("timeline", "workers", "curves")


class Tags(HTMLParser):
    """The elements of a page; complains about a tag that is not closed, or closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.text.setdefault(self.open[-1], []).append(data.strip())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.seen if name == tag]


def full() -> ReportData:
    """Everything that a report can have."""
    return build_report(cases.full())


@pytest.fixture(scope="module")
def pictures() -> tuple[Picture, ...]:
    return draw_pictures(full())


@pytest.fixture(scope="module")
def text(pictures: tuple[Picture, ...]) -> str:
    return page(full(), pictures)


def test_every_picture_is_drawn_as_svg_and_png(pictures: tuple[Picture, ...]) -> None:
    assert tuple(picture.name for picture in pictures) == ALL
    for picture in pictures:
        assert picture.png.startswith(b"\x89PNG")
        root = ElementTree.fromstring(picture.svg)
        assert root.tag.endswith("svg")
        assert len(picture.alt) > 40


def test_a_picture_has_no_address_but_names_of_xml(pictures: tuple[Picture, ...]) -> None:
    for picture in pictures:
        addresses = set(re.findall(rb"https?://[^\"'\s<>]+", picture.svg))
        assert all(b"w3.org" in address or b"purl.org" in address for address in addresses), addresses
        assert not re.search(rb"(href|src)=\"(?!#)", picture.svg)


def test_the_same_tale_makes_the_same_pictures(pictures: tuple[Picture, ...]) -> None:
    (drawn,) = (picture for picture in pictures if picture.name == "workers")
    with styled():
        assert render(workers.draw(full()), "svg") == drawn.svg


def test_the_page_has_every_section(text: str) -> None:
    assert Tags(text).text["h2"] == [
        "What happened",
        "Which worker trained when",
        "Loss and accuracy",
        "Where the seconds went",
        "Checks",
        "Checkpoint",
        "Environment",
    ]


def test_the_page_needs_nothing_from_elsewhere(text: str) -> None:
    tags = Tags(text)
    assert {tag for tag, _ in tags.seen} & {"script", "link", "iframe", "object", "video"} == set()
    for _, attributes in tags.seen:
        for name in ("src", "href", "srcset", "data"):
            assert attributes.get(name, "data:").startswith("data:")
    assert "@import" not in text
    assert "url(" not in text
    assert not re.search(r"https?://", re.sub(r"base64,[\w+/=]+", "", text))


def test_every_picture_on_the_page_has_its_words(text: str) -> None:
    images = Tags(text).all("img")
    assert len(images) == len(ALL)
    for image in images:
        assert len(image["alt"]) > 40
        data = image["src"].partition("base64,")[2]
        assert base64.b64decode(data).startswith(b"<?xml")


def test_what_happened_stands_in_tables_too(text: str) -> None:
    words = re.sub(r"<[^>]+>", " ", text)
    for phrase in ("first new report", "+1.9 s", "rank 0: ray-worker-1", "7 to 20", "equal bit for bit"):
        assert phrase in words, phrase
    assert words.count("✔ passed") == 8


def test_the_page_prints_on_a4_with_pages_between_sections(text: str) -> None:
    assert "size: A4" in text
    assert "section, figure, tr, .verdict, .facts div, .missing { break-inside: avoid; }" in text


def test_a_receipt_alone_says_what_is_missing() -> None:
    data = build_report(cases.from_file())
    tags = Tags(page(data, ()))
    assert "What is missing" in tags.text["h2"]
    assert "Loss and accuracy" not in tags.text["h2"]
    assert "The lab is down: curves are missing." in tags.text["li"]


@pytest.mark.parametrize(
    ("verdict", "headline", "tone"),
    [
        ("recovered", "Training recovered", "good"),
        ("as-expected", "It went as it should", "good"),
        ("failed", "Training went on, but not everything is right", "bad"),
        ("restarted-from-scratch", "Training started again from the beginning", "bad"),
        ("not-verified", "Recovery was not proven", "open"),
    ],
)
def test_a_verdict_has_a_headline_a_sign_and_a_tone(verdict: str, headline: str, tone: str) -> None:
    evidence = cases.from_file()
    tags = Tags(page(build_report(cases.with_receipt(evidence, verdict=Verdict(verdict))), ()))
    assert tags.text["h1"] == [headline]
    assert f"verdict {tone}" in [attributes.get("class") for attributes in tags.all("div")]
    assert tags.text["span"][0] in "✔✖?"


def test_a_lab_that_is_not_whole_does_not_hide_that_training_recovered() -> None:
    evidence = cases.from_file()
    checks = (replace(c, passed=c.name != "lab whole again") for c in cases.receipt_of(evidence).checks)
    changed = cases.with_receipt(
        evidence,
        verdict=Verdict.FAILED,
        checks=tuple(checks),
        reason="training recovered, but the lab is not whole",
    )
    tags = Tags(page(build_report(changed), ()))
    assert tags.text["h1"] == ["Training recovered, the lab is not whole"]
    assert "verdict open" in [attributes.get("class") for attributes in tags.all("div")]


def test_an_attempt_that_was_lost_without_a_fault_heads_the_page() -> None:
    tags = Tags(page(build_report(cases.full(subject=Subject("k3"))), ()))
    assert tags.text["h1"] == ["An attempt was lost without a recorded fault"]
    assert "Attempt 1 was lost after epoch 6 without a recorded fault." in tags.text["p"]


def test_words_of_a_script_cannot_become_tags() -> None:
    data = replace(build_report(cases.from_file()), reason="<script>alert(1)</script>", job='"><b>x')
    tags = Tags(page(data, ()))
    assert "script" not in [tag for tag, _ in tags.seen]
    assert "b" not in [tag for tag, _ in tags.seen]


@pytest.mark.parametrize("made", [cases.two_ranks, cases.undisturbed, cases.from_file])
def test_other_tales_can_be_drawn(made: object) -> None:
    data = build_report(made())  # type: ignore[operator]
    names = [picture.name for picture in draw_pictures(data)]
    assert "workers" in names
    assert ("timeline" in names) == (data.fault is not None)
    assert ("curves" in names) == bool(data.metrics)


def test_colours_are_never_the_only_difference() -> None:
    assert len({*COLOURS}) == len({*HATCHES}) == len({*MARKERS}) == 7


def test_a_report_is_written_with_its_pictures_and_again_over_itself(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("an older one")
    written = write_report(build_report(cases.from_file()), folder, Redaction())
    assert Path(written.page).read_text().startswith("<!DOCTYPE html>")
    names = {Path(picture).name for picture in written.pictures}
    assert names >= {"timeline.png", "workers.png"}
    assert {path.name for path in folder.iterdir()} == names | {"report.html"}


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written into"):
        write_report(build_report(cases.from_file()), tmp_path / "file" / "report")


def test_neither_the_machine_nor_folders_are_named(tmp_path: Path) -> None:
    data = build_report(cases.from_file())
    reason = "on ada-laptop: /home/ada/lab/train.py failed, see s3://ray/run/checkpoint_3"
    written = write_report(replace(data, reason=reason), tmp_path, Redaction(names=("ada-laptop",)))
    text = Path(written.page).read_text()
    assert "ada" not in text
    assert "On …: …/train.py failed, see s3://ray/run/checkpoint_3." in text
