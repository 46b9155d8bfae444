"""The scripts that run inside a build: what they install, what they take out, and the layers they make."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from lab.host.environment.progress import pinned
from lab.runtime.compose.images import context
from tests.conftest import ROOT

REQUIREMENTS = ROOT / "requirements"


def script(name: str) -> ModuleType:
    """One of the scripts in docker/, which are no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docker" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install, slim, apt = script("install"), script("slim"), script("apt")


# install.py


def test_torch_comes_from_a_wheel_of_this_machine_before_any_index(tmp_path: Path) -> None:
    index = "https://example.org/whl/cpu"
    assert f"--index-url {index} torch==2" in " ".join(install.torch("2", index, tmp_path))
    (tmp_path / "torch-2+cpu-cp311-cp311-linux_x86_64.whl").touch()
    argv = install.torch("2", index, tmp_path)
    assert "--no-index" in argv
    assert index not in argv
    assert argv[argv.index("--find-links") + 1] == str(tmp_path)


def test_torchvision_is_of_the_same_build_as_torch_or_left_out(tmp_path: Path) -> None:
    index = "https://example.org/whl/cpu"
    assert f"--no-deps --index-url {index} torchvision==3" in " ".join(
        install.torchvision("3", index, tmp_path)
    )
    own = install.torchvision("3", "", tmp_path)
    assert own[-2:] == ["--no-deps", "torchvision==3"]
    (tmp_path / "torch-2+cpu-cp311-cp311-linux_x86_64.whl").touch()
    assert install.torchvision("3", index, tmp_path) == []
    (tmp_path / "torchvision-3+cpu-cp311-cp311-linux_x86_64.whl").touch()
    argv = install.torchvision("3", index, tmp_path)
    assert argv[argv.index("--find-links") + 1] == str(tmp_path)
    assert "--no-index" in argv
    assert index not in argv


def test_a_wheel_of_torchvision_without_one_of_torch_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "torchvision-3+cpu-cp311-cp311-linux_x86_64.whl").touch()
    index = "https://example.org/whl/cpu"
    argv = install.torchvision("3", index, tmp_path)
    assert argv[argv.index("--index-url") + 1] == index
    assert "--find-links" not in argv


INDEX = "https://example.org/whl/cpu"


