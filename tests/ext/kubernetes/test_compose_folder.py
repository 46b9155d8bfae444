"""The folder for plain Compose has everything that its files name, and no secret."""

from __future__ import annotations

import json

import pytest

from lab.ext.kubernetes.compose_folder import compose_folder
from lab.host.files import ROOT
from lab.topology import GpuPlan, LabSpec, Vendor


def made(vendor: Vendor = Vendor.NONE, **settings: object) -> dict[str, bytes]:
    return compose_folder(LabSpec(gpu=GpuPlan(vendor), **settings))  # type: ignore[arg-type]


def settings(files: dict[str, bytes]) -> dict[str, str]:
    lines = files["compose/.env"].decode().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("vendor", list(Vendor))
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_compose_finds_every_file_that_it_is_told_of(vendor: Vendor, workers: int) -> None:
    files = made(vendor, workers=workers, gcs_ft=True, stock_ray=True)
    named = settings(files)["COMPOSE_FILE"].split(":")
    assert {f"compose/{name}" for name in named} <= set(files)
    assert ("override.json" in named) == (workers != 2)
    assert {"gcs-ft.yaml", "stock-ray.yaml"} <= set(named)


def test_more_workers_have_gpus_of_their_own() -> None:
    files = made(Vendor.NVIDIA, workers=3)
    assert settings(files)["LAB_WORKER_1_GPU"] == "1"
    (service,) = (
        s
        for name, s in json.loads(files["compose/override.json"])["services"].items()
        if name == "ray-worker-2"
    )
    assert service["extends"]["file"] == "lab.yaml"
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device["device_ids"] == ["2"]


def test_amds_groups_are_those_of_the_other_machine() -> None:
    service = json.loads(made(Vendor.AMD, workers=3)["compose/override.json"])["services"]["ray-worker-2"]
    assert "/dev/dri/renderD130:/dev/dri/renderD130" in service["devices"]
    assert service["group_add"][1].startswith("${LAB_RENDER_GID:?")


def test_what_is_mounted_and_what_is_built_from_goes_along() -> None:
    files = made()
    assert {
        *("lab/probe/sitecustomize.py", "lab/store/setup.py", "docker/Dockerfile", "requirements/image.txt"),
        *("workspace/digits/train.py", "compose/prometheus/prometheus.yml", "secrets.sh", "README.md"),
    } <= set(files)
    assert not [path for path in files if "__pycache__" in path or path.startswith("compose/secrets")]


def test_nothing_names_this_machines_folders() -> None:
    files = made(Vendor.NVIDIA, workers=4)
    for path in ("compose/.env", "compose/override.json", "README.md", "secrets.sh"):
        assert str(ROOT).encode() not in files[path]
