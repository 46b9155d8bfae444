"""Folders as they are packed: what Ray's own client would send, its limits, and what cannot be read."""

from __future__ import annotations

import io
import os
import re
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.cluster import packing
from lab.cluster.packing import (
    DEFAULT_EXCLUDES,
    DEFAULT_EXCLUDES_VARIABLE,
    MAX_PACKAGE_BYTES,
    NO_GITIGNORE_VARIABLE,
    left_out,
    module_package,
    package,
    packed,
)
from lab.errors import NotFoundError, UsageError


def names(data: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(data)).namelist()


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


# As Ray's client packs


def rays(folder: Path, excludes: list[str], include_gitignore: bool) -> set[str]:
    """Names in the package that Ray 2.60 makes of a folder."""
    from ray._private.runtime_env.packaging import create_package

    with tempfile.TemporaryDirectory() as target:
        file = Path(target, "package.zip")
        default = [*DEFAULT_EXCLUDES.split(","), *packing.CACHES]
        create_package(str(folder), file, include_gitignore, excludes=[*default, *excludes])
        return set(names(file.read_bytes())) - {"./"}


NAMES = st.sampled_from(["a", "b", "data", "keep.py", "x.log", "two words", ".hidden", "venv", "[a]", "#a"])
PIECES = st.sampled_from(
    [*"ab*?/!#\\[]^-. ", "**", "data", "keep.py", "*.log", "[a-b]", "[!a]", "/**/", "two words", ".hidden"]
)
LINES = st.lists(PIECES, min_size=1, max_size=5).map("".join)
IGNORED = st.lists(LINES, max_size=4).map("\n".join)
TREE = st.recursive(
    st.none() | st.just("text"),
    lambda inner: st.fixed_dictionaries({}, optional={".gitignore": IGNORED, ".rayignore": IGNORED}).flatmap(
        lambda files: st.dictionaries(NAMES, inner, max_size=4).map(lambda more: {**files, **more})
    ),
    max_leaves=12,
)


def grow(tree: Any, path: Path) -> None:
    """Make a generated tree: text is a file, None an empty folder."""
    if isinstance(tree, str):
        path.write_text(tree)
        return
    path.mkdir(exist_ok=True)
    for name, inner in (tree or {}).items():
        grow(inner, path / name)


@settings(max_examples=400, deadline=None)
@given(
    tree=TREE.filter(lambda tree: isinstance(tree, dict)),
    excludes=st.lists(LINES, max_size=2),
    git=st.booleans(),
)
def test_the_same_is_sent_as_by_rays_own_client(tree: Any, excludes: list[str], git: bool) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        patch.setenv(NO_GITIGNORE_VARIABLE, "0" if git else "1")
        folder = Path(name)
        grow(tree, folder)
        try:
            expected = rays(folder, excludes, git)
        except (re.error, IndexError):
            with pytest.raises(UsageError, match="not a pattern"):
                package(folder, excludes)
            return
        assert set(names(package(folder, excludes))) == expected
        for path in folder.rglob("*"):
            if path.is_file():
                sent = path.relative_to(folder).as_posix() in expected
                assert bool(left_out(path, folder, excludes)) is not sent, path


@settings(max_examples=1000, deadline=None)
@given(text=st.lists(PIECES, min_size=1, max_size=8).map("".join))
def test_a_pattern_means_what_it_means_to_ray(text: str) -> None:
    from ray._private.thirdparty.pathspec.patterns.gitwildmatch import GitWildMatchPattern

    try:
        expression, excludes = GitWildMatchPattern.pattern_to_regex(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(expression or "")
    except (re.error, IndexError):
        with pytest.raises(UsageError, match="not a pattern"):
            packing.patterns([text], Path(), "x")
        return
    made = [(p.pattern, e) for _, p, e in packing.patterns([text], Path(), "x").patterns]
    assert made == ([] if expression is None else [(expression, excludes)])


def test_a_pattern_that_matches_the_folder_itself_leaves_all_of_it_out(tmp_path: Path) -> None:
    """As in Ray 2.60: `*` with `!train.py` after it sends nothing."""
    write(tmp_path, {"train.py": "", "a/b.py": "", ".gitignore": "*\n!train.py\n"})
    assert names(package(tmp_path)) == [] == sorted(rays(tmp_path, [], True))
    assert left_out(tmp_path / "train.py", tmp_path) == f"{tmp_path / '.gitignore'}: *"


def test_rays_own_list_can_be_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "", "venv/x": "", ".git/x": "", "a/__pycache__/x": "", ".mypy_cache/x": ""})
    assert names(package(tmp_path)) == ["train.py"]
    monkeypatch.setenv(DEFAULT_EXCLUDES_VARIABLE, "venv, __pycache__")
    assert names(package(tmp_path)) == [".git/x", "train.py"]
    monkeypatch.setenv(DEFAULT_EXCLUDES_VARIABLE, "")
    assert names(package(tmp_path)) == [".git/x", "a/__pycache__/x", "train.py", "venv/x"]