@dataclass
class Pip:
    """A pip that fails for some command lines, by the sources and the package that they end with."""

    fails: tuple[str, ...] = ()
    ran: list[str] = field(default_factory=list)

    def __call__(self, argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        source = "index" if "--index-url" in argv else "extra" if "--extra-index-url" in argv else "own"
        line = f"{source} {argv[-1]}"
        self.ran.append(line)
        return subprocess.CompletedProcess(argv, int(line in self.fails))


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pip:
    """The pip of a build for a CPU, without wheels."""
    pip = Pip()
    monkeypatch.setattr(install.subprocess, "run", pip)
    monkeypatch.setattr(install, "WHEELS", tmp_path)
    monkeypatch.setattr(install, "VENV", tmp_path / "venv")
    for name, value in (("VERSION", "2"), ("INDEX", INDEX)):
        monkeypatch.setenv(f"TORCH_{name}", value)
    monkeypatch.setenv("TORCHVISION_VERSION", "3")
    return pip


@pytest.mark.parametrize(
    ("fails", "code", "said"),
    [("index torchvision==3", 0, True), ("index torch==2", 1, False), ("nothing", 0, False)],
)
def test_a_build_goes_on_without_torchvision_and_not_without_torch(
    pip: Pip, capsys: pytest.CaptureFixture[str], fails: str, code: int, said: bool
) -> None:
    pip.fails = (fails,)
    assert install.main() == code
    assert pip.ran == (["index torch==2"] if code else ["index torch==2", "index torchvision==3"])
    lines = capsys.readouterr().err.splitlines()
    assert ["note: torchvision" in line for line in lines] == [True] * said


def test_where_the_index_cannot_be_used_pips_own_sources_stand_in_if_that_is_allowed(
    pip: Pip, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_FALLBACK", "yes")
    pip.fails = ("index torch==2",)
    assert install.main() == 0
    assert pip.ran == ["index torch==2", "own torch==2", "own torchvision==3"]
    assert "note: PyTorch's index cannot be used" in capsys.readouterr().err


def test_the_build_that_stands_in_is_the_last_try(pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FALLBACK", "yes")
    pip.fails = ("index torch==2", "own torch==2")
    assert install.main() == 1
    assert pip.ran == ["index torch==2", "own torch==2"]


@pytest.mark.parametrize(
    ("folder", "source"), [("torch-2+cpu.dist-info", "extra"), ("torch-2.dist-info", "own")]
)
def test_what_torch_needs_comes_from_the_index_that_torch_came_from(
    pip: Pip, folder: str, source: str
) -> None:
    (install.VENV / "lib/python3.11/site-packages" / folder).mkdir(parents=True)
    assert install.main("image.txt") == 0
    assert pip.ran == ["own image.txt", f"{source} torch==2", "own check"]


def test_the_secrets_of_a_build_reach_pip_and_nothing_else_does(tmp_path: Path) -> None:
    assert install.environment({"PIP_INDEX_URL": "", "A": "b"}, tmp_path) == {"A": "b"}
    (tmp_path / "ca").touch()
    (tmp_path / "pip-conf").touch()
    env = install.environment({"PIP_INDEX_URL": "https://i"}, tmp_path)
    assert env["PIP_CERT"] == str(tmp_path / "ca")
    assert env["PIP_CONFIG_FILE"] == str(tmp_path / "pip-conf")
    assert env["PIP_INDEX_URL"] == "https://i"


# apt.py


def test_debian_packages_are_installed_without_recommendations_and_only_when_asked(tmp_path: Path) -> None:
    assert apt.commands([], tmp_path / "ca") == []
    update, add = apt.commands(["prometheus"], tmp_path / "ca")
    assert update[-1] == "update"
    assert add[-3:] == ["-y", "--no-install-recommends", "prometheus"]
    assert not any("CAInfo" in word for word in add)
    (tmp_path / "ca").touch()
    assert f"Acquire::https::CAInfo={tmp_path / 'ca'}" in apt.commands(["prometheus"], tmp_path / "ca")[0]


# slim.py


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A small virtual environment with a little of everything."""
    site = tmp_path / "opt/venv/lib/python3.11/site-packages"
    for name in (
        "torch/__init__.py",
        "torch/bin/torch_shm_manager",
        "torch/bin/test_api",
        "torch/include/a.h",
        "torch/share/cmake/Torch/TorchConfig.cmake",
        "torch/share/miopen/db/gfx942.db",
        "torch/testing/_internal.py",
        "torch-2.dist-info/METADATA",
        "torchgen/__init__.py",
        "torchmetrics/__init__.py",
        "torchvision/__init__.py",
        "torchvision.libs/libjpeg.so",
        "torchvision-0.dist-info/METADATA",
        "ray/__init__.py",
        "ray/jars/ray.jar",
        "ray/rllib/__init__.py",
        "ray-2.dist-info/METADATA",
        "numpy/tests/test_a.py",
        "numpy/testing/__init__.py",
        "babel/locale-data/de.dat",
        "babel/locale-data/en_GB.dat",
        "sympy/core.py",
        "mine/tests/needed.py",
        "mine/__pycache__/old.pyc",
    ):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("x = 1\n")
    return tmp_path / "opt/venv"


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_what_no_lab_runs_is_taken_out_and_nothing_else(venv: Path) -> None:
    site = venv / "lib/python3.11/site-packages"
    before = files(site)
    freed = slim.slim(site)
    gone = before - files(site)
    assert gone == {
        "torch/bin/test_api",
        "torch/include/a.h",
        "torch/share/cmake/Torch/TorchConfig.cmake",
        "ray/jars/ray.jar",
        "ray/rllib/__init__.py",
        "numpy/tests/test_a.py",
        "babel/locale-data/de.dat",
        "mine/__pycache__/old.pyc",
    }
    assert freed == len(gone) * len("x = 1\n")


def test_the_same_packages_give_the_same_bytecode_whenever_they_are_compiled(venv: Path) -> None:
    site = venv / "lib/python3.11/site-packages"
    slim.slim(site)
    slim.compile_most(site)
    (compiled,) = site.rglob("needed*.pyc")
    first = compiled.read_bytes()
    assert int.from_bytes(first[4:8], "little") == 1  # PEP 552: by hash, never checked
    compiled.unlink()
    (site / "mine/tests/needed.py").touch()
    slim.compile_most(site)
    assert compiled.read_bytes() == first


def test_what_labs_hardly_import_has_no_bytecode(venv: Path) -> None:
    site = venv / "lib/python3.11/site-packages"
    slim.slim(site)
    slim.compile_most(site)
    assert (site / "sympy/core.py").exists()
    assert not list(site.glob("sympy/**/*.pyc"))
    assert list(site.glob("torchmetrics/**/*.pyc"))


@pytest.mark.skipif(shutil.which("strip") is None or shutil.which("gcc") is None, reason="needs GCC: strip")
def test_symbols_for_debuggers_go_and_the_library_still_loads(venv: Path) -> None:
    library = venv / "lib/python3.11/site-packages/uvloop/loop.so"
    library.parent.mkdir()
    source = (
        b"static int hidden_from_others(void) { return 7; } int seven(void) { return hidden_from_others(); }"
    )
    subprocess.run(["gcc", "-xc", "-", "-shared", "-o", library], input=source, check=True)
    assert b"hidden_from_others" in library.read_bytes()
    assert slim.strip(venv / "lib/python3.11/site-packages") > 0
    assert b"hidden_from_others" not in library.read_bytes()
    assert ctypes.CDLL(str(library)).seven() == 7


def test_each_large_package_gets_a_layer_of_its_own(venv: Path, tmp_path: Path) -> None:
    slim.sort(venv, tmp_path / "layers")
    layers = tmp_path / "layers"
    where = str(venv.relative_to("/")) + "/lib/python3.11/site-packages/"
    tops = {
        layer.name: {name.removeprefix(where).split("/")[0] for name in files(layer)}
        for layer in layers.iterdir()
    }
    assert tops == {
        "torch": {
            *("torch", "torch-2.dist-info", "torchgen"),
            *("torchvision", "torchvision-0.dist-info", "torchvision.libs"),
        },
        "ray": {"ray", "ray-2.dist-info"},
        "packages": {"torchmetrics", "numpy", "babel", "sympy", "mine"},
    }


# The Dockerfile and the lock


def test_the_image_has_the_packages_of_the_local_lab() -> None:
    ours = context.locked((REQUIREMENTS / "image.txt").read_text())
    text = "".join((REQUIREMENTS / f"{name}.txt").read_text() for name in ("local", "jupyter"))
    theirs = context.locked(text)
    assert context.version("torch", ROOT) == theirs["torch"]
    needed = {"ray", "pytorch-lightning", "jupyterlab", "minio", "prometheus-client", "pillow", "xgboost-cpu"}
    assert needed <= set(ours)
    shared = ours.keys() & theirs.keys()
    assert not [name for name in shared if f"{name}=={ours[name]}" not in text]


@pytest.mark.parametrize("name", ["image", "standin"])
def test_every_package_of_an_image_is_pinned_with_its_hashes(name: str) -> None:
    text = (REQUIREMENTS / f"{name}.txt").read_text()
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) == len(set(pinned(text)))
    assert all(
        re.fullmatch(r"[a-z0-9-]+==\S+( ; [^\\]+)? \\(\n    --hash=sha256:\w{64}( \\)?)+", e) for e in entries
    )
    wanted = pinned((REQUIREMENTS / f"{name}.in").read_text())
    assert set(wanted) - {"torch"} <= set(pinned(text))
    assert "torch" not in pinned(text)


def test_the_base_image_is_pinned_and_no_frontend_is_fetched() -> None:
    text = (ROOT / "docker/Dockerfile").read_text()
    assert re.search(r"^ARG BASE_IMAGE=\S+:3\.11\.\d+\S*@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE_IMAGE}", "build", "common"}
    assert "# syntax" not in text
    assert "USER 1000:1000" in text


def test_a_build_sees_nothing_that_changes_with_the_code() -> None:
    text = (ROOT / "docker/Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (?!--from)(\S+)", text, re.MULTILINE))
    mounted = set(re.findall(r"type=bind,source=(\S+?),", text))
    assert copied <= set(context.FILES)
    assert mounted == {"docker/wheels"}
    assert {name for names in context.INPUTS.values() for name in names} == copied
