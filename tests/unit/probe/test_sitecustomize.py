"""What every Python process of the lab begins with."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import raylab_switches
from raylab_compat import accelerator, food11, import_hooks, lightning_alias, outside
from raylab_patches import pip_environments
from raylab_patches.ray_start import LOOPBACK as ONE_HOST

FILE = Path(lightning_alias.__file__).parents[1] / "sitecustomize.py"


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Runs sitecustomize.py in this process, whose finders are put back afterwards."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run() -> None:
        spec = importlib.util.spec_from_file_location("lab_sitecustomize", FILE)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

    return run


def changed() -> set[str]:
    """The modules that this process will change when it imports them, by their first name."""
    finders = [finder for finder in sys.meta_path if isinstance(finder, import_hooks.AfterImport)]
    return {name.partition(".")[0] for finder in finders for name in finder.changes}


def both_names() -> bool:
    """Whether this process knows both names of Lightning."""
    return any(isinstance(finder, lightning_alias._Package) for finder in sys.meta_path)


@pytest.mark.parametrize(
    ("environ", "changes"),
    [
        ({}, set()),
        ({"RAYLAB_GPU": "nvidia"}, set()),
        ({"RAYLAB_GPU": "simulated"}, {"lightning", "lightning_fabric", "pytorch_lightning"}),
        ({"RAYLAB_SERVICE_NAME": "ray-head"}, {"ray"}),
        ({"RAYLAB_GCS_ADDRESS": "ray-head:6379"}, {"ray"}),
        (ONE_HOST, {"torch", "torchft", "ray", "xgboost", "lightgbm"}),
    ],
)
def test_a_process_knows_both_names_of_lightning_and_changes_only_what_its_lab_needs(
    begin: Callable[[], None], monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], changes: set[str]
) -> None:
    for name in ("RAYLAB_GPU", "RAYLAB_SERVICE_NAME", "RAYLAB_GCS_ADDRESS", *ONE_HOST):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    begin()
    begin()
    assert both_names()
    assert changed() == changes
    watched = [id(finder.changes) for finder in sys.meta_path if isinstance(finder, import_hooks.AfterImport)]
    assert len(set(watched)) == len(watched)
    assert bool(watched) == bool(changes)


def test_the_sitecustomize_that_it_hides_is_run_too(
    begin: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the distribution speaks')")
    sys.path[:] = [str(FILE.parent), str(tmp_path)]
    begin()
    assert capsys.readouterr().out == "the distribution speaks\n"


def test_as_links_of_a_configmap_it_does_not_run_itself_again_and_again(
    begin: Callable[[], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    volume = tmp_path / "probe"
    (volume / "..2026_11_23").mkdir(parents=True)
    (volume / "..2026_11_23" / FILE.name).write_bytes(FILE.read_bytes() + b"print('begun')\n")
    (volume / "..data").symlink_to("..2026_11_23")
    (volume / FILE.name).symlink_to(f"..data/{FILE.name}")
    sys.path[:] = [str(volume)]
    spec = importlib.util.spec_from_file_location("mounted_sitecustomize", volume / FILE.name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert capsys.readouterr().out == "begun\n"


def test_without_another_one_it_ends_there(begin: Callable[[], None]) -> None:
    sys.path[:] = [str(FILE.parent)]
    begin()


def test_what_fails_is_said_and_stops_no_process(
    begin: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def fails() -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(lightning_alias, "install", fails)
    begin()
    assert "disk on fire" in capsys.readouterr().err


def test_it_imports_nothing_that_costs_time() -> None:
    heavy = {"typing", "functools", "inspect", "importlib.abc", "importlib.util", "ray", "torch", "asyncio"}
    for module in (
        accelerator,
        lightning_alias,
        food11,
        pip_environments,
        import_hooks,
        outside,
        raylab_switches,
    ):
        assert module.__file__ is not None
        at_import = [
            line.split()[1]
            for line in Path(module.__file__).read_text().splitlines()
            if line.startswith(("import ", "from "))
        ]
        assert not heavy & set(at_import), module.__name__


@pytest.mark.parametrize(
    ("variable", "elsewhere", "ours", "settled"),
    [
        ("/mnt/Food-11", False, True, "ours"),
        ("/mnt/Food-11/", False, True, "ours"),
        ("/mnt/Food-11", True, True, "same"),
        ("/mnt/Food-11", False, False, "same"),
        ("/home/me/Food-11", False, True, "same"),
    ],
)
def test_food_11_of_the_course_means_the_labs_where_only_the_lab_has_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    elsewhere: bool,
    ours: bool,
    settled: str,
) -> None:
    mounted, folder = tmp_path / "mnt" / "Food-11", tmp_path / "data" / "Food-11"
    variable = variable.replace("/mnt/Food-11", str(mounted))
    monkeypatch.setattr(food11, "ELSEWHERE", str(mounted))
    for there, path in ((elsewhere, mounted), (ours, folder)):
        if there:
            path.mkdir(parents=True)
    environ = {"FOOD11_DATA_DIR": variable, "RAYLAB_DATA": str(folder.parent)}
    food11.settle(environ)
    assert environ["FOOD11_DATA_DIR"] == {"ours": str(folder), "same": variable}[settled]


def test_a_process_that_knows_no_data_is_left_alone() -> None:
    for environ in ({}, {"FOOD11_DATA_DIR": "/mnt/Food-11"}, {"RAYLAB_DATA": "/data"}):
        before = dict(environ)
        food11.settle(environ)
        assert environ == before
