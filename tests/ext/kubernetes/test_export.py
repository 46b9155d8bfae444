"""An exported lab of every size passes the checks; what cannot be is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster.submission import described
from lab.errors import LabError, ManifestError, NotFoundError, UsageError
from lab.ext.kubernetes.documents import LintReport
from lab.ext.kubernetes.export import ExportRequest, export
from lab.ext.kubernetes.export.queues import CONFIGURATION
from lab.ext.kubernetes.export.request import RAY_VERSION, Code, code_of, recipe_of
from lab.ext.kubernetes.export.texts import STOCK_ON_A_NETWORK, Part, config_map, key_of, probe_files
from lab.ext.kubernetes.lint.quotas import queue_objects
from lab.ext.kubernetes.manifests import mapping, read_manifests
from lab.host import environment
from lab.host.environment.progress import pinned
from lab.topology import GpuPlan, LabSpec, Vendor
from tests.ext.kubernetes.made import Object

CODE = Code("raylab-train", ("python", "/opt/raylab/job/train.py"), {"train.py": b"print()\n"})
GPUS = (Vendor.NVIDIA, Vendor.AMD, Vendor.NONE)
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: nodes}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: school}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: nodes
      resources: [{name: cpu, nominalQuota: CPU}, {name: memory, nominalQuota: 64Gi}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main}
spec: {clusterQueue: school}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: other}
spec: {clusterQueue: school}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 10
---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
fairSharing: {preemptionStrategies: [LessThanInitialShare]}
"""


pytest.importorskip("kubernetes_validate", reason="the group kubernetes is not installed")


def lab(vendor: Vendor = Vendor.NONE, **settings: Any) -> LabSpec:
    return LabSpec(gpu=GpuPlan(vendor), **settings)


class Exported:
    """What an export has written."""

    def __init__(self, files: Mapping[str, bytes], report: LintReport) -> None:
        self.files, self.report = files, report

    def stream(self) -> str:
        """What is applied, as one text."""
        aside = ("kustomization.yaml", CONFIGURATION)
        texts = [text for path, text in self.files.items() if path.endswith(".yaml") and path not in aside]
        return "---\n".join(text.decode() for text in texts)


def made(request: ExportRequest, queues: Sequence[Path] = ()) -> Exported:
    return Exported(*export(replace(request, queue_files=tuple(queues))))


def objects(exported: Exported, *kinds: str) -> list[Object]:
    """What is applied, of these kinds."""
    return [manifest for manifest in yaml.safe_load_all(exported.stream()) if manifest["kind"] in kinds]


def queue_file(folder: Path, cpu: str = "100") -> Path:
    path = folder / "queues.yaml"
    path.write_text(QUEUES.replace("CPU", cpu))
    return path


@pytest.mark.parametrize("vendor", GPUS)
@pytest.mark.parametrize("workers", [1, 2, 3, 8, 9, 16])
@pytest.mark.parametrize("queue", ["", "team"])
def test_every_size_passes_the_checks_with_the_resources_of_the_lab(
    vendor: Vendor, workers: int, queue: str
) -> None:
    code = CODE if workers % 2 else None
    exported = made(ExportRequest(lab(vendor, workers=workers, gcs_ft=workers > 8), queue=queue, code=code))
    assert exported.report.good
    (manifest,) = objects(exported, "RayCluster", "RayJob")
    spec = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    head, (group,) = spec["headGroupSpec"], spec["workerGroupSpecs"]
    assert group["replicas"] == workers
    assert head["rayStartParams"]["num-cpus"] == "0"
    of_head, of_group = (part["template"]["spec"]["containers"][0]["resources"] for part in (head, group))
    assert of_group["limits"]["cpu"] == "8"
    keys = {name for name in of_group["limits"] if name.endswith("gpu")}
    assert keys == {Vendor.NVIDIA: {"nvidia.com/gpu"}, Vendor.AMD: {"amd.com/gpu"}}.get(vendor, set())
    assert of_group["limits"] == of_group["requests"]
    assert not any(name.endswith("gpu") for name in of_head["limits"])


