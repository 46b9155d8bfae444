"""The base image of a place without a registry: from whatever form the machine's apt sources have."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import UnsupportedError
from lab.runtime.compose.images import base, building
from lab.runtime.compose.images.base import AptSource, Host
from tests.unit.runtime.compose.images.fake_engine import FakeDocker, quiet

DEB822 = """# a comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://off.example
Suites: bookworm
Components: main
"""
ONE_LINE = """# deb http://off.example bookworm main
deb [arch=amd64 signed-by=/etc/apt/keyrings/company.gpg] https://mirror.test/debian bookworm main contrib # x
deb-src http://mirror.example/debian bookworm main
deb https://tools.example stable main
"""


def host(tmp_path: Path, *, uid: int = 0, present: bool = True, release: str = "ID=debian") -> Host:
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True, exist_ok=True)
    (tmp_path / "etc/os-release").write_text(f'{release}\nVERSION_CODENAME="bookworm"\n')
    return Host(tmp_path, lambda _: "/usr/bin/mmdebstrap" if present else None, lambda: uid)


def test_both_forms_of_apt_sources_are_read(tmp_path: Path) -> None:
    root = host(tmp_path).root
    (root / "etc/apt/sources.list").write_text(ONE_LINE)
    (root / "etc/apt/sources.list.d/debian.sources").write_text(DEB822)
    chosen = base.of_suite(base.sources(root), "bookworm", "bookworm")
    assert chosen == (
        AptSource("https://mirror.test/debian", "bookworm", ("main",), "/etc/apt/keyrings/company.gpg"),
        AptSource("http://mirror.example/debian", "bookworm", ("main",), base.DEBIAN_KEYRING),
        AptSource("http://mirror.example/debian", "bookworm-updates", ("main",), base.DEBIAN_KEYRING),
        AptSource("http://mirror.example/security", "bookworm-security", ("main",)),
    )


def test_another_release_is_taken_from_the_same_mirrors(tmp_path: Path) -> None:
    (host(tmp_path).root / "etc/apt/sources.list.d/debian.sources").write_text(DEB822)
    chosen = base.of_suite(base.sources(tmp_path), "trixie", "bookworm")
    assert [(source.uri, source.suite) for source in chosen] == [
        ("http://mirror.example/debian", "trixie"),
        ("http://mirror.example/debian", "trixie-updates"),
        ("http://mirror.example/security", "trixie-security"),
    ]


def test_the_base_is_made_of_these_sources_and_imported(tmp_path: Path) -> None:
    here = host(tmp_path)
    (tmp_path / "etc/apt/sources.list").write_text(ONE_LINE)
    docker = FakeDocker()
    written: list[str] = []

    def look(words: tuple[str, ...]) -> None:
        if words[0] == "mmdebstrap":
            written.append(Path(words[-1]).read_text())

    docker.on_call = look
    assert base.make_base("", docker.engine, quiet(), here) == "raylab/base:bookworm"
    (made,) = docker.calls("mmdebstrap")
    assert made[-3] == "bookworm"
    assert "--keyring=/etc/apt/keyrings/company.gpg" in made
    assert written == ["deb https://mirror.test/debian bookworm main\n"]
    assert docker.calls("import") == [("import", made[-2], "raylab/base:bookworm")]


def test_one_usr_is_made_by_the_hook_of_mmdebstrap_where_it_has_one(tmp_path: Path) -> None:
    def argv() -> list[str]:
        return base.command("bookworm", tmp_path / "base.tar", tmp_path / "list", (), tmp_path)

    assert f"--include={base.INCLUDE}" in argv()
    (tmp_path / base.MERGED).mkdir(parents=True)
    assert {f"--include={base.INCLUDE},usr-is-merged", f"--hook-dir={tmp_path / base.MERGED}"} <= set(argv())


def test_a_base_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    (host(tmp_path).root / "etc/apt/sources.list").write_text(ONE_LINE)
    docker = FakeDocker("raylab/base:bookworm")
    base.make_base("bookworm", docker.engine, quiet(), host(tmp_path))
    assert not docker.calls("mmdebstrap")


def test_the_offline_build_makes_the_stand_ins_too_on_that_base(tmp_path: Path) -> None:
    (host(tmp_path).root / "etc/apt/sources.list").write_text(ONE_LINE)
    docker = FakeDocker()
    machine = building.BuildMachine(environ={}, host=host(tmp_path), python="python3")
    built = building.build("cpu", offline=True, engine=docker.engine, progress=quiet(), machine=machine)
    assert [file.name.partition(":")[0] for file in built] == [
        "raylab/prometheus-standin",
        "raylab/proxy-standin",
        "raylab/s3-standin",
        "raylab/ray",
    ]
    for words in docker.calls("buildx", "build"):
        assert "BASE_IMAGE=raylab/base:bookworm" in words


@pytest.mark.parametrize(
    ("suite", "change", "message", "hint"),
    [
        ("", {"present": False}, "mmdebstrap", "apt-get install mmdebstrap"),
        ("", {"uid": 1000}, "only root", "sudo"),
        ("", {"release": "ID=fedora"}, "not Debian", "--suite"),
        ("Bookworm;x", {}, "not the name of a release", "--suite"),
        ("bookworm", {"release": "ID=fedora"}, "no apt source", "/etc/apt"),
    ],
)
def test_what_stands_in_the_way_is_said_before_anything_is_made(
    tmp_path: Path, suite: str, change: dict[str, object], message: str, hint: str
) -> None:
    docker = FakeDocker()
    here = host(tmp_path, **change)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError) as caught:
        base.make_base(suite, docker.engine, quiet(), here)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert not docker.journal
