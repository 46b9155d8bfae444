"""data: food11, list, rm."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.cli.commands.data import BETWEEN, meter
from lab.datasets import Dataset, Shelf, draw_food11
from lab.host.environment.progress import Progress
from tests.unit.cli.fakes import FakeCore, Labctl


@dataclass
class DataCore(FakeCore):
    """A core whose data sets lie in a folder of the test's; photographs are never downloaded."""

    place: Path = Path("/nowhere")
    asked: list[dict[str, Any]] = field(default_factory=list)

    def shelf(self) -> Shelf:
        return Shelf(self.place)

    def food11(self, **request: Any) -> tuple[Dataset, bool]:
        self.asked.append(request)
        if request["synthetic"] is not None:
            return super().food11(**request)
        return draw_food11(self.shelf(), 1)


@pytest.fixture
def core(tmp_path: Path) -> DataCore:
    return DataCore(place=tmp_path / "labs" / "data")


@pytest.fixture
def labctl(core: DataCore) -> Labctl:
    return Labctl(core)


def test_drawn_pictures_are_counted_and_their_folder_is_named(labctl: Labctl, core: DataCore) -> None:
    line = labctl.ok("data", "food11", "--synthetic", "4")
    assert line.startswith("Food-11: 88 drawn pictures (44 training, 22 validation, 22 evaluation; ")
    assert line.endswith(f", in {core.place}/Food-11\n")


def test_what_is_there_already_is_said_and_no_error(labctl: Labctl) -> None:
    labctl.ok("data", "food11", "--synthetic", "1")
    again = labctl("data", "food11", "--synthetic", "1")
    assert (again.exit_code, "there already: 55 drawn" in again.stdout) == (0, True)
    assert "--force" in again.stderr


def test_as_json_every_class_is_counted(labctl: Labctl, core: DataCore) -> None:
    answer = labctl.json("data", "food11", "--synthetic", "4", "--seed", "7")
    assert answer["made"] is True
    assert answer["dataset"]["counts"]["training"]["class_10"] == 4
    assert answer["dataset"]["source"] == "drawn: 4 of each class, seed 7"
    assert answer["dataset"]["folder"] == str(core.place / "Food-11")
    assert labctl.json("data", "list") == {
        "folder": str(core.place),
        "datasets": [answer["dataset"]],
        "downloads": [],
    }


