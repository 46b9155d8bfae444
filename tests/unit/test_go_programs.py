"""Programs that are built with Go: once for a version, and what is told where it cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from select import select
from typing import Any

import pytest

from lab.errors import SetupError, UnsupportedError
from lab.runtime.compose.images.model import ALERTMANAGER_IMAGE, PROMETHEUS_IMAGE, S3_IMAGE, defaults
from tests.built import ALERTMANAGER, PROMETHEUS, ModuleProgram
from tests.conftest import ROOT
from tests.go_programs import (
    MINIO,
    MINIO_RELEASE,
    Machine,
    Program,
    SourcesError,
    build,
)

TOOL = Program("tool", "example.org/tool/cmd/tool", "v1.2.3", {"main.version": "1.2.3"})
OF_MODULE = ModuleProgram(**vars(TOOL), module="example.org/tool")


class Go:
    """A machine whose `go` makes the program, or says why not."""

    def __init__(self, output: str = "", fails: str = "", raises: Exception | None = None) -> None:
        """`fails` is the step that fails, `download` or `build`: with this output, or raising this."""
        self.output, self.fails, self.raises = output, fails, raises
        self.calls: list[tuple[tuple[str, ...], dict[str, str]]] = []
        self.machine = Machine(which=lambda name: f"/bin/{name}", run=self.run, environ={"GOFLAGS": "-x"})

    def run(
        self, argv: Sequence[str], on_line: Callable[[str], None], **options: Any
    ) -> subprocess.CompletedProcess[str]:
        self.calls.append((tuple(argv), dict(options["env"])))
        step = "download" if "-n" in argv else "build"
        if step == self.fails:
            if self.raises is not None:
                raise self.raises
            return subprocess.CompletedProcess(argv, 1, self.output)
        if step == "build":
            Path(options["env"]["GOBIN"], "tool").write_text("program")
        return subprocess.CompletedProcess(argv, 0, "mkdir -p $WORK/b001/\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "raylab" / "programs"


def test_a_program_is_built_once_and_kept_by_its_version(folder: Path) -> None:
    go, said = Go(), list[str]()
    path = build(TOOL, said.append, go.machine)
    assert path == folder / "tool-v1.2.3" / "tool"
    assert path.read_text() == "program"
    assert build(TOOL, said.append, go.machine) == path
    ((before, _), (argv, environment)) = go.calls
    assert (argv[:2], before) == (("go", "install"), (*argv[:2], "-n", *argv[2:]))
    assert argv[-1] == "example.org/tool/cmd/tool@v1.2.3"
    assert "-X main.version=1.2.3" in argv[argv.index("-ldflags") + 1]
    assert (environment["CGO_ENABLED"], environment["GOFLAGS"]) == ("0", "-x")
    assert said == ["building tool v1.2.3 with Go, which takes minutes the first time"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_a_build_does_not_outlive_the_labctl_that_is_killed() -> None:
    """The pipe ends once nobody has it: neither labctl nor what it has started."""
    build = "import os, threading; os.write({}, b'.'); threading.Event().wait(120)"
    reader, writer = os.pipe()
    labctl = "from tests.go_programs import run_bound; import sys; "
    labctl += f"run_bound([sys.executable, '-c', {build.format(writer)!r}], print, pass_fds=[{writer}])"
    with subprocess.Popen([sys.executable, "-c", labctl], pass_fds=[writer], cwd=ROOT) as killed:
        os.close(writer)
        assert os.read(reader, 1) == b"."
        killed.kill()
    assert select([reader], [], [], 60)[0], "it goes on"
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_module_that_go_install_refuses_is_built_in_its_own_folder(folder: Path) -> None:
    program, calls = built_of(folder, OF_MODULE, {"Dir": "/mod/tool"})
    (download, _), (listed, _), (made, environment) = calls
    assert program == "program"
    assert download == ("go", "mod", "download", "-json", "example.org/tool@v1.2.3")
    assert listed == (*made[:4], "-n", *made[4:])
    assert made[:4] == ("go", "build", "-C", "/mod/tool")
    assert made[-1] == "./cmd/tool"
    assert environment["GOWORK"] == "off"


def test_files_that_a_module_lacks_are_added_to_a_copy_of_it(folder: Path, tmp_path: Path) -> None:
    """Go's own copy of a module is read-only, and Go replaces no file of it in a build."""
    module = tmp_path / "mod"
    (module / "ui").mkdir(parents=True)
    (module / "ui" / "embed.go").write_text("package ui")
    (module / "ui").chmod(0o555)
    own = replace(OF_MODULE, added={"ui/app/index.html": "a page"})
    _, calls = built_of(folder, own, {"Dir": str(module)})
    made = calls[-1][0]
    assert made[3] != str(module)
    assert not (module / "ui" / "app").exists()


