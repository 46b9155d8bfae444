"""The command lines and environments of the local runtime's services."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import ray_settings
from lab.errors import UsageError
from lab.extension import probes
from lab.host.secrets import JUPYTER_FILE, Secrets
from lab.runtime.local import prometheus
from lab.runtime.local.layout import Layout
from lab.runtime.local.processes import MARK
from lab.runtime.local.services import (
    FORKS,
    ServicePlan,
    client_environment,
    services_of,
)
from lab.services import ALERTMANAGER, HEAD, HUB, JUPYTER, METRICS, PROMETHEUS, QUEUE, STORE, worker
from lab.topology import Credentials, GpuAssignment, GpuPlan, LabSpec, Vendor
from raylab_switches import PATCHES, active
from tests.conftest import ROOT

W0, W1 = worker(0), worker(1)
PORTS = {"dashboard": 1, "gcs": 2, "client": 3, "s3": 4, "jupyter": 5, "prometheus": 6, "metrics": 7}
SECRETS = Secrets(
    store=Credentials("the-access-key", "the-secret-key"),
    ray_token="the-ray-token",
    jupyter_token="the-jupyter-token",
    root=Credentials("the-root-user", "the-root-password"),
    grafana_password="the-grafana-password",
)

SECRET_WORDS = ("the-access-key", "the-secret-key", "the-ray-token", "the-jupyter-token", "the-root-password")


def plan(vendor: Vendor = Vendor.NONE, gpus: dict[str, str] | None = None, **changes: Any) -> ServicePlan:
    assignments = tuple(GpuAssignment(service, gpu) for service, gpu in (gpus or {}).items())
    spec = LabSpec(gpu=GpuPlan(vendor, assignments), stock_ray=changes.pop("stock_ray", False))
    layout = Layout(Path("/labs/raylab"), Path("/tmp/r"), Path("/tmp/r-tmp"))
    return ServicePlan(
        **{"spec": spec, "ports": PORTS, "layout": layout, "secrets": SECRETS, "store": "moto", **changes}
    )


def test_the_hub_is_told_of_its_lab_and_knows_no_secret_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the-ray-token")
    ports = {**PORTS, "queue": 8, "gateway": 9, "hub": 10, "hub-api": 11}
    made = plan(spec=LabSpec(classroom=True, hub=True), ports=ports)
    assert HUB in services_of(made.spec, ports)
    command = made.command(HUB)
    said = " ".join([*command.argv, *command.environment.values()])
    assert [secret for secret in SECRET_WORDS if secret in said] == []
    hub = json.loads(command.environment["RAYLAB_HUB"])
    assert (hub["port"], hub["api_port"], hub["host"]) == (10, 11, "127.0.0.1")
    assert (hub["gateway"], hub["store"]) == ("http://127.0.0.1:9", "http://127.0.0.1:4")
    assert hub["page"] == "http://127.0.0.1:9/class/"
    assert made.command(JUPYTER).environment["RAYLAB_CLASS_URL"] == hub["page"]
    assert (hub["folder"], hub["people"]) == ("/labs/raylab/hub", "/labs/raylab/people")
    assert hub["mark"] == command.environment[MARK] == "/labs/raylab:hub"


def test_a_lab_without_the_hub_has_nothing_of_it() -> None:
    ports = {**PORTS, "queue": 8, "gateway": 9}
    assert HUB not in services_of(LabSpec(classroom=True), ports)
    with pytest.raises(UsageError, match="--hub"):
        LabSpec(hub=True)


def every(plan: ServicePlan) -> dict[str, Any]:
    return {service: plan.command(service) for service in services_of(plan.spec, plan.ports)}


def test_the_services_depend_on_what_there_is() -> None:
    charts = {name: PORTS[name] for name in ("prometheus", "metrics")}
    without = {name: number for name, number in PORTS.items() if name not in charts}
    assert services_of(LabSpec(), without) == (STORE, JUPYTER, HEAD, W0, W1)
    assert services_of(LabSpec(), PORTS) == (STORE, PROMETHEUS, METRICS, JUPYTER, HEAD, W0, W1)


@pytest.mark.parametrize("store", ["minio", "moto"])
def test_no_secret_is_on_a_command_line_where_every_user_could_read_it(store: str) -> None:
    for command in every(plan(store=store, minio="/bin/minio", prometheus="/bin/prometheus")).values():
        assert not any(word.find("the-") >= 0 for word in command.argv), command.argv


def test_the_controller_of_the_queues_keeps_its_state_in_the_labs_folder() -> None:
    made = plan(Vendor.AMD, ports={**PORTS, "queue": 8})
    command = made.command(QUEUE)
    assert command.argv[1:] == (
        *("-m", "lab.daemons.queue", "--listen", "127.0.0.1:8"),
        *("--folder", "/labs/raylab/queue"),
    )
    assert (command.cwd / "lab" / "daemons" / "queue" / "__main__.py").is_file()
    environment = command.environment
    assert environment["RAY_API_SERVER_ADDRESS"] == "http://127.0.0.1:1"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4"
    assert environment["RAYLAB_GPU"] == "amd"
    assert "RAYLAB_QUEUED_ONLY" not in environment


def test_the_controller_of_the_queues_is_told_that_jobs_come_only_through_them() -> None:
    made = plan(spec=LabSpec(queued_only=True), ports={**PORTS, "queue": 8})
    assert made.command(QUEUE).environment["RAYLAB_QUEUED_ONLY"] == "1"


def test_every_service_carries_the_mark_of_its_lab() -> None:
    for service, command in every(plan(prometheus="/bin/prometheus")).items():
        assert command.environment[MARK] == f"/labs/raylab:{service}"


@pytest.mark.parametrize("store", ["minio", "moto"])
def test_every_service_listens_on_loopback_only(store: str) -> None:
    commands = every(plan(store=store, minio="/bin/minio", prometheus="/bin/prometheus"))

    text = {service: " ".join(command.argv) for service, command in commands.items()}
    assert all("127." in line and "0.0.0.0" not in line for line in text.values())
    assert "--dashboard-host=127.0.0.1" in text[HEAD]
    assert "--node-ip-address=127.0.0.1" in text[W0]


def test_what_ranks_listen_on_is_loopback_whatever_the_caller_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    for service in (HEAD, W0, FORKS, JUPYTER):
        environment = plan().command(service).environment
        assert environment["NCCL_SOCKET_IFNAME"] in ("=lo", "=lo0")
        assert environment["GLOO_SOCKET_IFNAME"] == environment["TP_SOCKET_IFNAME"] in ("lo", "lo0")
        assert environment["NCCL_DEBUG"] == "INFO"


def test_the_environment_of_the_caller_does_not_leak_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "PYTHONPATH", "AWS_PROFILE", "CUDA_VISIBLE_DEVICES", "RAY_worker_niceness"):
        monkeypatch.setenv(name, "from-outside")
    monkeypatch.setenv("https_proxy", "http://proxy")
    monkeypatch.setenv("PATH", "/some/bin")

    for service, command in every(plan()).items():
        assert "from-outside" not in command.environment.values(), service
        assert command.environment["https_proxy"] == "http://proxy"
        assert command.environment["PATH"].split(os.pathsep)[-1] == "/some/bin"


def test_the_head_takes_no_training_and_the_workers_take_what_the_spec_says() -> None:
    commands = every(plan(memory_bytes=1000))

    assert {"--head", "--num-cpus=0", "--num-gpus=0", "--port=2", "--memory=1000"} <= {*commands[HEAD].argv}
    assert {"--address=127.0.0.1:2", "--num-cpus=8", "--num-gpus=0"} <= {*commands[W0].argv}
    assert f"--node-name={W1}" in commands[W1].argv


@pytest.mark.parametrize(
    ("vendor", "variable"), [(Vendor.NVIDIA, "CUDA_VISIBLE_DEVICES"), (Vendor.AMD, "HIP_VISIBLE_DEVICES")]
)
def test_a_worker_sees_its_own_gpu_and_the_others_none(vendor: Vendor, variable: str) -> None:
    commands = every(plan(vendor, {W0: "GPU-1"}))

    assert commands[W0].environment[variable] == "GPU-1"
    assert commands[W1].environment[variable] == commands[HEAD].environment[variable] == ""
    assert "--num-gpus=1" in commands[W0].argv
    assert "--num-gpus=0" in commands[W1].argv


def test_nodes_are_told_that_workers_share_a_gpu() -> None:
    commands = every(plan(Vendor.NVIDIA, {W0: "GPU-1", W1: "GPU-1"}))
    assert {commands[name].environment["RAYLAB_GPU_SHARED"] for name in (HEAD, W0, W1)} == {"1"}
    assert commands[W0].environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert commands[W1].environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"

    own = every(plan(Vendor.NVIDIA, {W0: "GPU-1", W1: "GPU-2"}))
    assert not any("RAYLAB_GPU_SHARED" in command.environment for command in own.values())


def test_jupyter_reads_its_token_from_the_secret_file_and_no_settings_of_the_users_own_jupyter() -> None:
    jupyter = plan().command(JUPYTER).environment
    names = {name for name in jupyter if name.startswith("JUPYTER_")}
    own = {name for name in names if jupyter[name].startswith("/labs/raylab/jupyter/")}

    assert own == {"JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"}
    assert jupyter["JUPYTER_TOKEN_FILE"] == str(plan().layout.secrets / JUPYTER_FILE)
    assert names - own == {"JUPYTER_TOKEN_FILE", "JUPYTER_CONFIG_PATH"}
    assert (Path(jupyter["JUPYTER_CONFIG_PATH"]) / "jupyter_server_config.json").is_file()


def test_simulated_gpus_are_logical_ones() -> None:
    command = plan(Vendor.SIMULATED, {W0: "", W1: ""}).command(W0)

    assert "--num-gpus=1" in command.argv
    assert command.environment["RAYLAB_GPU"] == "simulated"


def test_the_knobs_reach_the_nodes_unless_rays_own_settings_are_wanted() -> None:
    assert ray_settings.environment().items() <= plan().command(HEAD).environment.items()
    stock = plan(stock_ray=True).command(HEAD).environment
    assert {knob.name for knob in ray_settings.KNOBS} & stock.keys() == {
        knob.name for knob in ray_settings.PRIVATE
    }


@pytest.mark.parametrize("service", [HEAD, W0, JUPYTER])
def test_with_stock_ray_only_patches_are_on_that_have_a_reason_to_stay(service: str) -> None:
    own = {W0: "GPU-0", W1: "GPU-1"}
    for lab in (plan(stock_ray=True), plan(Vendor.NVIDIA, own, stock_ray=True)):
        environment = lab.command(service).environment
        assert all(patch.stays for patch in PATCHES if active(patch.name, environment))
        assert "RAY_DEDUP_LOGS" not in environment


def test_minio_gets_its_key_by_environment_and_keeps_its_own_folder() -> None:
    command = plan(store="minio", minio="/bin/minio").command(STORE)

    assert command.environment["MINIO_ROOT_USER"] == "the-root-user"
    assert command.environment["MINIO_ROOT_PASSWORD"] == "the-root-password"
    assert command.argv[:3] == ("/bin/minio", "server", "/labs/raylab/objects/minio")
    own = command.argv[command.argv.index("--certs-dir") + 1]
    assert own == "/labs/raylab/minio-certificates", "it would speak TLS with certificates in ~/.minio"


def test_the_stand_in_store_reads_root_and_training_key_from_files() -> None:
    argv = plan().command(STORE).argv

    given = {name: file for name, file in itertools.pairwise(argv) if name.startswith("--")}
    assert given["--credentials"] == "/labs/raylab/secrets/s3.json"
    assert given["--root-user-file"] == "/labs/raylab/secrets/s3-root.user"
    assert given["--root-password-file"] == "/labs/raylab/secrets/s3-root.password"


def test_only_minio_gets_the_root_key() -> None:
    for name, command in every(plan(store="minio")).items():
        words = " ".join((*command.argv, *command.environment.values()))
        assert ("the-root" in words) is (name == STORE)


def test_a_client_finds_the_cluster_the_store_and_the_ledger() -> None:
    environment = client_environment(plan())

    assert environment["RAY_ADDRESS"] == "127.0.0.1:2"
    assert environment["RAY_AUTH_TOKEN_PATH"] == "/labs/raylab/secrets/ray.token"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4"
    assert environment["RAYLAB_LEDGER"] == "s3://ray/.raylab/ledger"
    roots = [Path(root) for root in environment["PYTHONPATH"].split(os.pathsep)]
    assert (roots[0] / "raylab_ledger" / "train.py").is_file()
    assert roots == list(probes())


def test_nodes_and_jupyter_find_the_data_sets_and_food_11() -> None:
    commands = every(plan())

    for service in (HEAD, W0, JUPYTER):
        environment = commands[service].environment
        assert environment["RAYLAB_DATA"] == "/labs/data"
        assert environment["FOOD11_DATA_DIR"] == "/labs/data/Food-11"


def test_jupyter_alone_can_import_the_lab_and_knows_which_it_runs_in() -> None:
    commands = every(plan())

    environment = commands[JUPYTER].environment
    assert str(ROOT) in environment["PYTHONPATH"].split(os.pathsep)
    named = {name: environment[name] for name in ("RAYLAB_HOME", "RAYLAB_NAME", "RAYLAB_RUNTIME")}
    assert named == {"RAYLAB_HOME": "/labs", "RAYLAB_NAME": "raylab", "RAYLAB_RUNTIME": "local"}
    assert [n for n, c in commands.items() if "RAYLAB_NAME" in c.environment] == [JUPYTER]


@pytest.mark.parametrize("name", ["TORCH_HOME", "HF_HOME"])
def test_jobs_find_models_where_the_users_own_are(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "/models")
    for service in (HEAD, W0, FORKS, JUPYTER):
        assert plan().command(service).environment[name] == "/models"


def test_jupyters_terminal_has_labctl_and_its_page_the_dashboard() -> None:
    environment = plan().command(JUPYTER).environment
    assert environment["PATH"].split(os.pathsep)[0] == "/labs/raylab/jupyter/bin"
    assert environment["LABCTL_NO_VENV"] == "1"
    assert environment["RAYLAB_DASHBOARD_URL"] == plan().url("dashboard")
    assert environment["RAYLAB_CLASS_URL"] == ""


def test_git_in_jupyters_terminal_does_not_find_the_checkout_that_its_folder_is_in() -> None:
    command = plan().command(JUPYTER)
    assert Path(command.environment["GIT_CEILING_DIRECTORIES"]) in command.cwd.parents


def test_prometheus_gets_the_containers_settings_with_this_labs_addresses_and_secrets() -> None:
    there = (ROOT / "compose" / "prometheus" / "prometheus.yml").read_text()
    text = prometheus.config(plan(prometheus="/bin/prometheus"))

    for container, here in {
        '"/run/secrets/ray.token"': '"secrets/ray.token"',
        '"/run/secrets/s3-metrics.token"': '"secrets/s3-metrics.token"',
        '"/run/*.targets.yml"': '"*.targets.yml"',
        '"http://ray-head:8265/api/prometheus/sd"': '"http://127.0.0.1:1/api/prometheus/sd"',
        '["minio:9000"]': '["127.0.0.1:4"]',
        '["metrics:9101"]': '["127.0.0.1:7"]',
        '["127.0.0.1:9090"]': '["127.0.0.1:6"]',
    }.items():
        assert there.count(container) == text.count(here) > 0
        assert container not in text
    assert "the-" not in text, "no secret stands in it"


WITH_ALERTS = {**PORTS, "alertmanager": 8}


def test_prometheus_sends_alerts_where_alertmanager_listens_and_nowhere_without_one() -> None:
    made = plan(prometheus="/bin/prometheus", alertmanager="/bin/am", ports=WITH_ALERTS)
    argv = made.command(ALERTMANAGER).argv
    (listening,) = [word.partition("=")[2] for word in argv if word.startswith("--web.listen-address=")]
    (group,) = yaml.safe_load(prometheus.config(made))["alerting"]["alertmanagers"]
    assert group["static_configs"] == [{"targets": [listening]}]
    assert "alerting" not in yaml.safe_load(prometheus.config(plan(prometheus="/bin/prometheus")))


def test_alertmanager_speaks_to_no_other_and_names_itself_as_browsers_reach_it() -> None:
    made = plan(prometheus="/bin/prometheus", alertmanager="/bin/am", ports=WITH_ALERTS)
    command = made.command(ALERTMANAGER)
    assert command.argv[0] == "/bin/am"
    assert {"--cluster.listen-address=", "--web.external-url=http://127.0.0.1:8/"} <= set(command.argv)
    assert command.cwd == made.layout.folder, "silences are kept with the lab"
    if sys.platform == "linux":
        guards = [word for word in made.command(METRICS).argv if "=http://" in word]
        assert [guard.partition("=")[0] for guard in guards] == ["127.0.0.1:6", "127.0.0.1:8"]


def test_alertmanagers_settings_are_those_that_the_caller_names(tmp_path: Path) -> None:
    assert "receiver: nobody" in prometheus.alerting({})
    own = tmp_path / "own.yml"
    own.write_text("route: {}")
    assert prometheus.alerting({"LAB_ALERTMANAGER_CONFIG": str(own)}) == "route: {}"
    with pytest.raises(UsageError, match="LAB_ALERTMANAGER_CONFIG"):
        prometheus.alerting({"LAB_ALERTMANAGER_CONFIG": str(tmp_path / "none.yml")})


def test_prometheus_shows_no_path_of_this_machine_and_answers_no_page_of_another_origin() -> None:
    made = plan(prometheus="/bin/prometheus")
    command = made.command(PROMETHEUS)

    assert command.cwd == made.layout.folder, "its paths are relative to it"
    assert not any(str(made.layout.folder) in word for word in command.argv)
    assert str(made.layout.folder) not in prometheus.config(made)
    assert command.environment["PWD"] == "/proc/self/cwd"
    assert "--web.cors.origin=none" in command.argv
    assert not [word for word in command.argv if "enable" in word]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has more than one loopback address")
def test_prometheus_listens_where_only_its_guard_knows() -> None:
    made = plan(prometheus="/bin/prometheus")
    (word,) = [
        argument for argument in made.command(PROMETHEUS).argv if argument.startswith("--web.listen-address=")
    ]
    behind = word.partition("=")[2]
    assert re.fullmatch(r"127\.\d+\.\d+\.\d+:6", behind)
    assert not behind.startswith("127.0.")
    assert made.command(METRICS).argv[-2:] == ("--guard", f"127.0.0.1:6=http://{behind}")
    other = plan(prometheus="/bin/prometheus", secrets=replace(SECRETS, ray_token="another"))
    assert f"={behind}" not in " ".join(other.command(PROMETHEUS).argv)
    alone = plan(prometheus="/bin/prometheus", ports={n: p for n, p in PORTS.items() if n != "metrics"})
    assert "--web.listen-address=127.0.0.1:6" in alone.command(PROMETHEUS).argv


def test_the_labs_metrics_are_served_where_there_is_a_prometheus_to_read_them() -> None:
    made = plan(prometheus="/bin/prometheus")
    command = made.command(METRICS)

    assert command.argv[1:5] == ("-m", "lab.daemons.metrics", "--listen", "127.0.0.1:7")
    assert (command.cwd / "lab" / "daemons" / "metrics" / "__main__.py").is_file()
    assert command.environment["RAY_API_SERVER_ADDRESS"] == "http://127.0.0.1:1"


def test_the_heads_own_metrics_have_ports_that_no_other_lab_of_the_host_has() -> None:
    ports = {**PORTS, "autoscaler-metrics": 8, "dashboard-metrics": 9}
    environment = plan(prometheus="/bin/prometheus", ports=ports).command(HEAD).environment

    assert (environment["AUTOSCALER_METRIC_PORT"], environment["DASHBOARD_METRIC_PORT"]) == ("8", "9")
    assert "DASHBOARD_METRIC_PORT" not in plan().command(HEAD).environment


def test_a_lab_that_was_started_without_a_port_for_its_metrics_goes_on_without_them() -> None:
    ports = {name: port for name, port in PORTS.items() if name != "metrics"}
    assert METRICS not in services_of(LabSpec(), ports)
