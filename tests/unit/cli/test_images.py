"""images: list, pull, build, save, load."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab.errors import SetupError
from lab.flows.images import Archive, Built, ImageNeed
from lab.host.environment.progress import Progress
from lab.topology import Vendor
from tests.unit.cli.fakes import FakeCore, Labctl

LAB = ImageNeed(
    "raylab/ray:1", "nodes", "LAB_IMAGE", own=True, present=True, local_name="raylab/ray:1", size=9
)
OLD = ImageNeed("raylab/ray:0", "nodes", "LAB_IMAGE", own=True, present=True, stale=True, size=2_000_000)
MINIO = ImageNeed(f"quay.io/minio/minio:R@sha256:{'a' * 64}", "minio", "LAB_S3_IMAGE")


@dataclass
class ImagesCore(FakeCore):
    """A core whose images are in memory."""

    needs: tuple[ImageNeed, ...] = (LAB, MINIO)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def image_vendor(self, choice: str) -> Vendor:
        return Vendor.NVIDIA if choice == "auto" else Vendor(choice)

    def images(self, vendor: Vendor) -> tuple[ImageNeed, ...]:
        self.calls.append(("images", vendor))
        return self.needs

    def image_notes(self, vendor: Vendor) -> tuple[str, ...]:
        return ("grafana: left out",)

    def missing_images(self, vendor: Vendor) -> tuple[ImageNeed, ...]:
        return tuple(need for need in self.needs if not need.present)

    def pull_images(self, vendor: Vendor, progress: Progress) -> tuple[ImageNeed, ...]:
        self.calls.append(("pull", vendor))
        progress.line("pulling")
        return (MINIO,)

    def build_images(
        self, vendor: Vendor, offline: bool, suite: str, progress: Progress
    ) -> tuple[Built, ...]:
        self.calls.append(("build", vendor, offline, suite))
        if self.fail is not None:
            raise self.fail
        return (Built("raylab/ray:1", 1_700_000_000, 125.0),)

    def save_images(self, path: Path, vendor: Vendor, progress: Progress) -> Archive:
        self.calls.append(("save", path, vendor))
        return Archive(str(path), 5_000_000, ("raylab/ray:1",))

    def load_images(self, path: Path, progress: Progress) -> Archive:
        self.calls.append(("load", path))
        return Archive(str(path), 5_000_000, ("raylab/ray:1",))


@pytest.fixture
def core() -> ImagesCore:
    return ImagesCore()


@pytest.fixture
def labctl(core: ImagesCore) -> Labctl:
    return Labctl(core)


def test_the_list_says_what_is_here_and_how_to_get_the_rest(labctl: Labctl, core: ImagesCore) -> None:
    core.needs = (OLD, MINIO)
    old, minio, note = labctl.ok("images", "list", "--gpu", "none").splitlines()[1:]
    assert old.split("  ")[0] == "out of date"
    assert "2.0 MB" in old
    assert old.endswith("labctl images build")
    assert minio.startswith("absent")
    assert f"@sha256:{'a' * 12}..." in minio
    assert minio.endswith("labctl images pull")
    assert note == "note: grafana: left out"
    assert core.calls == [("images", Vendor.NONE)]


def test_the_list_as_json_has_the_whole_name(labctl: Labctl) -> None:
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


def test_a_build_is_for_the_gpus_of_this_machine_unless_told(labctl: Labctl, core: ImagesCore) -> None:
    assert "1.7 GB  2 min 5 s  raylab/ray:1" in labctl.ok("images", "build")
    labctl.ok("images", "build", "--gpu", "amd", "--offline", "--suite", "trixie")
    assert core.calls == [("build", Vendor.NVIDIA, False, ""), ("build", Vendor.AMD, True, "trixie")]
    assert labctl.json("images", "build")["built"] == [
        {"name": "raylab/ray:1", "size": 1_700_000_000, "seconds": 125.0}
    ]


def test_a_suite_without_offline_is_refused(labctl: Labctl, core: ImagesCore) -> None:
    assert labctl("images", "build", "--suite", "trixie").exit_code == 2
    assert not core.calls


@pytest.mark.parametrize(("fail", "code"), [(SetupError("no", "do"), 12), (KeyboardInterrupt(), 130)])
def test_a_build_that_fails_or_is_interrupted_says_so(
    labctl: Labctl, core: ImagesCore, fail: BaseException, code: int
) -> None:
    core.fail = fail
    assert labctl("images", "build").exit_code == code


def test_progress_stays_off_stdout_and_quiet_silences_it(labctl: Labctl) -> None:
    result = labctl("images", "pull")
    assert "pulling" in result.stderr
    assert "pulling" not in result.stdout
    assert "pulling" not in labctl("images", "pull", "--quiet").stderr
    assert labctl.json("images", "pull", "--quiet")["images"][0]["name"] == MINIO.name


def test_saved_images_are_named_with_the_size_of_the_file(labctl: Labctl, core: ImagesCore) -> None:
    shown = labctl.ok("images", "save", "a.tar", "--gpu", "simulated")
    assert shown == "raylab/ray:1\na.tar: 1 image, 5.0 MB\n"
    assert core.calls == [("save", Path("a.tar"), Vendor.SIMULATED)]
    assert labctl.json("images", "save", "a.tar") == {
        "file": "a.tar",
        "size": 5_000_000,
        "images": ["raylab/ray:1"],
    }


def test_after_loading_it_says_whether_the_lab_is_complete(labctl: Labctl, core: ImagesCore) -> None:
    assert labctl.ok("images", "load", "a.tar").splitlines() == [
        "loaded raylab/ray:1",
        f"still missing: {MINIO.name} (minio): labctl images pull",
    ]
    document = labctl.json("images", "load", "a.tar")
    assert document == {"images": ["raylab/ray:1"], "complete": False, "missing": [MINIO.name]}
    core.needs = (LAB,)
    assert labctl.ok("images", "load", "a.tar").endswith("the lab has every image that it needs\n")
