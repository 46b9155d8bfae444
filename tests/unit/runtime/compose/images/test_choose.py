"""Which images a lab runs on, from what the engine has."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.errors import EngineError, SetupError
from lab.host.command import OnLine
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.images import choose, context, model
from lab.topology import GpuPlan, LabSpec, Vendor
from lab.topology.address import Address
from tests.conftest import ROOT
from tests.unit.runtime.compose.images.fake_engine import FakeDocker, quiet

SPEC = LabSpec()
LAB = model.lab_image(Vendor.NONE)
MINIO = model.defaults()[model.S3_IMAGE]
PROMETHEUS = model.defaults()[model.PROMETHEUS_IMAGE]
GRAFANA = model.defaults()[model.GRAFANA_IMAGE]
ALERTMANAGER = model.defaults()[model.ALERTMANAGER_IMAGE]
CADDY = model.defaults("address.yaml")[model.PROXY_IMAGE]
PUBLISHED = (MINIO, PROMETHEUS, ALERTMANAGER, GRAFANA)
STANDIN = {model.S3_IMAGE: model.S3_STANDIN}
ADDRESSED = LabSpec(classroom=True, address=Address("class.example.org", listen="192.0.2.7"))
CURRENT = {model.CONTENT_LABEL: context.content("lab", "cpu")}


def test_a_lab_with_all_its_images_needs_nothing_else() -> None:
    docker = FakeDocker(LAB, *PUBLISHED, labels=CURRENT)
    resolved = choose.resolve(SPEC, {}, docker.engine)
    assert resolved.env == {
        "LAB_IMAGE": LAB,
        "LAB_S3_IMAGE": MINIO,
        "LAB_PROMETHEUS_IMAGE": PROMETHEUS,
        "LAB_ALERTMANAGER_IMAGE": ALERTMANAGER,
        "LAB_GRAFANA_IMAGE": GRAFANA,
    }
    assert (resolved.files, resolved.left_out, resolved.notes, resolved.missing) == ((), (), (), ())
    assert len(docker.journal) == 1


def test_the_stand_in_store_runs_where_it_is_chosen_and_that_is_said() -> None:
    docker = FakeDocker(LAB, MINIO, PROMETHEUS, model.S3_STANDIN, labels=CURRENT)
    resolved = choose.resolve(SPEC, STANDIN, docker.engine)
    assert resolved.files == ("offline.yaml",)
    assert resolved.left_out == ("alertmanager", "grafana")
    assert resolved.env["LAB_S3_IMAGE"] == model.S3_STANDIN
    assert not resolved.missing
    assert "standing in for MinIO" in resolved.notes[0]
    assert any(note.startswith("grafana: left out") for note in resolved.notes)
    assert "sha256" not in " ".join(resolved.notes)
    assert choose.resolve(SPEC, {}, docker.engine).files == ()


@pytest.mark.parametrize(
    ("name", "standin"),
    [
        (f"registry.school:5000/{model.S3_STANDIN}", True),
        (f"{model.S3_STANDIN}@sha256:{'a' * 64}", True),
        (f"registry.school/raylab/s3-standin@sha256:{'a' * 64}", True),
        ("registry.school/raylab/s3-standin-of-mine:1", False),
        ("registry.school/minio/minio:1", False),
    ],
)
def test_the_stand_in_store_out_of_a_registry_of_ones_own_is_pulled_and_runs_as_one(
    name: str, standin: bool
) -> None:
    docker = FakeDocker(LAB, PROMETHEUS, labels=CURRENT)
    resolved = choose.resolve(SPEC, {model.S3_IMAGE: name}, docker.engine)
    assert resolved.env[model.S3_IMAGE] == name
    assert resolved.files == (("offline.yaml",) if standin else ())
    assert [need.how for need in resolved.missing] == ["labctl images pull"]


@pytest.mark.parametrize(
    ("there", "chosen", "expected", "missing"),
    [
        ((CADDY,), {}, CADDY, []),
        ((), {}, CADDY, [CADDY]),
        ((CADDY,), {"LAB_PROXY_IMAGE": "caddy:3"}, "caddy:3", ["caddy:3"]),
    ],
)
def test_only_a_lab_with_an_address_needs_the_proxy(
    there: tuple[str, ...], chosen: dict[str, str], expected: str, missing: list[str]
) -> None:
    docker = FakeDocker(LAB, *PUBLISHED, *there, labels=CURRENT)
    resolved = choose.resolve(ADDRESSED, chosen, docker.engine)
    assert resolved.env[model.PROXY_IMAGE] == expected
    assert [need.name for need in resolved.missing] == missing
    plain = choose.resolve(SPEC, chosen, docker.engine)
    assert (model.PROXY_IMAGE in plain.env, plain.missing) == (False, ())


def test_a_proxy_that_cannot_be_had_is_an_error_where_it_is_needed() -> None:
    docker = FakeDocker(LAB, *PUBLISHED, labels=CURRENT)
    docker.answers["pull"] = (1, NO_REGISTRY)
    with pytest.raises(SetupError, match="caddy"):
        choose.ensure(ADDRESSED, {}, docker.engine, quiet())
    assert not choose.ensure(SPEC, {}, docker.engine, quiet()).missing


def test_nothing_stands_in_for_an_image_that_the_user_chose() -> None:
    chosen = {"LAB_S3_IMAGE": "example.org/silo:1"}
    missing = choose.missing(SPEC, chosen, FakeDocker(LAB, PROMETHEUS, MINIO, model.S3_STANDIN).engine)
    assert [need.name for need in missing] == ["example.org/silo:1"]


def test_images_out_of_an_archive_are_found_under_the_name_they_travelled_with() -> None:
    kept = [model.kept_name(name) for name in PUBLISHED]
    resolved = choose.resolve(SPEC, {}, FakeDocker(LAB, *kept, labels=CURRENT).engine)
    assert resolved.env["LAB_S3_IMAGE"] == model.kept_name(MINIO)
    assert not resolved.missing


def test_a_name_to_travel_with_tells_pins_apart() -> None:
    one, other = f"quay.io/a/b:1@sha256:{'1' * 64}", f"quay.io/a/b:1@sha256:{'2' * 64}"
    assert model.kept_name(one) == "raylab/kept/quay.io/a/b:1-111111111111"
    assert model.kept_name(other) != model.kept_name(one)
    assert model.kept_name(f"host:5000/b@sha256:{'1' * 64}") == "raylab/kept/host:5000/b:pinned-111111111111"
    assert model.kept_name("raylab/ray:1") == "raylab/ray:1"


@pytest.mark.parametrize(
    ("vendor", "suffix"),
    [(Vendor.NVIDIA, "cuda"), (Vendor.AMD, "rocm"), (Vendor.SIMULATED, "cpu"), (Vendor.NONE, "cpu")],
)
def test_each_vendor_has_its_image_and_the_compose_files_name_the_same(vendor: Vendor, suffix: str) -> None:
    file = {"cuda": "gpu-nvidia.yaml", "rocm": "gpu-amd.yaml"}.get(suffix, "lab.yaml")
    assert model.lab_image(vendor).endswith(f"-{suffix}")
    assert model.defaults(file)["LAB_IMAGE"] == model.lab_image(vendor)


def test_the_file_of_the_store_names_the_stand_ins_image() -> None:
    assert model.defaults("offline.yaml") == STANDIN


def test_an_image_of_other_requirements_is_used_but_said_to_be_out_of_date() -> None:
    docker = FakeDocker(LAB, *PUBLISHED, labels={model.CONTENT_LABEL: "old"})
    resolved = choose.resolve(SPEC, {}, docker.engine)
    assert not resolved.missing
    assert resolved.notes == (
        f"{LAB} was built from other requirements than this checkout's: `labctl images build`",
    )


def test_what_is_missing_is_pulled_and_built() -> None:
    docker = FakeDocker()
    spec = LabSpec(gpu=GpuPlan(Vendor.SIMULATED))
    resolved = choose.ensure(spec, {}, docker.engine, quiet())
    assert {words[1] for words in docker.calls("pull")} == set(PUBLISHED)
    assert len(docker.calls("buildx", "build")) == 1
    assert (resolved.missing, resolved.left_out) == ((), ())


def test_nothing_is_fetched_for_a_lab_that_has_its_images_or_the_stand_in() -> None:
    for there, chosen in (((LAB, *PUBLISHED), {}), ((LAB, PROMETHEUS, model.S3_STANDIN), STANDIN)):
        docker = FakeDocker(*there)
        choose.ensure(SPEC, chosen, docker.engine, quiet())
        assert not docker.calls("pull")
        assert not docker.calls("buildx")


NO_REGISTRY = 'Error response from daemon: Get "https://quay.io/v2/": dial tcp: lookup quay.io: no such host'


def test_an_image_that_cannot_be_had_is_named_with_every_way_to_get_it() -> None:
    docker = FakeDocker(LAB, PROMETHEUS)
    docker.answers["pull"] = (1, NO_REGISTRY)
    said: list[str] = []
    with pytest.raises(SetupError) as caught:
        choose.ensure(SPEC, {}, docker.engine, quiet(said))
    assert caught.value.message.startswith(f"the image {MINIO} (minio) is missing: ")
    assert "no image registry can be reached" in caught.value.message
    for way in ("images pull", "`build`", "load FILE"):
        assert way in caught.value.hint
    assert f"  | {NO_REGISTRY}" in said


def test_a_lab_goes_on_without_alertmanager_and_grafana() -> None:
    docker = FakeDocker(LAB, MINIO, PROMETHEUS)
    docker.answers["pull"] = (1, NO_REGISTRY)
    resolved = choose.ensure(SPEC, {}, docker.engine, quiet())
    assert (resolved.left_out, resolved.missing) == (("alertmanager", "grafana"), ())
    assert [words[1] for words in docker.calls("pull")] == [ALERTMANAGER, GRAFANA]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///x.sock.",
            "Docker Engine is not running",
        ),
        (
            "permission denied while trying to connect to the Docker daemon socket",
            "may not use the Docker Engine",
        ),
    ],
)
def test_an_engine_that_does_not_answer_is_no_missing_image(output: str, message: str) -> None:
    def run(argv: Sequence[str], on_line: OnLine, **_: Any) -> subprocess.CompletedProcess[str]:
        on_line(output)
        return subprocess.CompletedProcess(argv, 1, "", "")

    with pytest.raises(EngineError, match=message):
        choose.missing(SPEC, {}, DockerEngine(stream=run))


def test_a_warning_beside_an_image_that_is_not_there_is_no_error() -> None:
    def run(argv: Sequence[str], on_line: OnLine, **_: Any) -> subprocess.CompletedProcess[str]:
        on_line("WARNING: Error loading config file: open /root/.docker/config.json: permission denied")
        on_line("Error: No such image: x")
        return subprocess.CompletedProcess(argv, 1, "", "")

    assert LAB in [need.name for need in choose.missing(SPEC, {}, DockerEngine(stream=run))]


def test_without_docker_the_error_says_so() -> None:
    def run(argv: Sequence[str], on_line: OnLine, **_: Any) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError(argv[0])

    with pytest.raises(EngineError, match="`docker`"):
        choose.missing(SPEC, {}, DockerEngine(stream=run))


def test_what_is_saved_is_what_a_lab_runs_on_here() -> None:
    saved = choose.to_save(Vendor.NONE, STANDIN, FakeDocker(LAB, model.S3_STANDIN, PROMETHEUS).engine)
    assert [need.name for need in saved] == [LAB, model.S3_STANDIN, PROMETHEUS]
    absent = choose.to_save(Vendor.NONE, {}, FakeDocker(LAB).engine)
    assert [need.present for need in absent] == [True, False, False]


def test_only_what_others_publish_is_pulled() -> None:
    docker = FakeDocker(MINIO)
    pulled = choose.pull(Vendor.NONE, {}, docker.engine, quiet())
    assert [words[1] for words in docker.calls("pull")] == [PROMETHEUS, ALERTMANAGER, GRAFANA, CADDY]
    assert [need.present for need in pulled] == [True] * len((*PUBLISHED, CADDY))


def test_the_content_of_an_image_is_what_goes_into_it(tmp_path: Path) -> None:
    for name in (*context.FILES, "lab/lab.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        source = Path(ROOT) / name
        (tmp_path / name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")

    def contents() -> list[str]:
        return [context.content(target, "cpu", tmp_path) for target in context.INPUTS]

    before = contents()
    (tmp_path / "lab/lab.py").write_text("changed")
    assert contents() == before
    (tmp_path / "requirements/image.txt").write_text("ray==1\n")
    assert [a == b for a, b in zip(before, contents(), strict=True)] == [False, True]
    assert context.content("lab", "cpu", tmp_path) != context.content("lab", "cuda", tmp_path)


def test_the_registries_are_those_that_the_pinned_images_name() -> None:
    assert model.registries() == ("quay.io",)
