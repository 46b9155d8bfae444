"""A lab as a Compose project: what is generated, and that the files in compose/ say what the code says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import patches, ray_settings
from lab.runtime.compose import project, state
from lab.runtime.compose.engine import LEAST_COMPOSE
from lab.runtime.compose.project import COMPOSE, SETUP
from lab.runtime.compose.state import ComposeState
from lab.services import (
    ALERTMANAGER,
    GRAFANA,
    HEAD,
    HUB,
    JUPYTER,
    METRICS,
    PORTS,
    PROMETHEUS,
    PROXY,
    QUEUE,
    REDIS,
    STORE,
    is_node,
    worker,
)
from lab.topology import MAX_WORKERS, GpuPlan, LabSpec, Vendor
from lab.topology.address import Address
from lab.version import __version__
from tests.conftest import ROOT
from tests.docker import needs_docker
from tests.unit.runtime.compose.fake_docker import lab_state, spec


def made(lab: LabSpec, *added: str, left_out: tuple[str, ...] = ()) -> ComposeState:
    ports = dict.fromkeys((port.name for port in PORTS.values() if port.published), 20_000)
    return ComposeState(lab, ports, project.files(lab, added), {"LAB_IMAGE": "x:1"}, left_out)


def test_the_default_lab_is_the_project_raylab_and_others_carry_their_name() -> None:
    assert [project.project_name(name) for name in ("raylab", "other")] == ["raylab", "raylab-other"]


def test_the_usual_lab_needs_no_override() -> None:
    assert project.override(made(spec())) == {}


def test_one_worker_leaves_the_second_out() -> None:
    assert project.override(made(spec(workers=1))) == {"services": {worker(1): {"profiles": ["left-out"]}}}


def test_containers_are_called_as_in_the_course_where_it_is_asked_for() -> None:
    lab = made(replace(spec(workers=3), plain_names=True))
    added = project.override(lab)["services"]
    assert {name: service.get("container_name") for name, service in added.items()} == {
        name: name for name in project.services(lab)
    }
    assert "extends" in added[worker(2)]


def test_what_has_no_image_is_left_out() -> None:
    assert project.override(made(spec(), left_out=(GRAFANA,)))["services"] == {
        GRAFANA: {"profiles": ["left-out"]}
    }
    assert GRAFANA not in project.services(made(spec(), left_out=(GRAFANA,)))


@pytest.mark.parametrize("stock", [False, True])
def test_more_workers_are_like_the_first_but_for_their_name(stock: bool) -> None:
    third = project.override(made(replace(spec(workers=3), stock_ray=stock)))["services"][worker(2)]
    assert third["extends"] == {"file": str(COMPOSE / "lab.yaml"), "service": worker(0)}
    assert third["hostname"] == "ray-worker-2"
    assert "--node-name=ray-worker-2" in third["command"]
    assert "--num-gpus=1" in third["command"]
    assert third["environment"]["RAYLAB_SERVICE_NAME"] == worker(2)
    assert (third["environment"].get("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S") == "2.0") is stock


def test_the_heads_state_in_redis_is_one_more_file_and_service() -> None:
    kept = made(replace(spec(), gcs_ft=True))
    assert kept.files[-1] == "gcs-ft.yaml"
    assert project.services(kept).index(REDIS) < project.services(kept).index(HEAD)
    assert REDIS not in project.services(made(spec()))


def test_an_env_file_keeps_values_as_they_are() -> None:
    assert "LAB_NAME='a $b #c'\n" in project.env_text({"LAB_NAME": "a $b #c"})


def test_the_workspace_is_told_to_compose_as_a_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir(tmp_path)
    for chosen, meant in (("~/w", "/home/somebody/w"), ("w", f"{tmp_path}/w"), ("/w", "/w")):
        env = project.env(made(spec()), tmp_path, (1000, 1000), {"LAB_WORKSPACE": chosen})
        assert env["LAB_WORKSPACE"] == meant
    assert "LAB_WORKSPACE" not in project.env(made(spec()), tmp_path, (1, 1), {"LAB_WORKSPACE": ""})
    assert project.folder_path("~no such user/w") == tmp_path / "~no such user/w"


def test_of_the_callers_variables_memory_and_workspace_are_taken_over(tmp_path: Path) -> None:
    chosen = {"LAB_NODE_MEMORY": "6g", "LAB_NAME": "theirs", "PATH": "/bin"}
    env = project.env(made(spec()), tmp_path, (1000, 1000), chosen)
    assert (env["LAB_NODE_MEMORY"], env["LAB_NAME"]) == ("6g", "lab")
    assert "PATH" not in env


def test_jupyter_is_told_how_many_workers_there_are(tmp_path: Path) -> None:
    env = project.env(made(spec(workers=3)), tmp_path, (1000, 1000), {})
    assert env["LAB_WORKERS"] == "3"
    text = (COMPOSE / "lab.yaml").read_text()
    assert f"RAYLAB_WORKERS: ${{LAB_WORKERS:-{LabSpec.workers}}}" in text


def test_prometheus_lets_no_page_of_another_origin_read_it_and_nobody_end_it() -> None:
    command = yaml.safe_load((COMPOSE / "lab.yaml").read_text())["services"]["prometheus"]["command"]
    assert "--web.cors.origin=none" in command
    assert not [word for word in command if "enable" in word]


def test_labs_without_a_service_do_not_want_the_usual_port_of_it_all_of_them(tmp_path: Path) -> None:
    current = made(spec(), left_out=(ALERTMANAGER,))
    bare = replace(
        current, ports={name: port for name, port in current.ports.items() if name != "alertmanager"}
    )
    env = project.env(bare, tmp_path, (1000, 1000), {})
    assert (env["LAB_ALERTMANAGER_PORT"], env["LAB_PROMETHEUS_PORT"]) == (
        "0",
        str(current.ports["prometheus"]),
    )


def test_every_import_root_is_mounted_and_what_trains_has_all_that_the_callbacks_import() -> None:
    services = yaml.safe_load((COMPOSE / "lab.yaml").read_text())["services"]
    rooted = {name: s for name, s in services.items() if "PYTHONPATH" in (s.get("environment") or {})}
    assert "jupyter" in rooted
    for name, service in rooted.items():
        roots = service["environment"]["PYTHONPATH"].split(":")
        targets = {volume.split(":")[1] for volume in service.get("volumes", ())}
        assert [root for root in roots if not any(target.startswith(root) for target in targets)] == [], name
        if roots[0] == "/opt/raylab/probe":  # a node of Ray, or a driver of trainings
            assert "/opt/raylab/forkserver" in roots, name


def test_prometheus_and_grafana_are_not_reached_by_a_foreign_name() -> None:
    services = yaml.safe_load((COMPOSE / "lab.yaml").read_text())["services"]
    assert "ports" not in services["prometheus"]
    assert "ports" not in services["alertmanager"]
    assert {
        "--guard=0.0.0.0:9090=http://prometheus:9090",
        "--guard=0.0.0.0:9093=http://alertmanager:9093",
    } <= set(services["metrics"]["command"])
    environment = services["grafana"]["environment"]
    assert (environment["GF_SERVER_ENFORCE_DOMAIN"], environment["GF_SERVER_DOMAIN"]) == ("true", "127.0.0.1")


def test_every_container_is_on_the_labs_own_network_alone() -> None:
    for name in ("lab.yaml", "gcs-ft.yaml"):
        for service, settings in yaml.safe_load((COMPOSE / name).read_text())["services"].items():
            assert settings.get("networks", ["lab"]) == ["lab"], service
            assert "network_mode" not in settings, service
            assert all(port.startswith("127.0.0.1:") for port in settings.get("ports", ())), service


def test_rays_own_commands_find_the_cluster_in_every_container_where_a_person_has_a_shell() -> None:
    services = yaml.safe_load((COMPOSE / "lab.yaml").read_text())["services"]
    head = "ray-head:6379"
    assert f"--port={head.partition(':')[2]}" in services[HEAD]["command"]
    for name in (HEAD, worker(0), worker(1), "jupyter"):
        environment = services[name]["environment"]
        assert environment["RAY_AUTH_MODE"] == "token", name
        assert environment["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray.token", name
        assert "ray.token" in services[name]["secrets"], name
        assert environment["RAY_API_SERVER_ADDRESS"] == f"http://{HEAD}:8265", name
        address = environment["RAYLAB_GCS_ADDRESS" if name == "jupyter" else "RAY_ADDRESS"]
        assert address == head, f"`ray status` of {name}"


def test_ray_init_starts_no_second_ray_in_any_container_that_has_rays_token() -> None:
    services = yaml.safe_load((COMPOSE / "lab.yaml").read_text())["services"]
    tokens = {name: entry["environment"] for name, entry in services.items() if "RAY_AUTH_MODE" in str(entry)}
    assert {HEAD, worker(0), "jupyter", "queue", "metrics"} <= set(tokens)
    for name, environment in tokens.items():
        assert environment["RAY_ADDRESS"] in ("ray-head:6379", "ray://ray-head:10001"), name


def test_a_state_survives_its_file(tmp_path: Path) -> None:
    written = lab_state(tmp_path, notes=("a note",), images={"LAB_IMAGE": "x:1"})
    assert state.load(tmp_path) == written


def test_version_and_defaults_of_the_files_are_those_of_the_code() -> None:
    text = (COMPOSE / "lab.yaml").read_text()
    assert set(re.findall(r"raylab/ray:([\d.]+)-cpu", text)) == {__version__}
    assert f"RAY_TRAIN_CALLBACKS: {patches.callbacks()}\n" in text
    assert f"--num-cpus=${{LAB_CPUS_PER_WORKER:-{LabSpec.cpus_per_worker}}}" in text
    assert project.worker_command(worker(0), 0)[6] in text


@pytest.mark.parametrize("queued_only", [False, True])
def test_the_controller_of_the_queues_is_told_whether_jobs_come_only_through_them(
    config: Any, queued_only: bool
) -> None:
    queue = config(made(replace(spec(), queued_only=queued_only)))["services"][QUEUE]
    assert queue["environment"]["RAYLAB_QUEUED_ONLY"] == ("1" if queued_only else "")


def test_the_file_of_stock_ray_undoes_everything_that_the_code_says() -> None:
    document = yaml.safe_load((COMPOSE / "stock-ray.yaml").read_text())
    off = patches.switched_off(LabSpec(stock_ray=True), {})
    named = {"RAYLAB_PATCHES_OFF": f"${{LAB_PATCHES_OFF:-{off}}}"}
    environments = {name: service["environment"] for name, service in document["services"].items()}
    nodes = dict.fromkeys((HEAD, worker(0), worker(1)), named | ray_settings.stock_environment())
    assert environments == {JUPYTER: named, **nodes}


def test_the_env_file_says_which_patches_are_off(tmp_path: Path) -> None:
    def off(stock: bool, **chosen: str) -> str | None:
        current = made(replace(spec(workers=3), stock_ray=stock))
        return project.env(current, tmp_path, (1, 1), chosen).get("LAB_PATCHES_OFF")

    assert off(False) is None
    assert off(False, RAYLAB_PATCHES_OFF="elastic") == "elastic"
    assert off(True) == patches.switched_off(LabSpec(stock_ray=True), {})


def test_workers_of_a_lab_with_redis_say_so_though_the_files_do_not_name_them() -> None:
    third = project.override(made(replace(spec(workers=3), gcs_ft=True)))["services"][worker(2)]
    files = yaml.safe_load((COMPOSE / "gcs-ft.yaml").read_text())["services"]
    assert project.REDIS_PATCH.items() <= third["environment"].items()
    assert files[worker(0)]["environment"] == files[worker(1)]["environment"] == project.REDIS_PATCH
    assert project.REDIS_PATCH.items() <= files[HEAD]["environment"].items()


def test_a_class_with_an_address_has_its_proxy_and_publishes_that_one_port(tmp_path: Path) -> None:
    address = Address("class.example.org", 8443, "2001:db8::7")
    current = made(replace(spec(), classroom=True, address=address))
    assert current.files[-1] == "address.yaml"
    assert PROXY in project.services(current)
    assert PROXY not in project.services(made(replace(spec(), classroom=True)))
    variables = project.env(current, tmp_path, (1000, 1000), {})
    assert variables["LAB_ADDRESS_LISTEN"] == "[2001:db8::7]"
    assert (variables["LAB_ADDRESS_PORT"], variables["LAB_PROXY"]) == ("8443", str(tmp_path / "proxy"))


def test_a_class_with_a_hub_has_its_service_and_its_gateway_may_write_the_list(tmp_path: Path) -> None:
    current = made(replace(spec(), classroom=True, hub=True))
    assert current.files[-2:] == ("class.yaml", "hub.yaml")
    assert HUB in project.services(current)
    assert HUB not in project.services(made(replace(spec(), classroom=True)))
    variables = project.env(current, tmp_path, (1000, 1000), {"LAB_HUB_MEMORY": "16g"})
    assert (variables["LAB_HUB"], variables["LAB_HUB_MEMORY"]) == (str(tmp_path / "hub"), "16g")
    services = yaml.safe_load((COMPOSE / "hub.yaml").read_text())["services"]
    assert services["gateway"]["volumes"] == ["${LAB_PEOPLE:-./people}:/var/lib/raylab/people"]
    address = replace(current.spec, address=Address("class.example.org", 8443, "192.0.2.7"))
    page = project.env(made(address), tmp_path, (1000, 1000), {})["LAB_CLASS_PAGE"]
    assert page == "https://class.example.org:8443/class/"


def test_the_example_of_an_env_file_has_the_defaults_of_the_files() -> None:
    files = "".join(path.read_text() for path in COMPOSE.glob("*.yaml"))
    example = (COMPOSE / ".env.example").read_text()
    for name, value in re.findall(r"^(LAB_\w+)=(.+)$", example, re.MULTILINE):
        assert f"${{{name}:-{value}}}" in files, name
    assert set(re.findall(r"\$\{(LAB_\w+)", files)) - set(re.findall(r"(LAB_\w+)=", example)) <= {
        "LAB_FOLDER"
    }


# What Compose makes of them


@pytest.fixture
def config(tmp_path: Path) -> Any:
    """Reads a lab's project back through the real `docker compose config`."""
    needs_docker()

    def read(current: ComposeState, chosen: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        env_file = tmp_path / "compose.env"
        env_file.write_text(project.env_text(project.env(current, tmp_path, (1000, 1000), chosen or {})))
        added = project.override(current)
        (tmp_path / "compose.override.json").write_text(json.dumps(added))
        command = project.command_line(current, tmp_path)
        argv = [*command[: command.index("up")], "config", "--format", "json"]
        env = {name: value for name, value in os.environ.items() if not name.startswith("LAB_")}
        ended = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        answer: Mapping[str, Any] = json.loads(ended.stdout)
        return answer

    return read


def test_every_service_is_hardened_and_published_on_loopback_only(config: Any) -> None:
    for name, service in config(made(spec(workers=3)))["services"].items():
        assert service["init"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["user"] == "1000:1000", name
        assert int(service["mem_limit"]) > 0, name
        assert service["pids_limit"] > 0, name
        assert service["logging"]["options"]["max-size"], name
        assert service["labels"]["io.raylab.lab"] == "lab", name
        assert "container_name" not in service, name
        assert ":latest" not in service["image"], name
        assert re.search(r":[^:/]+", service["image"]), f"{name} has no version"
        assert {port["host_ip"] for port in service.get("ports", ())} <= {"127.0.0.1"}, name
        assert not [v for v in service.get("volumes", ()) if "docker.sock" in str(v.get("source"))], name
        mounted = [
            v for v in service.get("volumes", ()) if v["type"] == "bind" and v["target"] != "/workspace"
        ]
        assert all(volume["read_only"] for volume in mounted), name
        assert service["restart"] == ("no" if is_node(name) else "on-failure:3"), name
        assert ("healthcheck" in service) is (name != SETUP), name


def test_dcgms_exporter_is_pinned_and_hardened_but_for_its_user_and_is_scraped(config: Any) -> None:
    services = config(made(spec(), "dcgm.yaml"))["services"]
    exporter = services["dcgm-exporter"]
    assert (exporter["cap_drop"], exporter["user"]) == (["ALL"], "0:0")
    assert exporter["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in exporter
    assert re.search(r":\d[^:]+@sha256:[0-9a-f]{64}$", exporter["image"])
    assert exporter["labels"]["io.raylab.folder"]
    (group,) = yaml.safe_load((COMPOSE / "prometheus" / "dcgm.targets.yml").read_text())
    assert group["targets"] == [f"dcgm-exporter{exporter['environment']['DCGM_EXPORTER_LISTEN']}"]
    assert exporter["healthcheck"]["test"][-1].endswith(group["targets"][0].partition(":")[2])
    mounted = {volume["target"] for volume in services[PROMETHEUS]["volumes"]}
    jobs = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    (files,) = [job["file_sd_configs"][0]["files"] for job in jobs if "file_sd_configs" in job]
    assert [path for path in mounted for pattern in files if fnmatch(path, pattern)] == [
        "/run/dcgm.targets.yml"
    ]


@pytest.mark.parametrize("gcs_ft", [False, True])
def test_a_check_of_health_ends_itself(config: Any, gcs_ft: bool) -> None:
    """Docker gives up a check that takes too long and lets it run: on a busy machine they were its load."""
    for name, service in config(made(replace(spec(), gcs_ft=gcs_ft)))["services"].items():
        if check := service.get("healthcheck"):
            seconds = check["timeout"].removesuffix("s")
            assert check["test"][:5] == ["CMD", "timeout", "-s", "KILL", seconds], name


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("stock", [False, True])
def test_the_nodes_have_the_settings_that_the_code_says(config: Any, workers: int, stock: bool) -> None:
    services = config(made(replace(spec(workers=workers), stock_ray=stock)))["services"]
    nodes = [name for name in services if is_node(name)]
    assert nodes == [HEAD, *(worker(index) for index in range(workers))]
    wanted = ray_settings.environment() | (ray_settings.stock_environment() if stock else {})
    wanted["RAY_TRAIN_CALLBACKS"] = patches.callbacks()
    wanted["RAYLAB_PATCHES_OFF"] = patches.switched_off(LabSpec(stock_ray=stock), {})
    for name in ("RAY_TRAIN_CALLBACKS", "RAYLAB_PATCHES_OFF"):
        assert services[JUPYTER]["environment"][name] == wanted[name]
    for name in nodes:
        environment = services[name]["environment"]
        assert {key: environment.get(key) for key in wanted} == wanted, name
        assert environment["RAYLAB_SERVICE_NAME"] == name
        assert environment["RAYLAB_GPU"] == "simulated"
    for name in nodes[1:]:
        assert services[name]["command"] == [
            *(part if "LAB_CPUS" not in part else "--num-cpus=2" for part in project.worker_command(name, 1))
        ]
        assert services[name]["depends_on"][HEAD]["condition"] == "service_healthy"


def test_a_lab_without_gpus_offers_none(config: Any) -> None:
    plain = replace(spec(), gpu=GpuPlan(Vendor.NONE))
    for index in range(2):
        command = config(made(plain))["services"][worker(index)]["command"]
        assert "--num-gpus=0" in command


def test_root_of_the_store_is_known_to_the_store_and_its_set_up_only(config: Any) -> None:
    for files in ((), ("offline.yaml",)):
        services = config(made(spec(), *files))["services"]
        knowing = {
            name
            for name, service in services.items()
            if any(str(s["source"]).startswith("s3-root") for s in service.get("secrets", ()))
        }
        assert knowing == {STORE, SETUP}


@pytest.mark.parametrize("files", [(), ("offline.yaml",)])
def test_no_service_is_asked_for_through_a_companys_proxy(config: Any, files: tuple[str, ...]) -> None:
    services = config(made(spec(workers=MAX_WORKERS), *files))["services"]
    assert len(services) >= MAX_WORKERS + 6
    for name, service in services.items():
        for variable in ("NO_PROXY", "no_proxy"):
            direct = service["environment"][variable].split(",")
            assert {"localhost", "127.0.0.1", ALERTMANAGER, GRAFANA, *services} == set(direct), (
                name,
                variable,
            )
            assert len(direct) == len(set(direct))


def test_minio_and_its_stand_in_keep_their_objects_apart(config: Any) -> None:
    for files, volume in (((), "objects"), (("offline.yaml",), "objects-standin")):
        document = config(made(spec(), *files))
        for name in (STORE, SETUP):
            (data,) = [v for v in document["services"][name]["volumes"] if v["target"] == "/data"]
            assert data["source"] == volume, name
            assert data["volume"] == ({"nocopy": True} if name == STORE else {}), name
        assert document["volumes"][volume]["labels"]["io.raylab.lab"] == "lab"
        assert "io.raylab.folder" in document["volumes"][volume]["labels"]


@pytest.mark.parametrize("name", ["o'brien's", "a$HOME", "b c#d", "e'f $g\\h\"i", "j'k\\", "l\\n", 'm"n'])
def test_a_folder_of_any_name_reaches_compose(
    config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    checkout, workspace = tmp_path / name, tmp_path / name / "w"
    shutil.copytree(COMPOSE, checkout / "compose", ignore=shutil.ignore_patterns("secrets", ".env"))
    monkeypatch.setattr(project, "COMPOSE", checkout / "compose")
    services = config(made(spec(workers=3)), {"LAB_WORKSPACE": str(workspace)})["services"]
    mounted = {v["target"]: v["source"] for v in services["jupyter"]["volumes"]}
    assert mounted["/workspace"].replace("$$", "$") == str(workspace)
    for index in range(3):
        probe = services[worker(index)]["volumes"][0]["source"]
        assert probe.replace("$$", "$") == str(checkout / "lab/probe")


def test_nodes_and_jupyter_see_the_data_sets_read_only(config: Any, tmp_path: Path) -> None:
    services = config(made(spec(workers=3)))["services"]
    for name in (HEAD, *(worker(index) for index in range(3)), JUPYTER):
        (data,) = [v for v in services[name]["volumes"] if v["target"] == "/mnt"]
        assert (data["source"], data["read_only"]) == (str(tmp_path.parent / "data"), True), name
        environment = services[name]["environment"]
        assert (environment["RAYLAB_DATA"], environment["FOOD11_DATA_DIR"]) == ("/mnt", "/mnt/Food-11")


@pytest.mark.parametrize(
    ("service", "target", "opened_by"),
    [
        (GRAFANA, "/var/lib/grafana", SETUP),
        (ALERTMANAGER, "/alertmanager", METRICS),
        (PROMETHEUS, "/prometheus", METRICS),
    ],
)
def test_what_people_and_alerts_leave_is_in_a_volume_that_the_service_may_write_to(
    config: Any, service: str, target: str, opened_by: str
) -> None:
    """A new volume gets the mode of the folder that it is first mounted on: in the lab's image, of all."""
    document = config(made(spec()))
    services = document["services"]
    (kept,) = [v for v in services[service]["volumes"] if v["target"] == target]
    assert (kept["type"], kept["volume"]) == ("volume", {"nocopy": True})
    assert not services[service].get("tmpfs")
    (opened,) = [v for v in services[opened_by]["volumes"] if v["source"] == kept["source"]]
    assert opened["target"] in ("/data", "/workspace")
    assert not opened.get("read_only")
    assert document["volumes"][kept["source"]]["labels"]["io.raylab.lab"] == "lab"


def test_alertmanager_has_the_settings_that_the_caller_names(config: Any, tmp_path: Path) -> None:
    for chosen, file in (
        ({}, COMPOSE / "alertmanager" / "alertmanager.yml"),
        ({"LAB_ALERTMANAGER_CONFIG": str(tmp_path / "own.yml")}, tmp_path / "own.yml"),
    ):
        volumes = config(made(spec()), chosen)["services"][ALERTMANAGER]["volumes"]
        (settings,) = [v for v in volumes if v["target"] == "/etc/alertmanager/alertmanager.yml"]
        assert (settings["source"], settings["read_only"]) == (str(file), True)


def test_with_the_stand_in_store_what_is_left_out_does_not_run(config: Any) -> None:
    services = config(made(spec(), "offline.yaml", left_out=(ALERTMANAGER, GRAFANA)))["services"]
    assert not {ALERTMANAGER, GRAFANA} & set(services)
    assert services[STORE]["image"] == f"raylab/s3-standin:{__version__}"


def test_the_least_compose_version_is_stated_in_the_docs() -> None:
    least = ".".join(map(str, LEAST_COMPOSE))
    assert f"Compose {least} or newer" in (ROOT / "docs" / "commands.md").read_text()


def test_redis_is_kept_to_the_labs_network_and_its_password_to_files(config: Any) -> None:
    services = config(made(replace(spec(), gcs_ft=True)))["services"]
    redis, head = services[REDIS], services[HEAD]
    assert "ports" not in redis
    assert (redis["cap_drop"], redis["user"]) == (["ALL"], services[STORE]["user"])
    assert {s["source"] for s in redis["secrets"]} == {"redis.conf"}
    holders = {
        name
        for name, s in services.items()
        if {"redis.password"} & {x["source"] for x in s.get("secrets", ())}
    }
    assert holders == {HEAD}
    assert head["entrypoint"] == ["python", "-m", "raylab_patches.ray_start"]
    assert head["command"][:2] == ["ray", "start"]
    assert head["depends_on"][REDIS]["condition"] == "service_healthy"