@pytest.mark.parametrize("vendor", GPUS)
@pytest.mark.parametrize("code", [None, CODE])
def test_the_schemas_take_what_is_written(vendor: Vendor, code: Code | None) -> None:
    request = ExportRequest(
        lab(vendor, workers=3, gcs_ft=True), queue="team", code=code, runtime_class="nvidia"
    )
    report = made(request).report
    assert (report.findings, report.not_counted) == ((), ())


@pytest.mark.parametrize("vendor", GPUS)
def test_rays_own_autoscaler_reads_the_cluster_that_is_written(vendor: Vendor) -> None:
    pytest.importorskip("ray", reason="the group local is not installed")
    from ray.autoscaler._private.kuberay import autoscaling_config

    (cluster,) = objects(made(ExportRequest(lab(vendor, workers=3))), "RayCluster")
    types = autoscaling_config._derive_autoscaling_config_from_ray_cr(cluster)["available_node_types"]
    assert types["headgroup"]["resources"]["CPU"] == 0
    assert types["workers"]["resources"]["CPU"] == 8
    assert types["workers"]["resources"].get("GPU", 0) == (vendor is not Vendor.NONE)
    assert (types["workers"]["min_workers"], types["workers"]["max_workers"]) == (3, 3)


def test_a_lab_with_redis_brings_it_and_gives_its_address() -> None:
    exported = made(ExportRequest(lab(gcs_ft=True)))
    (cluster,) = objects(exported, "RayCluster")
    options = cluster["spec"]["gcsFaultToleranceOptions"]
    (service,) = objects(exported, "Service")
    assert options["redisAddress"] == f"{service['metadata']['name']}:6379"
    assert "redis.yaml" not in made(ExportRequest(lab())).files


def test_nodes_are_given_what_the_labs_nodes_have_but_what_suits_one_machine_only() -> None:
    (cluster,) = objects(
        made(ExportRequest(lab(), storage="s3://box/f", endpoint="http://store:9000")), "RayCluster"
    )
    env = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    given = {variable["name"]: variable.get("value") for variable in env}
    assert given["RAYLAB_LEDGER"] == "s3://box/f/.raylab/ledger"
    assert given["AWS_ENDPOINT_URL"] == "http://store:9000"
    assert "raylab_ledger.train.Ledger" in str(given["RAY_TRAIN_CALLBACKS"])
    assert given["TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S"] == "2"
    assert not set(STOCK_ON_A_NETWORK) & set(given)
    assert "RAYLAB_PATCHES_OFF" not in given


def test_stock_ray_stays_stock() -> None:
    (cluster,) = objects(made(ExportRequest(lab(stock_ray=True))), "RayCluster")
    env = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"]
    given = {variable["name"]: variable.get("value") for variable in env}
    assert "checkpoint_guard" in str(given["RAYLAB_PATCHES_OFF"])
    assert "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S" not in given


def test_no_secret_is_written() -> None:
    exported = made(ExportRequest(lab(gcs_ft=True), code=CODE))
    assert objects(exported, "Secret") == []
    script = exported.files["secrets.sh"].decode()
    for name in ("raylab-token", "raylab-redis", "raylab-s3"):
        assert name in script
    assert "redis" not in made(ExportRequest(lab())).files["secrets.sh"].decode()


def test_the_recorder_goes_along_with_every_file() -> None:
    (probe,) = objects(made(ExportRequest(lab())), "ConfigMap")
    assert {key_of(path): content.decode() for path, content in probe_files().items()} == probe["data"]
    assert "sitecustomize.py" in probe["data"]
    assert "raylab_ledger.train.py" in probe["data"]


def test_code_in_an_image_is_a_folder_to_build_and_no_config_map() -> None:
    exported = made(ExportRequest(lab(), image="team/train:1", code=CODE, code_source="image"))
    assert objects(exported, "ConfigMap") == []
    assert exported.files["image/job/train.py"] == b"print()\n"
    assert "image/probe/raylab_ledger/train.py" in exported.files
    assert b"docker build -t team/train:1 image" in exported.files["README.md"]


