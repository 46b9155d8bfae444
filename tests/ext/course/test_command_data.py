"""data: food11, list, rm."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.ext.course.data import _text
from lab.ext.course.datasets import URLS, Shelf, draw_food11
from tests.unit.cli.fakes import Labctl


@pytest.fixture
def shelf(labctl: Labctl, tmp_path: Path) -> Shelf:
    """The data sets of the machine on which labctl runs."""
    return Shelf(tmp_path / "labs" / "data")


def test_drawn_pictures_are_counted_and_their_folder_is_named(labctl: Labctl, shelf: Shelf) -> None:
    line = labctl.ok("lesson", "data", "food11", "--synthetic", "4")
    assert line.startswith("Food-11: 88 drawn pictures (44 training, 22 validation, 22 evaluation; ")
    assert line.endswith(f", in {shelf.folder}/Food-11\n")


def test_what_is_there_already_is_said_and_no_error(labctl: Labctl) -> None:
    labctl.ok("lesson", "data", "food11", "--synthetic", "1")
    again = labctl("lesson", "data", "food11", "--synthetic", "1")
    assert (again.exit_code, "there already: 55 drawn" in again.stdout) == (0, True)
    assert "--force" in again.stderr


def test_as_json_every_class_is_counted(labctl: Labctl, shelf: Shelf) -> None:
    answer = labctl.json("lesson", "data", "food11", "--synthetic", "4")
    assert answer["made"] is True
    assert answer["dataset"]["counts"]["training"]["class_10"] == 4
    assert answer["dataset"]["source"] == "drawn: 4 of each class, seed 0"
    assert answer["dataset"]["folder"] == str(shelf.folder / "Food-11")
    assert labctl.json("lesson", "data", "list") == {
        "folder": str(shelf.folder),
        "datasets": [answer["dataset"]],
        "downloads": [],
    }


def test_where_photographs_come_from_is_handed_on(labctl: Labctl, shelf: Shelf) -> None:
    get = labctl.stub("lab.ext.course.datasets.get_food11", lambda *_, **__: draw_food11(shelf, 1))
    labctl.ok("lesson", "data", "food11", "--url", "https://x.org/f.zip", "--sha256", "ab" * 32, "--force")
    labctl.ok("lesson", "data", "food11", "--from", "f.zip")
    first, second = (call.kwargs for call in get.call_args_list)
    assert (first["urls"], first["sha256"], first["force"]) == (("https://x.org/f.zip",), "ab" * 32, True)
    assert (second["file"], second["urls"], second["force"]) == (Path("f.zip"), URLS, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--synthetic", "0"], "must be 1 to 2000"),
        (["--synthetic", "many"], "'many' is not a valid integer"),
        (["--synthetic", "4", "--url", "https://x.org"], "--synthetic and --url cannot be used together"),
        (["--synthetic", "4", "--from", "f.zip"], "--synthetic and --from cannot be used together"),
        (["--url", "https://x.org", "--from", "f.zip"], "cannot be used together"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    labctl: Labctl, shelf: Shelf, arguments: list[str], message: str
) -> None:
    result = labctl("lesson", "data", "food11", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert not shelf.folder.exists()


def test_the_list_says_what_is_missing_and_what_labctl_did_not_make(labctl: Labctl, shelf: Shelf) -> None:
    assert labctl("lesson", "data", "list").stdout == f"no data sets in {shelf.folder}\n"
    made, _ = draw_food11(shelf, 4)
    assert labctl.ok("lesson", "data", "list").splitlines()[1].split()[:5] == [
        "Food-11",
        "whole",
        "44",
        "22",
        "22",
    ]
    next(made.folder.rglob("*.png")).unlink()
    assert "1 missing" in labctl.ok("lesson", "data", "list")
    (made.folder / "dataset.json").unlink()
    assert "not labctl's" in labctl.ok("lesson", "data", "list")


def test_nothing_is_deleted_without_a_yes(
    labctl: Labctl, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_food11(shelf, 1)
    refused = labctl("lesson", "data", "rm", "food11")
    assert refused.exit_code == 11
    assert "this deletes, for good: 55 drawn pictures" in refused.stderr
    assert labctl("lesson", "data", "rm", "food11", "--json").exit_code == 11
    monkeypatch.setattr("lab.cli.context.asks", lambda: True)
    assert labctl("lesson", "data", "rm", "food11", input="n\n").exit_code == 11
    assert shelf.get("food11").pictures == 55
    assert labctl("lesson", "data", "rm", "food11", input="y\n").exit_code == 0
    assert shelf.all() == ()


def test_a_data_set_is_deleted_by_either_of_its_names(labctl: Labctl, shelf: Shelf) -> None:
    draw_food11(shelf, 1)
    assert labctl.ok("lesson", "data", "rm", "Food-11", "--yes").startswith("Food-11: deleted, ")
    draw_food11(shelf, 1)
    assert labctl.json("lesson", "data", "rm", "food11", "--yes") == {
        "name": "Food-11",
        "removed": str(shelf.folder / "Food-11"),
    }
    unknown = labctl("lesson", "data", "rm", "food11", "--yes")
    assert (unknown.exit_code, "labctl lesson data food11` gets one" in unknown.stderr) == (3, True)


def test_an_interrupted_download_is_listed_and_deleted(labctl: Labctl, shelf: Shelf) -> None:
    (shelf.folder / ".downloads").mkdir(parents=True)
    part = shelf.folder / ".downloads" / "Food-11-0123abcd.zip.part"
    part.write_bytes(b"0" * 2000)

    assert labctl.ok("lesson", "data", "list").splitlines()[1].split()[:4] == [
        "Food-11",
        "download",
        "2.0",
        "kB",
    ]
    assert labctl.json("lesson", "data", "list")["downloads"] == [{"name": "Food-11", "bytes": 2000}]
    refused = labctl("lesson", "data", "rm", "food11")
    assert (refused.exit_code, "for good: 2.0 kB of a download" in refused.stderr) == (11, True)
    assert part.exists()
    assert labctl.ok("lesson", "data", "rm", "food11", "--yes") == "Food-11: deleted, 2.0 kB of a download\n"
    assert labctl.ok("lesson", "data", "list").startswith("no data sets in ")


def test_a_data_set_is_deleted_with_what_was_downloaded_of_it(labctl: Labctl, shelf: Shelf) -> None:
    draw_food11(shelf, 1)
    (shelf.folder / ".downloads").mkdir()
    (shelf.folder / ".downloads" / "Food-11-0123abcd.zip.part").write_bytes(b"0" * 2000)

    assert "for good: 55 drawn pictures" in labctl("lesson", "data", "rm", "food11").stderr
    assert labctl.ok("lesson", "data", "rm", "food11", "--yes").endswith(" and 2.0 kB of a download\n")
    assert shelf.arrived == 0


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (("download", 1_000_000, 4_000_000), "downloading 1.0 MB of 4.0 MB (25 %)"),
        (("unpack", 3, 6), "unpacking 3 of 6 pictures (50 %)"),
        (("download", 5, 0), "downloading 5 B"),
    ],
)
def test_progress_is_told_in_bytes_and_pictures(step: tuple[str, int, int], said: str) -> None:
    assert _text(*step) == said
