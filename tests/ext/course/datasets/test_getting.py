"""Food-11 onto the shelf: drawn, downloaded, from a file; never half, never in place of something else."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError, NotFoundError, RefusedError, SetupError, UsageError
from lab.ext.course.datasets import Dataset, Shelf, draw_food11, ensure, food11, get_food11, model
from lab.ext.course.datasets.pictures import SIDE, draw
from tests.ext.course.datasets.archives import archive, entries
from tests.ext.course.datasets.servers import Server, offline
from tests.fakes.host import FakeClock

URL = "https://example.org/food.zip"


FEWER = {"training": (*(4,) * 10, 5), "validation": (2,) * 11, "evaluation": (1,) * 11}
"""In place of the published numbers: thousands of files take long."""

PUBLISHED = 78
REAL = food11.COUNTS


@pytest.fixture(autouse=True)
def _fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(food11, "COUNTS", FEWER)


@cache
def published() -> bytes:
    """An archive with as many pictures as FEWER says."""
    return archive()


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "labs" / "data")


def get(shelf: Shelf, server: Server, urls: tuple[str, ...] = (URL,), **changes: Any) -> tuple[Dataset, bool]:
    return get_food11(shelf, urls=urls, session=server.session, clock=FakeClock(), **changes)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


# What was published


def test_the_numbers_of_each_class_sum_up_to_those_of_each_split() -> None:
    totals = {split: sum(counts) for split, counts in REAL.items()}
    assert totals == {"training": 9866, "validation": 3430, "evaluation": 3347}
    assert sum(totals.values()) == 16643
    assert {len(counts) for counts in REAL.values()} == {len(food11.CLASSES)} == {11}


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ("training/3_12.jpg", ("training", "class_03", "3_12.jpg")),
        ("Food-11/validation/10_7.jpg", ("validation", "class_10", "10_7.jpg")),
        ("training/class_00/12.jpg", ("training", "class_00", "12.jpg")),
        ("food11/evaluation/Noodles-Pasta/1.JPG", ("evaluation", "class_06", "1.JPG")),
        ("evaluation/Vegetable-Fruit/2.jpg", ("evaluation", "class_10", "2.jpg")),
        ("training/training/Dairy product/3.png", ("training", "class_01", "3.png")),
        ("training/11_3.jpg", None),
        ("training/class_11/3.jpg", None),
        ("training/pizza/3.jpg", None),
        ("training/Egg/more/3.jpg", None),
        ("training/3.jpg", None),
        ("3_12.jpg", None),
        ("training/3_12.txt", None),
        ("__MACOSX/training/3_12.jpg", None),
        ("training/._3_12.jpg", None),
        ("", None),
    ],
)
def test_an_entrys_name_says_where_the_picture_belongs(entry: str, place: object) -> None:
    assert food11.place(entry) == place


# Drawn


def test_drawn_pictures_have_the_layout_of_food_11(shelf: Shelf) -> None:
    made, new = draw_food11(shelf, 8)

    assert new
    assert made.folder == shelf.folder / "Food-11"
    assert made.counts == {
        split: dict.fromkeys(food11.FOLDERS, number)
        for split, number in (("training", 8), ("validation", 2), ("evaluation", 2))
    }
    assert (made.synthetic, made.missing, made.pictures) == (True, 0, 132)
    assert made.bytes == sum(path.stat().st_size for path in made.folder.rglob("*.png"))
    assert shelf.all() == (made,) == (shelf.get("food11"),)


def test_a_drawn_picture_is_a_png_file_that_holds_its_pixels(tmp_path: Path) -> None:
    draw(tmp_path, 1)
    content = (tmp_path / "training/class_04/4_0.png").read_bytes()

    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (SIDE, SIDE, 8, 2, 0, 0, 0)
    rows = zlib.decompress(chunks[b"IDAT"])
    assert len(rows) == SIDE * (1 + 3 * SIDE)
    assert {rows[at] for at in range(0, len(rows), 1 + 3 * SIDE)} == {0}


def test_the_same_pictures_are_drawn_each_time(tmp_path: Path) -> None:
    digests = [draw(tmp_path / name, 2) for name in "ab"]
    assert digests[0] == digests[1]
    first, again = ((tmp_path / name / "training/class_00/0_0.png").read_bytes() for name in "ab")
    assert first == again


def test_no_two_drawn_pictures_are_equal(tmp_path: Path) -> None:
    draw(tmp_path, 4)
    contents = [path.read_bytes() for path in tmp_path.rglob("*.png")]
    assert len(set(contents)) == len(contents) == 11 * (4 + 2 + 2)


@pytest.mark.parametrize("number", [0, -1, 2001])
def test_a_number_of_pictures_that_makes_no_sense_is_refused(shelf: Shelf, number: int) -> None:
    with pytest.raises(UsageError, match=f"--synthetic {number}"):
        draw_food11(shelf, number)
    assert not shelf.folder.exists()


def test_everybody_may_read_the_pictures_whatever_the_umask_is(shelf: Shelf) -> None:
    before = os.umask(0o077)
    try:
        made, _ = draw_food11(shelf, 1)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in made.folder.rglob("*.png")}
    folders = {
        path.stat().st_mode & 0o777 for path in [made.folder, *made.folder.rglob("*/")] if path.is_dir()
    }
    assert (modes, folders) == ({0o644}, {0o755})


# What a lesson needs


def test_a_lesson_gets_drawn_pictures_once_and_says_so(shelf: Shelf) -> None:
    said: list[str] = []
    first = ensure("food11", said.append, shelf)
    assert ensure("food11", said.append, shelf) == first
    assert len(said) == 1
    assert "drew 330 pictures" in said[0]


# Downloaded


def test_an_archive_becomes_a_folder_for_each_split_and_class(shelf: Shelf) -> None:
    made, new = get(shelf, Server(published()))

    assert new
    assert (made.pictures, made.split("training"), made.synthetic) == (PUBLISHED, 45, False)
    assert (made.source, made.sha256) == (URL, hashlib.sha256(published()).hexdigest())
    assert (made.folder / "training/class_03/3_2.jpg").read_text() == "training/3_2.jpg"
    assert names(shelf.folder) == {"Food-11"}, "the archive is not kept"


def test_what_is_there_is_not_got_again(shelf: Shelf) -> None:
    get(shelf, Server(published()))
    server = Server(b"")
    made, new = get(shelf, server)
    assert (new, server.asked, made.pictures) == (False, [], PUBLISHED)


def test_an_interrupted_download_leaves_no_data_set_and_is_gone_on_with(shelf: Shelf) -> None:
    def interrupt(phase: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(shelf, Server(published(), breaks=(1000,)), on_progress=interrupt)
    assert shelf.all() == ()
    server = Server(published())
    assert get(shelf, server)[0].pictures == PUBLISHED
    assert "Range" in server.asked[0]


def test_an_interrupt_while_unpacking_leaves_nothing_half_and_keeps_the_download(shelf: Shelf) -> None:
    def interrupt(phase: str, done: int, total: int) -> None:
        if phase == "unpack" and done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(shelf, Server(published()), on_progress=interrupt)
    assert names(shelf.folder) == {".downloads"}
    server = Server(b"")
    assert get(shelf, server)[0].pictures == PUBLISHED
    assert server.asked == []


def test_offline_every_address_is_named_with_the_way_out(shelf: Shelf) -> None:
    with pytest.raises(SetupError, match="cannot download Food-11") as caught:
        get(shelf, Server(b"", error=offline()), (URL, "https://mirror.org/f.zip"))
    assert URL in caught.value.message
    assert "https://mirror.org/f.zip" in caught.value.message
    assert "--synthetic 20" in caught.value.hint
    assert shelf.all() == ()


def test_the_next_address_is_asked_where_the_first_gives_nothing(shelf: Shelf) -> None:
    made, _ = get(shelf, Server(published(), answers=(404,)), (URL, "https://mirror.org/f.zip"))
    assert made.source == "https://mirror.org/f.zip"


def test_a_mistyped_checksum_costs_no_second_download(shelf: Shelf) -> None:
    with pytest.raises(SetupError, match=r"not 0000.* is kept") as caught:
        get(shelf, Server(published()), sha256="0" * 64)
    assert shelf.all() == ()
    assert shelf.arrived == len(published())
    assert "--sha256 says which one you want" in caught.value.hint
    (part,) = shelf.downloads.glob("*.part")
    assert f"delete {part}" in caught.value.hint
    server, wanted = Server(b""), hashlib.sha256(published()).hexdigest().upper()
    assert get(shelf, server, sha256=wanted)[1]
    assert server.asked == []


def test_a_secret_in_an_address_is_written_nowhere(shelf: Shelf) -> None:
    urls = ("https://me:passw0rd@example.org:444/food.zip?token=s3cret#s3cret",)

    def interrupt(phase: str, done: int, total: int) -> None:
        if phase == "unpack":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(shelf, Server(published()), urls, on_progress=interrupt)
    said = [path.read_bytes() for path in shelf.downloads.iterdir()]
    with pytest.raises(SetupError) as caught:
        get(shelf, Server(published()), urls, sha256="0" * 64)
    with pytest.raises(SetupError) as unreached:
        get(Shelf(shelf.folder.with_name("more")), Server(b"", error=offline()), urls)
    said += [path.read_bytes() for path in shelf.downloads.iterdir()]
    made, _ = get(shelf, Server(published()), urls)
    said += [
        (made.folder / "dataset.json").read_bytes(),
        str(caught.value).encode(),
        caught.value.hint.encode(),
    ]
    said += [str(unreached.value).encode()]
    assert made.source == "https://example.org:444/food.zip"
    assert not [text for text in said if b"s3cret" in text or b"passw0rd" in text]


@pytest.mark.parametrize("sha256", ["12", "g" * 64])
def test_what_is_no_checksum_is_refused_before_anything_is_asked(shelf: Shelf, sha256: str) -> None:
    server = Server(published())
    with pytest.raises(UsageError, match="not 64 hexadecimal digits"):
        get(shelf, server, sha256=sha256)
    assert server.asked == []


# Archives that are not what they should be


def damaged() -> bytes:
    content = bytearray(published())
    at = content.index(b"training/0_0.jpg" * 2) + 20
    content[at] ^= 0xFF
    return bytes(content)


def damaged_packing(kind: int, begins: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", kind) as made:
        for name in entries():
            made.writestr(name, name)
    content = bytearray(held.getvalue())
    at = content.index(begins) + len(begins)
    content[at : at + 9] = b"\xff" * 9
    return bytes(content)


def linked() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        link = zipfile.ZipInfo("training/0_0.jpg")
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
    return held.getvalue()


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "truncated": (lambda: published()[:-1000], "not a zip archive, or a damaged one"),
    "not a zip": (lambda: b"just text " * 100, "not a zip archive"),
    "damaged inside": (damaged, "damaged one: Bad CRC-32"),
    "damaged bzip2": (lambda: damaged_packing(zipfile.ZIP_BZIP2, b"BZh9"), "damaged one"),
    "damaged LZMA": (lambda: damaged_packing(zipfile.ZIP_LZMA, b"0_0.jpg"), "damaged one"),
    "upwards": (lambda: archive(added={"../../evil.jpg": b"x"}), "leads outside"),
    "from the root": (lambda: archive(added={"/training/0_0.jpg": b"x"}), "leads outside"),
    "by backslashes": (lambda: archive(added={"training\\..\\..\\0_0.jpg": b"x"}), "leads outside"),
    "a link": (linked, "is a link"),
    "something else": (lambda: archive(iter(["readme.txt"])), "holds no pictures in training"),
    "one too few": (
        lambda: archive(iter([*entries()][1:])),
        "holds 3 pictures in training/class_00, not 4",
    ),
    "in another class": (
        lambda: archive(iter(["training/1_9999.jpg", *[*entries()][1:]])),
        "holds 3 pictures in training/class_00, not 4",
    ),
    "twice": (
        lambda: archive(iter(["x/training/0_1.jpg", *[*entries()][1:]])),
        "holds some pictures twice",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_archive_that_is_not_food_11_leaves_nothing_behind(shelf: Shelf, case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(SetupError, match=message) as caught:
        get(shelf, Server(make()))
    assert "--from FILE" in caught.value.hint
    assert shelf.all() == ()
    assert names(shelf.downloads) == set(), "it would be gone on with for ever"
    assert not list(shelf.folder.parent.rglob("evil*"))


def test_a_full_disk_leaves_no_data_set_and_keeps_the_download(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "/data/x.jpg")

    monkeypatch.setattr("lab.ext.course.datasets.food11.store", full)
    with pytest.raises(SetupError, match=r"/data/x\.jpg: No space") as caught:
        get(shelf, Server(published()))
    assert caught.value.hint == "free some space"
    assert shelf.all() == ()
    assert len(names(shelf.downloads)) == 2


# From a file


def test_a_file_is_taken_and_kept(shelf: Shelf, tmp_path: Path) -> None:
    file = tmp_path / "food.zip"
    file.write_bytes(published())
    made, new = get_food11(shelf, file=file)
    assert (made.pictures, made.source, new) == (PUBLISHED, str(file), True)
    assert file.exists()
    with pytest.raises(NotFoundError, match="No such file"):
        get_food11(shelf, file=tmp_path / "none.zip", force=True)


# Something is there


def test_something_else_is_not_replaced_unless_forced(shelf: Shelf) -> None:
    draw_food11(shelf, 1)
    with pytest.raises(RefusedError, match="holds drawn pictures, not photographs"):
        get(shelf, Server(published()))
    made, new = get(shelf, Server(published()), force=True)
    assert (made.synthetic, new) == (False, True)
    with pytest.raises(RefusedError, match="holds photographs, not drawn pictures"):
        draw_food11(shelf, 1)
    assert draw_food11(shelf, 1, force=True)[0].pictures == 55
    assert names(shelf.folder) == {"Food-11"}


def test_another_number_of_drawn_pictures_is_not_taken_for_that_asked_for(shelf: Shelf) -> None:
    there, _ = draw_food11(shelf, 1)
    assert draw_food11(shelf, 1) == (there, False)
    with pytest.raises(RefusedError, match=r"drawn: 1 of each") as caught:
        draw_food11(shelf, 2)
    assert "drawn: 2 of each class" in caught.value.message
    assert "--force" in caught.value.hint
    assert shelf.get("food11") == there
    made, new = draw_food11(shelf, 2, force=True)
    assert (new, made.split("training")) == (True, 22)


def test_a_lesson_takes_drawn_pictures_of_any_number(shelf: Shelf) -> None:
    there, _ = draw_food11(shelf, 1)
    assert ensure("food11", lambda _: None, shelf) == there


def test_what_cannot_be_replaced_stays(shelf: Shelf) -> None:
    there, _ = draw_food11(shelf, 1)
    with pytest.raises(SetupError):
        get(shelf, Server(b"no zip"), force=True)
    assert shelf.get("food11") == there


def test_a_data_set_that_lost_pictures_is_noticed_and_not_taken_for_whole(shelf: Shelf) -> None:
    made, _ = draw_food11(shelf, 4)
    next(made.folder.rglob("*.png")).unlink()
    assert shelf.get("food11").missing == 1
    with pytest.raises(RefusedError, match="lacks 1 of its pictures"):
        draw_food11(shelf, 4)
    with pytest.raises(RefusedError, match="lacks 1 of its pictures"):
        ensure("food11", lambda _: None, shelf)
    assert draw_food11(shelf, 4, force=True)[0].missing == 0


def test_pictures_that_somebody_put_there_are_a_data_set_of_unknown_source(shelf: Shelf) -> None:
    place = model.make_folder(shelf.folder / "Food-11/training/class_00")
    model.store(place / "a.jpg", b"jpeg")
    dataset = shelf.get("Food-11")
    assert (dataset.pictures, dataset.source, dataset.synthetic, dataset.bytes) == (1, "", False, 4)
    assert ensure("food11", lambda _: None, shelf) == dataset


def test_what_a_labctl_that_was_killed_left_is_cleared_away(shelf: Shelf) -> None:
    for left in (".old-Food-11", ".new-Food-11"):
        model.make_folder(shelf.folder / left / "training")
    assert draw_food11(shelf, 1)[1]
    assert names(shelf.folder) == {"Food-11"}


def test_one_labctl_at_a_time_changes_data_sets(shelf: Shelf) -> None:
    with shelf.busy(), pytest.raises(SetupError, match="busy with the data sets"):
        draw_food11(Shelf(shelf.folder), 1)


def test_the_lock_lies_outside_of_what_containers_mount_and_is_the_owners(shelf: Shelf) -> None:
    before = os.umask(0o022)
    try:
        with shelf.busy():
            assert names(shelf.folder) == set()
    finally:
        os.umask(before)
    assert (shelf.folder.parent / ".data.lock").stat().st_mode & 0o777 == 0o600


def test_a_link_that_leads_nowhere_and_a_folder_named_like_a_picture_are_no_pictures(shelf: Shelf) -> None:
    made, _ = draw_food11(shelf, 4)
    one = made.folder / "training/class_00/0_0.png"
    one.unlink()
    one.symlink_to(made.folder / "nowhere.png")
    (one.parent / "folder.png").mkdir()
    (made.folder / "training/class_99").symlink_to(made.folder / "nowhere")
    dataset = shelf.get("food11")
    assert (dataset.missing, dataset.pictures) == (1, made.pictures - 1)


@pytest.mark.parametrize(
    "said", ['{"counts": [1]}', '{"counts": {"training": 5}}', '{"counts": {"training": {"a": "b"}}}', "[1]"]
)
def test_a_manifest_that_somebody_broke_says_nothing(shelf: Shelf, said: str) -> None:
    made, _ = draw_food11(shelf, 4)
    (made.folder / "dataset.json").write_text(said)
    assert (shelf.get("food11").missing, shelf.get("food11").source) == (0, "")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="file") as caught:
        draw_food11(Shelf(tmp_path / "file" / "data"), 1)
    assert "RAYLAB_HOME" in caught.value.hint


# Removed


def downloaded(shelf: Shelf, *files: str) -> None:
    folder = model.make_folder(shelf.downloads)
    for file in files:
        (folder / file).write_bytes(b"12345")


PART = "Food-11-0123abcd.zip.part"


def test_a_removed_data_set_takes_its_downloads_along_and_another_one_does_not(shelf: Shelf) -> None:
    there, _ = draw_food11(shelf, 1)
    other = model.make_folder(shelf.folder / "mine")
    downloaded(shelf, PART, f"{PART}.json")
    shelf.remove("mine")
    assert (other.exists(), shelf.arrived) == (False, 5)
    assert shelf.remove("food11") == there
    assert (shelf.all(), shelf.arrived) == ((), 0)
    with pytest.raises(NotFoundError, match="'food11'"):
        shelf.remove("food11")


def test_a_download_without_a_data_set_is_known_and_can_be_removed(shelf: Shelf) -> None:
    downloaded(shelf, PART, f"{PART}.json", "Food-11-00000000.zip.part")
    assert shelf.downloaded("food11") == shelf.arrived == 10
    assert shelf.remove("food11") is None
    with pytest.raises(NotFoundError, match="'food11'"):
        shelf.remove("food11")


def test_after_a_success_no_part_from_any_address_stays(shelf: Shelf, tmp_path: Path) -> None:
    downloaded(shelf, PART)
    get(shelf, Server(published()))
    assert names(shelf.downloads) == set()
    downloaded(shelf, PART)
    (tmp_path / "food.zip").write_bytes(published())
    get_food11(shelf, file=tmp_path / "food.zip", force=True)
    assert names(shelf.downloads) == set()


def test_a_link_to_data_elsewhere_is_removed_and_the_data_are_not(shelf: Shelf, tmp_path: Path) -> None:
    elsewhere = draw_food11(Shelf(tmp_path / "other"), 1)[0].folder
    shelf.folder.mkdir(parents=True)
    (shelf.folder / "Food-11").symlink_to(elsewhere)
    shelf.remove("food11")
    assert not (shelf.folder / "Food-11").exists()
    assert len(list(elsewhere.rglob("*.png"))) == 55