def test_a_job_is_a_ray_job_that_finds_its_code() -> None:
    exported = made(
        ExportRequest(lab(), code=replace(CODE, runtime_env={"env_vars": {"A": "1", "PYTHONPATH": "x"}}))
    )
    (job,) = objects(exported, "RayJob")
    assert job["spec"]["entrypoint"] == "python /opt/raylab/job/train.py"
    assert yaml.safe_load(job["spec"]["runtimeEnvYAML"]) == {
        "env_vars": {"A": "1", "PYTHONPATH": "/opt/raylab/probe:/opt/raylab/job:x"}
    }
    assert job["spec"]["shutdownAfterJobFinishes"] is True
    assert objects(exported, "RayCluster") == []


@pytest.mark.parametrize(("queue", "seconds"), [("", 600), ("team", 0)])
@pytest.mark.parametrize("app_wrapper", [False, True])
def test_a_queued_job_keeps_no_pods_that_its_quota_does_not_count(
    queue: str, seconds: int, app_wrapper: bool
) -> None:
    exported = made(ExportRequest(lab(), queue=queue, code=CODE, app_wrapper=app_wrapper))
    (manifest,) = (m for m in read_manifests([("f", exported.stream())])[0] if m.kind == "RayJob")
    assert mapping(manifest.value["spec"])["ttlSecondsAfterFinished"] == seconds
    assert not [finding for finding in exported.report.findings if finding.level == "warning"]


@pytest.mark.parametrize("queue", ["", "main"])
def test_deleting_the_lab_deletes_nothing_that_others_use(tmp_path: Path, queue: str) -> None:
    queues = [queue_file(tmp_path)] if queue else []
    exported = made(ExportRequest(lab(gcs_ft=True), queue=queue, code=CODE), queues)
    (listed,) = yaml.safe_load_all(exported.files["kustomization.yaml"])
    kinds = {
        manifest["kind"]: manifest["metadata"].get("namespace")
        for path in listed["resources"]
        for manifest in yaml.safe_load_all(exported.files[path])
    }
    assert set(kinds) == {"ConfigMap", "Service", "StatefulSet", "RayJob"}
    assert set(kinds.values()) == {"raylab"}
    shared = [path for path in ("namespaces.yaml", "queues.yaml") if path in exported.files]
    assert not {*shared} & {*listed["resources"]}
    assert shared == (["namespaces.yaml", "queues.yaml"] if queue else ["namespaces.yaml"])
    readme = exported.files["README.md"].decode()
    assert f"kubectl apply --server-side -f {' -f '.join(shared)}\n" in readme
    assert ("namespaces and queues" in readme) == bool(queue)