def test_where_photographs_come_from_is_handed_on(labctl: Labctl, core: DataCore) -> None:
    labctl.ok("data", "food11", "--url", "https://x.org/f.zip", "--sha256", "ab" * 32, "--force")
    labctl.ok("data", "food11", "--from", "f.zip")
    first, second = core.asked
    assert (first["url"], first["sha256"], first["force"]) == ("https://x.org/f.zip", "ab" * 32, True)
    assert (second["file"], second["url"], second["force"]) == (Path("f.zip"), None, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--synthetic", "0"], "not 1 to 2000"),
        (["--synthetic", "many"], "'many' is not a valid integer"),
        (["--synthetic", "4", "--url", "https://x.org"], "--url says where photographs come from"),
        (["--synthetic", "4", "--from", "f.zip"], "--from says where photographs come from"),
        (["--seed", "4"], "--seed belongs to --synthetic"),
        (["--url", "https://x.org", "--from", "f.zip"], "exclude each other"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    labctl: Labctl, core: DataCore, arguments: list[str], message: str
) -> None:
    result = labctl("data", "food11", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert not core.place.exists()


def test_the_list_says_what_is_missing_and_what_labctl_did_not_make(labctl: Labctl, core: DataCore) -> None:
    assert labctl("data", "list").stdout == f"no data sets in {core.place}\n"
    made, _ = draw_food11(core.shelf(), 4)
    assert labctl.ok("data", "list").splitlines()[1].split()[:5] == ["Food-11", "whole", "44", "22", "22"]
    next(made.folder.rglob("*.png")).unlink()
    assert "1 missing" in labctl.ok("data", "list")
    (made.folder / "dataset.json").unlink()
    assert "not labctl's" in labctl.ok("data", "list")


def test_nothing_is_deleted_without_a_yes(
    labctl: Labctl, core: DataCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_food11(core.shelf(), 1)
    refused = labctl("data", "rm", "food11")
    assert refused.exit_code == 11
    assert "this deletes, for good: 55 drawn pictures" in refused.stderr
    assert labctl("data", "rm", "food11", "--json").exit_code == 11
    monkeypatch.setattr("lab.cli.commands.data.asks", lambda: True)
    assert labctl("data", "rm", "food11", input="n\n").exit_code == 11
    assert core.shelf().get("food11").pictures == 55
    assert labctl("data", "rm", "food11", input="y\n").exit_code == 0
    assert core.shelf().all() == ()


def test_a_data_set_is_deleted_by_either_of_its_names(labctl: Labctl, core: DataCore) -> None:
    draw_food11(core.shelf(), 1)
    assert labctl.ok("data", "rm", "Food-11", "--yes").startswith("Food-11: deleted, ")
    draw_food11(core.shelf(), 1)
    assert labctl.json("data", "rm", "food11", "--yes") == {
        "name": "Food-11",
        "removed": str(core.place / "Food-11"),
    }
    unknown = labctl("data", "rm", "food11", "--yes")
    assert (unknown.exit_code, "there: none" in unknown.stderr) == (3, True)


def test_an_interrupted_download_is_listed_and_deleted(labctl: Labctl, core: DataCore) -> None:
    (core.place / ".downloads").mkdir(parents=True)
    part = core.place / ".downloads" / "Food-11-0123abcd.zip.part"
    part.write_bytes(b"0" * 2000)

    assert labctl.ok("data", "list").splitlines()[1].split()[:4] == ["Food-11", "download", "2.0", "kB"]
    assert labctl.json("data", "list")["downloads"] == [{"name": "Food-11", "bytes": 2000}]
    refused = labctl("data", "rm", "food11")
    assert (refused.exit_code, "for good: 2.0 kB of a download" in refused.stderr) == (11, True)
    assert part.exists()
    assert labctl.ok("data", "rm", "food11", "--yes") == "Food-11: deleted, 2.0 kB of a download\n"
    assert labctl.ok("data", "list").startswith("no data sets in ")


def test_a_data_set_is_deleted_with_what_was_downloaded_of_it(labctl: Labctl, core: DataCore) -> None:
    draw_food11(core.shelf(), 1)
    (core.place / ".downloads").mkdir()
    (core.place / ".downloads" / "Food-11-0123abcd.zip.part").write_bytes(b"0" * 2000)

    assert "for good: 55 drawn pictures" in labctl("data", "rm", "food11").stderr
    assert labctl.ok("data", "rm", "food11", "--yes").endswith(" and 2.0 kB of a download\n")
    assert core.shelf().partial() == ()


def test_progress_is_told_in_bytes_and_pictures_and_not_too_often() -> None:
    now, said = [0.0], list[str]()

    class Told(Progress):
        def update(self, text: str) -> None:
            said.append(text)

    step = meter(Told(lambda _: None, clock=lambda: now[0]), clock=lambda: now[0])
    step("download", 1_000_000, 4_000_000)
    step("download", 1_100_000, 4_000_000)
    now[0] += 2 * BETWEEN
    step("download", 2_000_000, 4_000_000)
    step("download", 4_000_000, 4_000_000)
    step("unpack", 3, 6)
    step("download", 5, 0)
    assert said == [
        "downloading 1.0 MB of 4.0 MB (25 %)",
        "downloading 2.0 MB of 4.0 MB (50 %)",
        "downloading 4.0 MB of 4.0 MB (100 %)",
        "unpacking 3 of 6 pictures (50 %)",
        "downloading 5 B",
    ]
