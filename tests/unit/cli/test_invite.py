"""labctl class invite: a link for each person, in a table, a CSV file and on a page to print."""

from __future__ import annotations

import csv
import re
import stat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lab.errors import SetupError
from lab.people.links import Link, as_page
from lab.people.policy import Role
from lab.people.registry import FOLDER, Registry
from lab.topology import LabSpec
from lab.topology.address import Address
from tests.unit.cli.fakes import PLAN, Labctl
from tests.unit.cli.queues import QueueLab


@pytest.fixture
def address() -> Address | None:
    """The class's one address; None: nowhere but on this machine."""
    return None


@pytest.fixture
def school(
    labctl: Labctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: Address | None
) -> Labctl:
    """A lab with JupyterHub, and ann, ben and eva in its class."""
    labctl.runtime.down()
    labctl.runtime.up(LabSpec(gpu=PLAN, classroom=True, hub=True, address=address))
    QueueLab(labctl, tmp_path / "queue")
    monkeypatch.setattr(labctl.store, "ping", lambda: "moto 5")
    labctl.ok("class", "add", "ann", "ben", "eva")
    return labctl


def registry(labctl: Labctl) -> Registry:
    return Registry(labctl.runtime.folder() / FOLDER)


def signs_in(labctl: Labctl, link: str) -> str:
    parts = urlsplit(link)
    assert parts.path == "/hub/invite"
    assert parts.netloc == urlsplit(labctl.lab.endpoints().hub).netloc
    person = registry(labctl).redeem(parse_qs(parts.query)["code"][0])
    return person.name if person else ""


def test_each_link_signs_its_person_in_once(school: Labctl) -> None:
    links = school.json("class", "invite", "ann", "ben")["links"]
    assert [signs_in(school, one["link"]) for one in links] == ["ann", "ben"]
    assert [signs_in(school, one["link"]) for one in links] == ["", ""]
    assert all(one["until"] > 0 for one in links)


@pytest.mark.parametrize("address", [Address("class.example.org", 8443, "192.0.2.7")])
def test_a_link_leads_to_the_address_of_the_class(school: Labctl) -> None:
    (one,) = school.json("class", "invite", "ann")["links"]
    assert one["link"].startswith("https://class.example.org:8443/hub/invite?code=")


def test_all_but_those_who_leave(school: Labctl) -> None:
    registry(school).close("ben")
    assert [one["name"] for one in school.json("class", "invite", "--all")["links"]] == ["ann", "eva"]


def test_days_are_the_end(school: Labctl) -> None:
    def until(*more: str) -> float:
        return float(school.json("class", "invite", "ann", *more)["links"][0]["until"])

    assert until("--days", "8") - until() == pytest.approx(86_400, abs=60)


def test_a_csv_file_and_a_page_that_only_the_teacher_reads(school: Labctl, tmp_path: Path) -> None:
    out, page = tmp_path / "links.csv", tmp_path / "cards.html"
    shown = school.ok("class", "invite", "--all", "--output", str(out), "--page", str(page))
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["name"] for row in rows] == ["ann", "ben", "eva"]
    on_page = re.findall(r'href="([^"]+)"', page.read_text())
    assert on_page == [row["link"] for row in rows]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (out, page)] == [0o600, 0o600]
    assert not any(row["link"] in shown for row in rows)
    assert [signs_in(school, row["link"]) for row in rows] == ["ann", "ben", "eva"]
    document = school.json("class", "invite", "ann", "--output", str(tmp_path / "more.csv"))
    assert set(document["links"][0]) == {"name", "role", "until"}


def test_a_file_that_is_there_ends_no_link(school: Labctl, tmp_path: Path) -> None:
    (link,) = school.json("class", "invite", "ann")["links"]
    (tmp_path / "there").write_text("x")
    for option in ("--output", "--page"):
        result = school("class", "invite", "ann", option, str(tmp_path / "there"))
        assert (result.exit_code, "is there already" in result.stderr) == (11, True)
    assert signs_in(school, link["link"]) == "ann"


@pytest.mark.parametrize("option", ["--output", "--page"])
def test_a_link_holds_good_until_the_new_one_is_written(school: Labctl, tmp_path: Path, option: str) -> None:
    (link,) = school.json("class", "invite", "ann")["links"]
    (tmp_path / "file").write_text("")
    other = "--page" if option == "--output" else "--output"
    files = (other, str(tmp_path / "other"), option, str(tmp_path / "file" / "links"))
    assert school("class", "invite", "ann", *files).exit_code == SetupError.exit_code
    assert not (tmp_path / "other").exists()
    assert signs_in(school, link["link"]) == "ann"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "give names, or --all"),
        (("ann", "--all"), 2, "give names, or --all"),
        (("zoe",), 3, "nobody in the class is called zoe"),
        (("ann", "--days", "0"), 2, "--days"),
        (("ann", "--days", "367"), 2, "--days"),
    ],
)
def test_what_is_wrong_makes_no_link(
    school: Labctl, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = school("class", "invite", *arguments)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert not any(one.grants for one in registry(school).people().values())


def test_a_lab_without_a_hub_has_no_links(labctl: Labctl, tmp_path: Path) -> None:
    labctl.runtime.down()
    labctl.runtime.up(LabSpec(gpu=PLAN, classroom=True))
    result = labctl("class", "invite", "--all")
    assert (result.exit_code, "nobody is in the class" in result.stderr) == (3, True)
    result = labctl("class", "invite", "ann")
    assert result.exit_code == 11
    assert "has no JupyterHub" in result.stderr
    assert "labctl up --class --hub" in result.stderr


def test_a_page_shows_what_it_is_given_as_text() -> None:
    page = as_page("<a> & b", [Link("ann", Role.STUDENT, "http://h/hub/invite?code=a&x=1", 1.0)])
    assert "<title>&lt;a&gt; &amp; b</title>" in page
    assert 'href="http://h/hub/invite?code=a&amp;x=1"' in page