def built_of(
    folder: Path, program: ModuleProgram, module: dict[str, str]
) -> tuple[str, list[tuple[tuple[str, ...], dict[str, str]]]]:
    """What is built of a module that Go says to be there, and the calls of Go."""
    go = Go()

    def run(argv: Sequence[str], on_line: Callable[[str], None], **options: Any) -> Any:
        options["env"].setdefault("GOBIN", str(folder))
        ended = go.run(argv, on_line, **options)
        if argv[1] == "mod":
            ended.stdout = f"go: downloading example.org/tool v1.2.3\n{json.dumps(module)}"
        elif "-n" not in argv:
            for name, text in program.added.items():
                assert Path(argv[3], name).read_text() == text
            Path(argv[argv.index("-o") + 1]).write_text("program")
        return ended

    return build(program, lambda _: None, replace(go.machine, run=run)).read_text(), go.calls


def test_build_tags_and_programs_of_one_module_are_told_to_go() -> None:
    assert "-tags" not in TOOL.argv
    tagged = replace(OF_MODULE, tags=("a", "b")).options
    assert tagged[tagged.index("-tags") + 1] == "a,b"


@pytest.mark.parametrize(
    ("program", "variable"), [(PROMETHEUS, PROMETHEUS_IMAGE), (ALERTMANAGER, ALERTMANAGER_IMAGE)]
)
def test_prometheus_and_alertmanager_are_the_releases_of_their_images(
    program: Program, variable: str
) -> None:
    (release,) = program.variables.values()
    assert f":v{release}@sha256:" in defaults()[variable]
    assert program.version in (f"v{release}", "v0." + "{}{:0>2}.{}".format(*release.split(".")))


def test_one_that_is_there_needs_no_go(folder: Path) -> None:
    build(TOOL, lambda _: None, Go().machine)
    assert build(TOOL, lambda _: None, Machine(which=lambda _: None)).is_file()


def test_a_machine_without_go_is_told(folder: Path) -> None:
    with pytest.raises(UnsupportedError, match="no `go` on PATH"):
        build(TOOL, lambda _: None, Machine(which=lambda _: None))
    assert not folder.exists()


def test_a_cache_that_cannot_be_is_told(folder: Path) -> None:
    folder.parent.write_text("a file")
    with pytest.raises(SetupError, match="cannot write to ") as caught:
        build(TOOL, lambda _: None, Go().machine)
    assert "XDG_CACHE_HOME" in caught.value.hint


HANGS = subprocess.TimeoutExpired((), 1)


@pytest.mark.parametrize(
    ("go", "kind", "message"),
    [
        (
            Go("go: downloading example.org/x v1\ncmd/tool/main.go:7:2: undefined: x\n", "build"),
            SetupError,
            "tool cannot be built: cmd/tool/main.go:7:2: undefined: x",
        ),
        (Go("", "build"), SetupError, "tool cannot be built: exit code 1"),
        (Go("dial tcp: in the name of a test\n", "build"), SetupError, "tool cannot be built: dial tcp"),
        (Go("", "download", OSError(8, "Exec format error")), SetupError, "Exec format error"),
        (Go("", "build", HANGS), SetupError, "tool cannot be built: not built after 1 h"),
        (Go("", "download", HANGS), SourcesError, "its sources are not here after 30 min"),
        (
            Go("go: example.org/tool@v1.2.3: dial tcp: no route to host\n", "download"),
            SourcesError,
            "no route",
        ),
        (
            Go(
                'go: example.org/x@v1: Get "https://proxy.example/x": context deadline exceeded\n', "download"
            ),
            SourcesError,
            "deadline exceeded",
        ),
        (Go("go: reading https://proxy.example/x: 503 Busy\n", "download"), SourcesError, "503 Busy"),
        (Go("go: reading https://proxy.example/x: 404 Not Found\n", "download"), SetupError, "404 Not Found"),
        (Go("go: go.mod requires go >= 1.26 (running go 1.24)\n", "download"), SourcesError, "go >= 1.26"),
        (Go("verifying x@v1: checksum mismatch\n", "download"), SetupError, "checksum mismatch"),
    ],
)
def test_what_go_says_is_told_and_nothing_half_made_is_kept(
    folder: Path, go: Go, kind: type[SetupError], message: str
) -> None:
    with pytest.raises(SetupError) as caught:
        build(TOOL, lambda _: None, go.machine)
    assert message in caught.value.message
    assert type(caught.value) is kind
    assert [path.name for path in (folder / "tool-v1.2.3").iterdir()] == ["lock"]


@pytest.mark.parametrize("chosen", ["", "relative"])
def test_programs_are_kept_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", chosen)
    monkeypatch.setenv("HOME", "/home/student")
    assert MINIO.path.parent.parent == Path("/home/student/.cache/raylab/programs")


def test_minio_is_the_release_of_the_image_that_compose_pins() -> None:
    assert f":{MINIO_RELEASE}@" in defaults()[S3_IMAGE]
    stamp = MINIO_RELEASE.removeprefix("RELEASE.").replace("-", "").replace("T", "").removesuffix("Z")
    assert MINIO.version.split("-")[1] == stamp