def test_links_to_folders_are_followed_as_by_ray_but_not_in_a_circle(tmp_path: Path) -> None:
    write(tmp_path, {"elsewhere/a.csv": "", "code/train.py": ""})
    folder = tmp_path / "code"
    (folder / "data").symlink_to(tmp_path / "elsewhere")
    (folder / "broken").symlink_to(tmp_path / "nowhere")
    assert set(names(package(folder))) == rays(folder, [], True) == {"data/a.csv", "train.py"}
    (folder / "self").symlink_to(folder)
    (tmp_path / "elsewhere" / "back").symlink_to(folder)
    assert names(package(folder)) == ["data/a.csv", "train.py"]


def test_an_empty_folder_is_sent(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": ""})
    (tmp_path / "out" / "logs").mkdir(parents=True)
    assert names(package(tmp_path)) == ["out/logs/", "train.py"]
    with zipfile.ZipFile(io.BytesIO(package(tmp_path))) as archive, tempfile.TemporaryDirectory() as target:
        archive.extractall(target)
        assert Path(target, "out", "logs").is_dir()


# Its bytes


def test_a_package_holds_the_files_and_leaves_caches_out(tmp_path: Path) -> None:
    for name in ("train.py", "data/a.txt", ".git/config", "x/__pycache__/y.pyc", ".venv/bin/python", ".env"):
        write(tmp_path, {name: name})
    assert names(package(tmp_path)) == [".env", "data/a.txt", "train.py"]


def test_what_is_left_out_is_not_looked_through(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A `.venv` with PyTorch has 80,000 files."""
    write(tmp_path, {".venv/lib/a": "", "code/a": "", "data/b/c": "", ".rayignore": "data"})
    listed, scandir = list[str](), os.scandir

    def watched(path: Any) -> Any:
        listed.append(Path(path).name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    package(tmp_path)
    assert listed == [tmp_path.name, "code"]


def test_equal_content_gives_equal_bytes_whatever_its_age(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path, {f"{name}/train.py": "print()"})
    os.utime(tmp_path / "b" / "train.py", (0, 0))

    assert package(tmp_path / "a") == package(tmp_path / "b")
    (tmp_path / "b" / "train.py").chmod(0o755)
    assert package(tmp_path / "a") != package(tmp_path / "b")


def test_an_archive_is_sent_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, {"code/train.py": "", "code.tar.gz": ""})
    (tmp_path / "code.zip").write_bytes(package(tmp_path / "code"))
    assert package(tmp_path / "code.zip") == package(tmp_path / "code")
    with pytest.raises(NotFoundError, match="neither a folder nor"):
        package(tmp_path / "code.tar.gz")


def test_modules_are_packed_for_import(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"mylib/__init__.py": "", "mylib/data.csv": "", "one.py": "X = 1", "a-1-py3-none-any.whl": "w"},
    )
    folder = module_package(tmp_path / "mylib", ["*.csv"])
    assert (folder[0], names(folder[1])) == (".zip", ["mylib/__init__.py"])
    assert names(module_package(tmp_path / "one.py")[1]) == ["one.py"]
    assert module_package(tmp_path / "a-1-py3-none-any.whl") == ("a-1-py3-none-any.whl", b"w")


# What cannot be sent


def test_the_limit_that_is_said_holds_to_the_byte(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").write_bytes(os.urandom(5000))
    size = len(package(tmp_path))
    monkeypatch.setattr(packing, "MAX_PACKAGE_BYTES", size)
    assert len(package(tmp_path)) == size
    monkeypatch.setattr(packing, "MAX_PACKAGE_BYTES", size - 1)
    with pytest.raises(UsageError, match="larger than"):
        package(tmp_path)


def test_the_limit_is_that_of_rays_dashboard() -> None:
    from ray._private import ray_constants

    assert MAX_PACKAGE_BYTES == ray_constants.DASHBOARD_CLIENT_MAX_SIZE


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        package(tmp_path / "nope")


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("")

    def denied(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lab.cluster.packing.read_bytes", denied)
    with pytest.raises(UsageError, match=r"secret.*Permission denied"):
        package(tmp_path)


def test_a_folder_that_cannot_be_listed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its files would be missing without a word."""

    def denied(path: object) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("lab.cluster.packing.os.scandir", denied)
    with pytest.raises(UsageError, match=r"cannot read .*: Permission denied"):
        list(packed(tmp_path))


def test_an_ignore_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"\.gitignore: not text"):
        package(tmp_path)


def test_a_file_that_takes_no_room_on_the_disk_is_not_packed(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(UsageError, match=r"1024 MiB: .*sparse"):
        package(tmp_path)


def test_a_name_that_is_not_utf_8_cannot_be_packed(tmp_path: Path) -> None:
    (tmp_path / "a\udcff").touch()
    with pytest.raises(UsageError, match="not UTF-8"):
        package(tmp_path)
