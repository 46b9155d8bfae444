"""Images in a file: whole or not there; and nothing but an image archive is taken in."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import itertools
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError, NotFoundError, RefusedError, SetupError, UsageError
from lab.flows.images import archive
from lab.host.environment.progress import Printer
from lab.runtime.compose.images.model import ImageNeed, kept_name
from tests.unit.runtime.compose.images.fake_engine import FakeDocker, archive_of, quiet

PINNED = f"quay.io/minio/minio:R1@sha256:{'a' * 64}"
OWN = "raylab/ray:1"
NEEDS = (
    ImageNeed(OWN, "nodes", "LAB_IMAGE", own=True, present=True, local_name=OWN, size=4),
    ImageNeed(PINNED, "minio", "LAB_S3_IMAGE", present=True, local_name=PINNED, size=5),
)
NAMES = (OWN, kept_name(PINNED))


@pytest.mark.parametrize("name", ["images.tar", "images.tar.gz", "images.tgz"])
def test_what_is_saved_can_be_loaded(tmp_path: Path, name: str) -> None:
    docker = FakeDocker(OWN, PINNED)
    docker.archive = archive_of(*NAMES)
    saved = archive.save(tmp_path / name, NEEDS, docker.engine, quiet())
    assert saved.images == NAMES
    assert saved.size == (tmp_path / name).stat().st_size
    assert docker.calls("tag") == [("tag", PINNED, kept_name(PINNED))]
    assert docker.calls("save") == [("save", *NAMES)]
    assert ((tmp_path / name).read_bytes()[:2] == b"\x1f\x8b") is not name.endswith(".tar")
    loaded = archive.load(tmp_path / name, docker.engine, quiet())
    assert loaded.images == NAMES
    assert docker.calls("load") == [("load", "--input", str(tmp_path / name))]


def test_an_image_that_came_out_of_an_archive_is_saved_under_the_same_name(tmp_path: Path) -> None:
    docker = FakeDocker(kept_name(PINNED))
    docker.archive = archive_of(kept_name(PINNED))
    need = ImageNeed(PINNED, "minio", "LAB_S3_IMAGE", present=True, local_name=kept_name(PINNED))
    archive.save(tmp_path / "i.tar", [need], docker.engine, quiet())
    assert not docker.calls("tag")


def test_nothing_is_written_while_an_image_is_missing(tmp_path: Path) -> None:
    docker = FakeDocker(OWN)
    absent = ImageNeed(PINNED, "minio", "LAB_S3_IMAGE")
    with pytest.raises(RefusedError) as caught:
        archive.save(tmp_path / "i.tar", [NEEDS[0], absent], docker.engine, quiet())
    assert PINNED in caught.value.message
    assert "`labctl images pull`" in caught.value.hint
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("broken", ["the engine fails", "an image is left out", "cut off", "interrupted"])
def test_a_partial_file_is_never_left(tmp_path: Path, broken: str) -> None:
    docker = FakeDocker(OWN, PINNED)
    whole = archive_of(*NAMES)
    docker.archive = {"an image is left out": archive_of(OWN), "cut off": whole[:700]}.get(broken, whole)
    docker.save_code = int(broken == "the engine fails")
    progress = quiet()
    if broken == "interrupted":

        def interrupt(line: str) -> None:
            raise KeyboardInterrupt

        progress = Printer(interrupt, clock=itertools.count(step=100).__next__)
    (tmp_path / "i.tar").write_text("the former one")
    with pytest.raises((SetupError, UsageError, KeyboardInterrupt)):
        archive.save(tmp_path / "i.tar", NEEDS, docker.engine, progress)
    assert [path.name for path in tmp_path.iterdir()] == ["i.tar"]
    assert (tmp_path / "i.tar").read_text() == "the former one"


def test_a_folder_that_is_not_there_and_a_folder_as_file_are_refused(tmp_path: Path) -> None:
    docker = FakeDocker(OWN, PINNED)
    with pytest.raises(NotFoundError, match="no folder"):
        archive.save(tmp_path / "none" / "i.tar", NEEDS, docker.engine, quiet())
    with pytest.raises(UsageError, match="is a folder"):
        archive.save(tmp_path, NEEDS, docker.engine, quiet())


@pytest.mark.parametrize("content", [b"hello", b"", gzip.compress(b"hello"), archive_of(OWN)[:600]])
def test_what_is_no_image_archive_never_reaches_the_engine(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "i.tar").write_bytes(content)
    docker = FakeDocker()
    with pytest.raises(UsageError, match="not an image archive"):
        archive.load(tmp_path / "i.tar", docker.engine, quiet())
    assert not docker.journal


def test_a_compressed_archive_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(archive_of(*NAMES))
    (tmp_path / "i.tar.gz").write_bytes(packed[:-20])
    with pytest.raises(UsageError, match="incomplete"):
        archive.read(tmp_path / "i.tar.gz")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no file .*/i\.tar"):
        archive.load(tmp_path / "i.tar", FakeDocker().engine, quiet())


def tar(*entries: tuple[str, bytes]) -> bytes:
    """A tar of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as written:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            written.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        tar(),
        tar(("a", b"x")),
        *(
            tar(("manifest.json", manifest))
            for manifest in (b"[]", b"{}", b"null", b"5", b"[1]", b"[" * 200_000, b'[{"RepoTags": null}]')
        ),
        gzip.compress(b"\0" * 20_000),
        gzip.compress(tar(("a", b"x")))[:60],
        b"\x1f\x8b\x08\0\0\0\0\0\0\3" + b"\xff" * 900,
        b"\xfd7zXZ\0" + b"\xff" * 900,
        b"BZh9" + b"\xff" * 900,
    ],
)
def test_an_archive_without_an_image_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "i.tar").write_bytes(content)
    docker = FakeDocker()
    with pytest.raises(UsageError, match="not an image archive"):
        archive.load(tmp_path / "i.tar", docker.engine, quiet())
    assert not docker.calls("load")


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0, **pax: str
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size, made.pax_headers = kind, link, size, pax
    return made