def test_in_an_app_wrapper_only_the_wrapper_is_queued() -> None:
    (outer,) = objects(made(ExportRequest(lab(), queue="team", code=CODE, app_wrapper=True)), "AppWrapper")
    inner = outer["spec"]["components"][0]["template"]
    assert outer["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert "kueue.x-k8s.io/queue-name" not in inner["metadata"]["labels"]


# Queues


def test_the_queue_that_is_made_holds_exactly_the_lab_and_its_submitter() -> None:
    exported = made(ExportRequest(lab(Vendor.NVIDIA, workers=3), queue="team", code=CODE))
    (queue,) = objects(exported, "ClusterQueue")
    (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
    assert {resource["name"]: resource["nominalQuota"] for resource in flavor["resources"]} == {
        "cpu": "26500m",
        "memory": "53448Mi",
        "nvidia.com/gpu": "3",
    }


def test_settings_of_kueue_go_along_as_a_file_that_is_not_applied_with_the_rest(tmp_path: Path) -> None:
    path = queue_file(tmp_path)
    settings = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    fair = "fairSharing: {preemptionStrategies: [LessThanInitialShare]}\n"
    others = [
        document for document in path.read_text().split("---\n") if "kind: Configuration" not in document
    ]
    path.write_text("---\n".join((settings + fair, *others)))
    exported = made(ExportRequest(lab(), queue="main", code=CODE), [path])
    (config,) = yaml.safe_load_all(exported.files[CONFIGURATION])
    assert config["fairSharing"] == {"preemptionStrategies": ["LessThanInitialShare"]}
    assert {"ray.io/rayjob", "ray.io/raycluster"} < set(config["integrations"]["frameworks"])
    assert CONFIGURATION not in yaml.safe_load(exported.files["kustomization.yaml"])["resources"]
    assert "configmap kueue-manager-config --from-file=kueue" in exported.files["README.md"].decode()
    texts = [(name, text.decode()) for name, text in exported.files.items() if name.endswith(".yaml")]
    manifests, _ = read_manifests(texts, "raylab")
    assert queue_objects(manifests, "raylab").setup.config.strategies == ("LessThanInitialShare",)


def test_queues_of_the_lab_go_along_and_are_applied_without_the_settings_of_kueue(tmp_path: Path) -> None:
    exported = made(ExportRequest(lab(), queue="main", priority="high", code=CODE), [queue_file(tmp_path)])
    assert {namespace["metadata"]["name"] for namespace in objects(exported, "Namespace")} == {
        "raylab",
        "other",
    }
    assert len(objects(exported, "LocalQueue")) == 2
    assert objects(exported, "Configuration") == []
    (job,) = objects(exported, "RayJob")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"


@pytest.mark.parametrize(
    ("cpu", "code", "message"),
    [("1", None, "insufficient quota for cpu"), ("18", CODE, "waits for ever"), ("18", None, "")],
)
def test_a_quota_below_what_is_asked_is_refused(
    tmp_path: Path, cpu: str, code: Code | None, message: str
) -> None:
    request = ExportRequest(lab(), queue="main", code=code)
    if not message:
        assert made(request, [queue_file(tmp_path, cpu)]).report.good
        return
    with pytest.raises(ManifestError, match=message):
        made(request, [queue_file(tmp_path, cpu)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queue": "mian"}, "namespace raylab has no such LocalQueue"),
        ({"queue": "main", "namespace": "third"}, ""),
        ({"queue": ""}, "--queues without --queue"),
        ({"queue": "main", "priority": "low"}, "no such WorkloadPriorityClass"),
    ],
)
def test_queues_that_do_not_fit_are_refused(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    if not message:
        assert made(ExportRequest(lab(), **settings), [queue_file(tmp_path)]).report.good
        return
    with pytest.raises(UsageError, match=message):
        made(ExportRequest(lab(), **settings), [queue_file(tmp_path)])


def test_a_file_of_queues_that_is_wrong_is_refused_with_its_line(tmp_path: Path) -> None:
    path = queue_file(tmp_path)
    path.write_text(path.read_text().replace("nominalQuota: 64Gi", "nominalquota: 64Gi"))
    with pytest.raises(UsageError, match=r"queues.yaml:15.*nominal"):
        made(ExportRequest(lab(), queue="main"), [path])
    with pytest.raises(NotFoundError):
        made(ExportRequest(lab(), queue="main"), [tmp_path / "none.yaml"])


# Settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"namespace": "a" * 64}, "--namespace"),
        ({"namespace": "Team"}, "--namespace"),
        ({"queue": "team."}, "--queue"),
        ({"priority": "x"}, "--priority without --queue"),
        ({"queue": "team", "priority": "high"}, "no such WorkloadPriorityClass"),
        ({"image": "no image"}, "not a reference"),
        ({"image": ":1"}, "not a reference"),
        ({"code_source": "image"}, "--code image without --image"),
        ({"storage": "/tmp"}, "--storage"),
        ({"storage": "s3://"}, "--storage"),
        ({"endpoint": "minio:9000"}, "--endpoint"),
        ({"memory": 1024}, "--memory-per-worker"),
        ({"runtime_class": "a b"}, "--runtime-class"),
    ],
)
def test_settings_that_no_cluster_takes_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        made(ExportRequest(lab(), **settings))


@pytest.mark.parametrize(
    "image",
    [
        "rayproject/ray:2.60.0-py311-gpu",
        "host.example:5000/raylab/ray:0.1.0-cuda",
        "team/own:2026-11",
        f"team/own@sha256:{'0' * 64}",
    ],
)
def test_images_of_any_registry_are_taken(image: str) -> None:
    (cluster,) = objects(made(ExportRequest(lab(), image=image)), "RayCluster")
    assert cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] == image


