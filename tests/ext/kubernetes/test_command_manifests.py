"""export, lint: what a person sees, and that what is refused leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from lab.host.environment import ElsewhereError
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor
from tests.ext.kubernetes.made import batch_job, changed, cluster, job, queues
from tests.unit.cli.fakes import Labctl


@pytest.fixture
def offline(labctl: Labctl) -> Labctl:
    """labctl whose lab is down, and which installs nothing."""
    labctl.stub("lab.host.environment.ensure", False)
    return labctl.down()


def written(folder: Path, *objects: object) -> str:
    path = folder / "m.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


# export kubernetes


def test_a_folder_is_written_and_told(offline: Labctl, tmp_path: Path) -> None:
    folder = tmp_path / "k8s"
    result = offline(
        *("export", "kubernetes", "digits", "-p", "epochs=3", "--queue", "q", "--output", str(folder)),
        *("--endpoint", "http://store:9000/"),
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{folder}: ")
    assert "README.md has the commands" in result.stderr
    job = yaml.safe_load((folder / "rayjob.yaml").read_text())
    assert "--epochs 3" in job["spec"]["entrypoint"]
    assert "value: http://store:9000\n" in (folder / "rayjob.yaml").read_text()


def test_as_json_the_files_are_told(offline: Labctl, tmp_path: Path) -> None:
    result = offline("--json", "export", "kubernetes", "--gpu", "nvidia", "--output", str(tmp_path / "x"))
    document = json.loads(result.stdout)
    assert document["schema"] == "export/1"
    assert "raycluster.yaml" in document["files"]


def test_a_lab_that_is_up_gives_its_settings_but_not_its_devices(labctl: Labctl, tmp_path: Path) -> None:
    labctl.stub("lab.host.environment.ensure", False)
    labctl.runtime.down()
    gpus = tuple(GpuAssignment(f"ray-worker-{n}", f"GPU-{n}") for n in range(3))
    labctl.runtime.up(LabSpec(gpu=GpuPlan(Vendor.NVIDIA, gpus), workers=3, cpus_per_worker=4, gcs_ft=True))
    folder = tmp_path / "x"
    assert labctl("export", "kubernetes", "--output", str(folder)).exit_code == 0
    spec = yaml.safe_load((folder / "raycluster.yaml").read_text())["spec"]
    (group,) = spec["workerGroupSpecs"]
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (group["replicas"], limits["cpu"], limits["nvidia.com/gpu"]) == (3, "4", "1")
    assert "gcsFaultToleranceOptions" in spec
    assert "GPU-" not in (folder / "raycluster.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--namespace", "n" * 64], 2, "--namespace"),
        (["--workers", "33"], 2, "--workers 33"),
        (["--memory-per-worker", "lots"], 2, "--memory-per-worker lots"),
        (["--code", "image"], 2, "--code image without --image"),
        (["digits", "--", "python", "x.py"], 2, "either a recipe or a command"),
        (["nothing"], 3, "there is no recipe"),
        (["-p", "epochs=1"], 2, "only for a recipe"),
        (["--working-dir", "."], 2, "only for a command"),
        (["--queues", "none.yaml", "--queue", "q"], 3, "none.yaml"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    offline: Labctl, tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    folder = tmp_path / "x"
    result = offline("export", "kubernetes", "--output", str(folder), *arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_sixty_characters_is_refused(offline: Labctl, tmp_path: Path) -> None:
    result = offline("--lab", "n" * 60, "export", "kubernetes", "--output", str(tmp_path / "x"))
    assert result.exit_code == 2
    assert "not a lab name" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_quota_below_the_heads_need_is_refused_with_22(offline: Labctl, tmp_path: Path) -> None:
    objects = queues("1")
    objects[2]["metadata"].pop("namespace")
    path = written(tmp_path, *objects)
    folder = tmp_path / "x"
    result = offline("export", "kubernetes", "--queue", "main", "--queues", path, "--output", str(folder))
    assert result.exit_code == 22
    assert "insufficient quota for cpu" in result.stderr
    assert not folder.exists()


def test_a_folder_that_is_taken_is_refused(offline: Labctl, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    for command in ("kubernetes", "compose"):
        result = offline("export", command, "--output", str(tmp_path))
        assert result.exit_code == 11
        assert "not empty" in result.stderr


def test_a_command_goes_along_with_its_folder(offline: Labctl, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    (tmp_path / "env.json").write_text('{"pip": ["emoji"]}')
    result = offline(
        *("export", "kubernetes", "--working-dir", str(tmp_path / "code")),
        *("--runtime-env", str(tmp_path / "env.json"), "--output", str(tmp_path / "x")),
        *("--", "python", "train.py", "--lr", "0.1"),
    )
    assert result.exit_code == 0, result.output
    job = yaml.safe_load((tmp_path / "x" / "rayjob.yaml").read_text())
    assert job["spec"]["entrypoint"] == "python /opt/raylab/job/train.py --lr 0.1"
    assert "emoji" in job["spec"]["runtimeEnvYAML"]


# export compose


def test_a_folder_for_compose_is_written(offline: Labctl, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    result = offline("export", "compose", "--gpu", "simulated", "--workers", "3", "--output", str(folder))
    assert result.exit_code == 0, result.output
    assert (folder / "compose" / "lab.yaml").exists()
    assert "LAB_WORKERS=3" in (folder / "compose" / ".env").read_text()


# lint


def test_good_manifests_end_with_0(offline: Labctl, tmp_path: Path) -> None:
    result = offline("export", "check", written(tmp_path, cluster(), job()))
    assert result.exit_code == 0, result.output
    assert result.stdout == "1 RayCluster, 1 RayJob: nothing found\n"


def test_what_cannot_work_ends_with_22_and_its_place(offline: Labctl, tmp_path: Path) -> None:
    other = changed(cluster("main"), lambda m: m["metadata"].update(name="other"))
    result = offline("export", "check", written(tmp_path, *queues("9"), cluster("main"), other))
    assert result.exit_code == 22
    first, second, last = result.stdout.splitlines()
    assert first.startswith("error: ")
    assert "m.yaml:" in first
    assert "waits for ever in ClusterQueue all: " in second
    assert last == "1 ResourceFlavor, 1 ClusterQueue, 1 LocalQueue, 2 RayCluster: 2 errors"
    assert "(and 1 more)" in result.stderr


def test_lint_as_json_is_one_document(offline: Labctl, tmp_path: Path) -> None:
    result = offline("--json", "export", "check", written(tmp_path, *queues("9"), cluster("main")))
    document = json.loads(result.stdout)
    assert (result.exit_code, document["schema"], document["good"]) == (22, "lint/1", False)
    (finding,) = document["findings"]
    path = "metadata.labels.kueue.x-k8s.io/queue-name"
    assert (finding["rule"], finding["level"], finding["path"]) == ("quota", "error", path)


def test_kinds_that_are_not_counted_are_named(offline: Labctl, tmp_path: Path) -> None:
    job_set = changed(batch_job("main"), lambda m: m.update(apiVersion="jobset.x-k8s.io/v1", kind="JobSet"))
    path = written(tmp_path, *queues(), job_set)
    result = offline("export", "check", path)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "not counted: JobSet")
    assert json.loads(offline("--json", "export", "check", path).stdout)["not_counted"] == ["JobSet"]


def test_warnings_do_not_end_with_an_error(offline: Labctl, tmp_path: Path) -> None:
    result = offline("export", "check", written(tmp_path, *queues()[1:]))
    assert result.exit_code == 0
    assert "warning:" in result.stderr
    assert result.stdout == "1 ClusterQueue, 1 LocalQueue: 1 warning\n"


def test_a_file_that_is_not_there_is_3(offline: Labctl, tmp_path: Path) -> None:
    assert offline("export", "check", str(tmp_path / "none.yaml")).exit_code == 3


def test_an_installed_labctl_goes_on_where_the_schemas_are(labctl: Labctl, tmp_path: Path) -> None:
    labctl.stub("lab.host.environment.ensure", ElsewhereError("kubernetes", "/package"))
    go_on = labctl.stub("lab.cli.main.go_on", 0)
    (tmp_path / "pod.yaml").write_text("kind: Pod")
    labctl.ok("export", "check", str(tmp_path / "pod.yaml"))
    go_on.assert_called_once_with("kubernetes", ["export", "check", str(tmp_path / "pod.yaml")])
