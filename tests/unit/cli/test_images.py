"""images: list, pull, build, save, load."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY, call

import pytest

from lab.errors import SetupError
from lab.flows.images import ImageNeed
from lab.flows.images.archive import Archive
from lab.host.environment.progress import Printer
from lab.runtime.compose.images import Built
from lab.topology import GpuPlan, Vendor
from tests.unit.cli.fakes import Labctl

LAB = ImageNeed(
    "raylab/ray:1", "nodes", "LAB_IMAGE", own=True, present=True, local_name="raylab/ray:1", size=9
)
OLD = ImageNeed("raylab/ray:0", "nodes", "LAB_IMAGE", own=True, present=True, stale=True, size=2_000_000)
MINIO = ImageNeed(f"quay.io/minio/minio:R@sha256:{'a' * 64}", "minio", "LAB_S3_IMAGE")


ARCHIVE = Archive("a.tar", 5_000_000, ("raylab/ray:1",))


@pytest.fixture
def nvidia(labctl: Labctl) -> None:
    """A machine with NVIDIA's GPUs."""
    labctl.gpu_plan.return_value = GpuPlan(Vendor.NVIDIA)


@pytest.fixture
def build(labctl: Labctl, nvidia: None) -> Any:
    """A build that ends well."""
    return labctl.stub("lab.flows.images.build", (Built("raylab/ray:1", 1_700_000_000, 125.0),))


def test_the_list_says_what_is_here_and_how_to_get_the_rest(labctl: Labctl) -> None:
    needs = labctl.stub("lab.flows.images.needs", (OLD, MINIO))
    labctl.stub("lab.flows.images.resolve", SimpleNamespace(notes=("grafana: left out",)))
    old, minio, note = labctl.ok("images", "list", "--gpu", "none").splitlines()[1:]
    assert old.split("  ")[0] == "out of date"
    assert "2.0 MB" in old
    assert old.endswith("labctl images build")
    assert minio.startswith("absent")
    assert "quay.io/minio/minio:R  labctl" in minio
    assert minio.endswith("labctl images pull")
    assert note == "note: grafana: left out"
    needs.assert_called_once_with(Vendor.NONE)


def test_the_list_as_json_has_the_whole_name(labctl: Labctl) -> None:
    labctl.stub("lab.flows.images.needs", (LAB, MINIO))
    lab, minio = labctl.json("images", "list")["images"]
    assert lab == {
        "name": "raylab/ray:1",
        "role": "nodes",
        "variable": "LAB_IMAGE",
        "present": True,
        "out_of_date": False,
        "local_name": "raylab/ray:1",
        "size": 9,
        "get": "labctl images build",
    }
    assert (minio["name"], minio["present"]) == (MINIO.name, False)


def test_a_build_is_for_the_gpus_of_this_machine_unless_told(labctl: Labctl, build: Any) -> None:
    assert "1.7 GB  2 min 5 s  raylab/ray:1" in labctl.ok("images", "build")
    labctl.ok("images", "build", "--gpu", "amd")
    assert build.call_args_list == [call("cuda", progress=ANY), call("rocm", progress=ANY)]
    assert labctl.json("images", "build")["built"] == [
        {"name": "raylab/ray:1", "size": 1_700_000_000, "seconds": 125.0}
    ]


@pytest.mark.parametrize(("fail", "code"), [(SetupError("no", "do"), 12), (KeyboardInterrupt(), 130)])
def test_a_build_that_fails_or_is_interrupted_says_so(
    labctl: Labctl, build: Any, fail: BaseException, code: int
) -> None:
    build.side_effect = fail
    assert labctl("images", "build").exit_code == code


def test_progress_stays_off_stdout_and_quiet_silences_it(labctl: Labctl) -> None:
    def pull(vendor: Vendor, *, progress: Printer) -> tuple[ImageNeed, ...]:
        progress.line("pulling")
        return (MINIO,)

    labctl.stub("lab.flows.images.pull", pull)
    result = labctl("images", "pull")
    assert "pulling" in result.stderr
    assert "pulling" not in result.stdout
    assert "pulling" not in labctl("images", "pull", "--quiet").stderr
    assert labctl.json("images", "pull", "--quiet")["images"][0]["name"] == MINIO.name


def test_saved_images_are_named_with_the_size_of_the_file(labctl: Labctl) -> None:
    chosen = labctl.stub("lab.flows.images.to_save", (LAB,))
    save = labctl.stub("lab.flows.images.save", ARCHIVE)
    shown = labctl.ok("images", "save", "a.tar", "--gpu", "simulated")
    assert shown == "raylab/ray:1\na.tar: 1 image, 5.0 MB\n"
    chosen.assert_called_once_with(Vendor.SIMULATED)
    save.assert_called_once_with(Path("a.tar"), (LAB,), progress=ANY)
    assert labctl.json("images", "save", "a.tar") == {
        "file": "a.tar",
        "size": 5_000_000,
        "images": ["raylab/ray:1"],
    }


def test_after_loading_it_says_whether_the_lab_is_complete(labctl: Labctl, nvidia: None) -> None:
    load = labctl.stub("lab.flows.images.load", ARCHIVE)
    missing = labctl.stub("lab.flows.images.missing", (MINIO,))
    assert labctl.ok("images", "load", "a.tar").splitlines() == [
        "loaded raylab/ray:1",
        f"still missing: {MINIO.name} (minio): labctl images pull",
    ]
    document = labctl.json("images", "load", "a.tar")
    assert document == {"images": ["raylab/ray:1"], "complete": False, "missing": [MINIO.name]}
    load.assert_called_with(Path("a.tar"), progress=ANY)
    missing.assert_called_with(Vendor.NVIDIA)
    missing.return_value = ()
    assert labctl.ok("images", "load", "a.tar").endswith("the lab has every image that it needs\n")