def test_the_ray_of_the_manifests_is_the_one_that_the_lab_pins() -> None:
    with open(environment.requirements_of("local", environment.ROOT)) as file:
        pins = [line.split(" ;")[0].strip() for line in file]
    assert f"ray=={RAY_VERSION}" in pins
    assert "ray" in pinned("\n".join(pins))


# Code


def test_a_recipe_is_told_where_its_checkpoints_go() -> None:
    code = code_of("raylab", recipe_of("digits", {"epochs": "3"}, "s3://box/f", 2))
    assert code.command[:2] == ("python", "/opt/raylab/job/train.py")
    assert code.command[-2:] == ("--storage", "s3://box/f")
    assert set(code.files) == {"common.py", "neighbours.py", "steps.py", "train.py"}
    assert code.name == "raylab-digits"


@pytest.mark.parametrize(
    ("recipe", "ranks", "settings", "value"),
    [
        ("digits", "workers", {}, "4"),
        ("digits", "workers", {"workers": "3"}, "3"),
        ("llm-serve", "replicas", {}, "4"),
    ],
)
def test_the_nodes_that_train_all_have_a_rank(
    recipe: str, ranks: str, settings: dict[str, str], value: str
) -> None:
    command = recipe_of(recipe, settings, "s3://ray", 4).command
    assert command[command.index(f"--{ranks}") + 1] == value


def test_a_recipe_that_writes_to_one_place_only_is_refused_another() -> None:
    with pytest.raises(UsageError, match="has no parameter storage"):
        recipe_of("food11", {}, "s3://box", 2)


def script(folder: Path, command: tuple[str, ...], runtime_env: Path | None = None) -> Code:
    return code_of("raylab", described(command, folder, runtime_env=runtime_env))


def test_a_script_goes_along_with_its_folder(tmp_path: Path) -> None:
    for name in ("train.py", "sub/part.py", ".git/x", "__pycache__/y.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("pass\n")
    code = script(tmp_path, ("python", "./train.py", "--x", "1"))
    assert set(code.files) == {"train.py", "sub/part.py"}
    assert code.command == ("python", "/opt/raylab/job/train.py", "--x", "1")
    assert code.name == "raylab-train"


def test_what_is_not_sent_does_not_go_along(tmp_path: Path) -> None:
    for name in ("train.py", "x.log", ".env", "own/setup.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("*.log")
    assert set(script(tmp_path, ("python", "train.py")).files) == {
        "train.py",
        "own/setup.py",
    }
    for text in ('{"py_modules": ["own"]}', '{"pip": ["./own"]}'):
        (tmp_path / "env.json").write_text(text)
        with pytest.raises(UsageError, match=r"^runtime_env: "):
            script(tmp_path, ("python", "train.py"), tmp_path / "env.json")


def test_a_script_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="there is no script"):
        script(tmp_path, ("python", "no.py"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"big": b"x" * (1024**2 + 1)}, "holds 1048576"),
        ({"a b": b""}, "no key of its own for 'a b'"),
        ({"a/b": b"", "a.b": b""}, "no key of its own"),
    ],
)
def test_what_no_config_map_holds_is_refused(files: dict[str, bytes], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        config_map(Part("code", "name", "", files), ExportRequest(lab()))


def test_files_that_are_no_text_go_along_too() -> None:
    packed = config_map(Part("code", "name", "", {"a": b"\xff", "b": b"text"}), ExportRequest(lab()))
    assert (packed["binaryData"], packed["data"]) == ({"a": "/w=="}, {"b": "text"})