def headers(*entries: tarfile.TarInfo) -> bytes:
    """A tar of these headers, whatever they say, and no data but that of its own."""
    return b"".join(entry.tobuf(tarfile.GNU_FORMAT) for entry in entries) + tar(("manifest.json", MANIFEST))


MANIFEST = b'[{"RepoTags": ["raylab/ray:1"]}]'
LINKS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE)


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("target", ["other.json", "manifest.json", "nowhere", "/etc/passwd", "../../x"])
def test_a_manifest_that_is_no_file_is_refused(tmp_path: Path, kind: bytes, target: str) -> None:
    (tmp_path / "i.tar").write_bytes(
        entry("other.json").tobuf() + entry("manifest.json", kind, target).tobuf() + tar()
    )
    docker = FakeDocker()
    with pytest.raises(UsageError, match=r"manifest\.json"):
        archive.load(tmp_path / "i.tar", docker.engine, quiet())
    assert not docker.calls("load")


@pytest.mark.parametrize(
    "content",
    [
        headers(entry("a", size=-512)),  # tarfile read it again and again
        headers(entry("a", tarfile.XHDTYPE, size=-512)),
        headers(entry("a", tarfile.XHDTYPE, size=1 << 40)),
        headers(entry("a", tarfile.GNUTYPE_LONGNAME, size=1 << 40)),
        tar(("manifest.json", b'[{"RepoTags": "raylab/ray:1\\n"}]')),
        tar(("manifest.json", b'[{"RepoTags": ["\\u001b[2J"]}]')),
        tar(("manifest.json", b'[{"RepoTags": [7]}]')),
    ],
)
def test_an_archive_that_makes_no_sense_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "i.tar").write_bytes(content)
    with pytest.raises(UsageError, match="not an image archive"):
        archive.read(tmp_path / "i.tar")


WHOLE = tar(("layer", b"x" * 700), ("manifest.json", MANIFEST))


@given(
    changes=st.lists(st.tuples(st.integers(0, 1700), st.binary(min_size=1, max_size=24)), max_size=4),
    packing=st.sampled_from([bytes, gzip.compress, bz2.compress, lzma.compress]),
    cut=st.integers(0, 4000),
)
def test_a_damaged_archive_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, bytes]],
    packing: Callable[[bytes], bytes],
    cut: int,
) -> None:
    content = bytearray(WHOLE)
    for at, data in changes:
        content[at : at + len(data)] = data
    path = tmp_path_factory.getbasetemp() / "damaged.tar"
    path.write_bytes(packing(bytes(content))[: cut if cut % 2 else None] or b"x")
    with contextlib.suppress(LabError):
        archive.read(path)


def test_a_pipe_is_no_image_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "i.tar")
    with pytest.raises(UsageError, match="not a regular file"):
        archive.load(tmp_path / "i.tar", FakeDocker().engine, quiet())


def test_a_huge_file_of_nothing_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "i.tar").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(UsageError, match="not an image archive"):
        archive.load(tmp_path / "i.tar", FakeDocker().engine, quiet())
