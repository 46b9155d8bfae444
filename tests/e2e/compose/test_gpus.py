"""NVIDIA's GPUs in containers, with a driver that is a file: labctl, Compose, Docker and Ray are real."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.runtime.compose import project, state
from lab.runtime.compose.images.model import LAB_IMAGE, lab_image
from lab.runtime.compose.state import ENV_FILE
from lab.services import HEAD, JUPYTER, worker
from lab.topology import Vendor
from tests.dashboard import Prometheus
from tests.e2e.compose.bench import UP_SECONDS, ContainerBench, docker
from tests.e2e.harness import PATIENCE
from tests.nvidia import GPUS, HOME, SLICES, Machine, needs_fake_nvidia
from tests.unit.test_docs import command_lines
from tests.waiting import eventually

W0, W1 = worker(0), worker(1)
IMAGE = lab_image(Vendor.NONE)
UP = ("up", "--gpu", "nvidia")
EXPORTER = """\
import http.server, subprocess
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        gpus = subprocess.check_output(["nvidia-smi", "-L"]).splitlines()
        self.send_response(200)
        self.end_headers()
        self.wfile.writelines(b"DCGM_FI_DEV_GPU_TEMP{gpu=\\"%d\\"} 40\\n" % i for i, _ in enumerate(gpus))
http.server.HTTPServer(("", 9400), Page).serve_forever()
"""
"""Stands in for NVIDIA's, whose image needs a registry: the temperature of each GPU that it has."""
SEES_NONE = 17
NO_GPU = 14


class GpuBench(ContainerBench):
    """A lab on the machine with NVIDIA's GPUs, on which nothing can be computed."""

    @property
    def environment(self) -> dict[str, str]:
        shell = super().environment
        path = f"{HOME / 'bin'}:{shell['PATH']}"
        return {**shell, "PATH": path, "LD_LIBRARY_PATH": str(HOME / "lib"), LAB_IMAGE: IMAGE}

    def gpus(self, *more: str, code: int = 0) -> Any:
        """The document of `labctl gpus`."""
        return self.labctl("gpus", "--json", *more, code=code).document

    def state(self, gpu: str, check: str) -> str:
        """What health says of a GPU after a check, as `EVICT: message`."""
        devices = self.labctl("health", "--json").document["devices"]
        (checks,) = (device["checks"] for device in devices if device["device"] == gpu)
        answer = next(result for result in checks if result["name"] == check)
        return f"{answer['state']}: {answer['message']}"

    def fails_without_a_gpu_that_computes(self, job: str) -> None:
        """Wait for the failure of a training that wants GPUs; its cause is PyTorch's build, or the GPU."""
        ask = ("python", "-c", "import torch; print(torch.version.cuda or '')")
        build = docker("exec", self.container(W0), *ask, timeout=PATIENCE).strip()
        ended = self.lab.jobs.wait(job, PATIENCE)
        explanation, log = self.lab.why_failed(ended), self.lab.jobs.logs(job)
        assert explanation is not None, log[-3000:]
        causes = {"no-gpu", "gpu-driver"} if build else {"cpu-build"}
        assert explanation.cause.name in causes, log[-3000:]
        assert build or "its nvidia GPUs need the build cuda" in log


@pytest.fixture(scope="module")
def machine(engine: None) -> Iterator[Machine]:
    """A machine with two GPUs."""
    needs_fake_nvidia(IMAGE)
    machine = Machine()
    machine.has(*GPUS[:2])
    yield machine
    machine.remove()


@pytest.fixture(scope="module")
def lab(machine: Machine, home: Path) -> Iterator[GpuBench]:
    """A lab with a GPU for each of its two workers."""
    bench = GpuBench(home, "gpu")
    with bench.up(*UP):
        yield bench


@pytest.fixture
def other(machine: Machine, home: Path) -> Iterator[GpuBench]:
    """A second lab, not up yet."""
    bench = GpuBench(home, "gpu")
    yield bench
    bench.remove()


def test_the_engine_refuses_a_gpu_that_is_not_there(machine: Machine) -> None:
    docker("run", "--rm", "--gpus", f"device={GPUS[7]}", IMAGE, "true", code=125)


def test_a_container_has_the_slice_that_it_asks_for_and_no_other(machine: Machine) -> None:
    machine.has(*GPUS[:2], slices=SLICES[:2])
    shown = docker("run", "--rm", "--gpus", f"device={SLICES[1]}", IMAGE, "nvidia-smi", "-L")
    machine.has(*GPUS[:2])
    assert [line.split("UUID: ")[1] for line in shown.splitlines()] == [f"{GPUS[0]})", f"{SLICES[1]})"]


COMMANDS = [
    line for page, line in command_lines() if page == "docs/gpus.md" and line.split()[1] in ("gpus", "up")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_does_what_it_says(other: GpuBench, machine: Machine, command: str) -> None:
    """Each is typed, on a machine that has the GPUs of the page; `up` starts nothing here."""
    called = [f"GPU-{begin}{GPUS[0][8:]}" for begin in ("5c0d", "8e1a", "77aa", "88bb")]
    machine.has(*(called if "--share-gpu" not in command else called[:1]))
    words = shlex.split(command)[1:]
    if words[0] != "up":
        other.labctl(*words)
    else:
        other.labctl(*words, "--dry-run")
        env = (other.folder / ENV_FILE).read_text()
        assert f"LAB_WORKER_0_GPU={called[0]}" in env.replace("'", "").replace('"', "")
    machine.has(*GPUS[:2])


def test_each_worker_sees_its_own_gpu_and_no_other_service_has_one(lab: GpuBench) -> None:
    assert lab.healthy()
    document = lab.gpus()
    assert [(gpu["uuid"], gpu["lab"]) for gpu in document["gpus"]] == [(uuid, lab.name) for uuid in GPUS[:2]]
    assert [view["planned"] for view in document["lab"]["workers"]] == list(GPUS[:2])
    assert [view["sees"][0]["gpu"] for view in document["lab"]["workers"]] == [uuid[4:] for uuid in GPUS[:2]]
    assert {len(view["sees"]) for view in document["lab"]["workers"]} == {1}
    for service in (HEAD, JUPYTER, "queue", "metrics"):
        said = lab.exec(service, "python", "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')", code=1)
        assert said == "", "the traceback goes to stderr"


def test_nvidia_smi_is_typed_in_a_worker_and_read(lab: GpuBench) -> None:
    """`docker exec -it CONTAINER nvidia-smi`, in a terminal."""
    name = lab.containers()[W1]["Name"].lstrip("/")
    assert name == f"{lab.project}-{W1}-1"
    terminal, child = os.openpty()
    argv = ("docker", "exec", "-it", name, "nvidia-smi")
    ended = subprocess.run(argv, stdin=child, stdout=child, stderr=child, timeout=60, check=False)
    os.close(child)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert ended.returncode == 0, shown
    assert "Driver Version: 580.65.06" in shown
    rows = [line for line in shown.splitlines() if "H100" in line]
    assert len(rows) == 1
    assert all(word in rows[0] for word in ("40C", "1024MiB / 81559MiB", "42%"))
    assert lab.exec(W1, "nvidia-smi", "-L") == f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {GPUS[1]})\n"


def test_top_shows_the_load_of_a_gpu(lab: GpuBench, machine: Machine) -> None:
    def load(service: str) -> Any:
        nodes = lab.labctl("top", "--json").document["nodes"]
        return next(node for node in nodes if node["service"] == service)["gpus"]

    machine.change(GPUS[0], utilization=97, used=70000)
    (gpu,) = eventually(
        lambda: [g for g in load(W0) if g["utilization"] == 97], PATIENCE, "Ray tells the load"
    )
    assert gpu["memory_used"] == 70000 << 20
    assert [g["utilization"] for g in load(W1)] == [42]
    machine.change(GPUS[0], utilization=42, used=1024)


def test_a_second_lab_is_refused_the_same_gpus_and_offered_free_ones(
    lab: GpuBench, other: GpuBench, machine: Machine
) -> None:
    refused = other.labctl(*UP, code=NO_GPU)
    assert f"error: --gpu nvidia: 2 NVIDIA GPUs held by lab {lab.name}\n" in refused.err
    assert f"`labctl down --lab {lab.name}` frees it" in refused.err
    named = other.labctl("up", "--gpus", "1", "--workers", "1", code=NO_GPU)
    assert f"error: GPU {GPUS[1]} is held by lab {lab.name}\n" in named.err
    assert other.leftovers() == []
    machine.has(*GPUS[:4])
    planned = other.gpus("--gpu", "nvidia")["plan"]["assignments"]
    assert [worker["gpu"] for worker in planned] == list(GPUS[2:4])
    machine.has(*GPUS[:2])


def test_a_gpu_that_falls_sick_in_the_middle_is_told_and_gets_well(lab: GpuBench, machine: Machine) -> None:
    eventually(lambda: lab.state(GPUS[0], "ecc") == "PASS: ", PATIENCE, "the first check")
    machine.change(GPUS[0], ecc=2)
    sick = "EVICT: 2 uncorrected memory errors since the driver was loaded"
    eventually(lambda: lab.state(GPUS[0], "ecc") == sick, PATIENCE, "the agent sees the errors")
    assert lab.state(GPUS[1], "ecc").startswith("PASS")
    machine.change(GPUS[0], ecc=0)
    eventually(lambda: lab.state(GPUS[0], "ecc").startswith("PASS"), PATIENCE, "the agent sees it well")


def test_a_gpu_that_disappears_is_missed_by_name(lab: GpuBench, machine: Machine) -> None:
    machine.change(GPUS[1], lost=1)
    document = lab.gpus(code=SEES_NONE)
    problems = {view["service"]: view["problem"] for view in document["lab"]["workers"]}
    assert problems == {W0: "", W1: "sees no GPU (CUDA's driver is here but sees no GPU)"}
    assert "GPU 1 is left out: GPU is lost" in document["problems"]
    lost = "EVICT: the GPU does not answer"
    eventually(lambda: lab.state(GPUS[1], "ecc").startswith(lost), PATIENCE, "the agent misses it")
    machine.change(GPUS[1], lost=0)
    lab.gpus()


@pytest.mark.rare
@pytest.mark.parametrize("job", ["digits", "two ranks with half a GPU each"])
def test_a_training_on_a_gpu_that_does_not_compute_fails_with_the_cause(lab: GpuBench, job: str) -> None:
    started = lab.digits(epochs=1) if job == "digits" else lab.submit("shares_a_gpu.py", "it is")
    lab.fails_without_a_gpu_that_computes(started)


@pytest.mark.rare
def test_two_labs_run_beside_each_other_on_gpus_of_their_own(
    lab: GpuBench, other: GpuBench, machine: Machine
) -> None:
    machine.has(*GPUS)
    other.labctl(*UP, "--plain-names", timeout=UP_SECONDS)
    assert [view["planned"] for view in other.gpus()["lab"]["workers"]] == list(GPUS[2:4])
    typed = (("exec",), ("compose", "--project-name", other.project, "exec", "-T"))
    for words in typed:  # as docs/lessons.md has them
        assert GPUS[3] in docker(*words, W1, "nvidia-smi", "-L")
    assert {gpu["uuid"]: gpu["lab"] for gpu in lab.gpus()["gpus"]} == {
        **dict.fromkeys(GPUS[:2], lab.name),
        **dict.fromkeys(GPUS[2:4], other.name),
        **dict.fromkeys(GPUS[4:]),
    }
    other.labctl("down")
    assert [gpu["lab"] for gpu in lab.gpus()["gpus"]][2:4] == [None, None]
    machine.has(*GPUS[:2])


@pytest.mark.rare
def test_dcgms_exporter_is_added_as_the_page_says_scraped_and_ended_with_the_lab(
    other: GpuBench, machine: Machine, tmp_path: Path
) -> None:
    machine.has(*GPUS[:4])
    other.labctl(*UP, timeout=UP_SECONDS)
    current = state.load(other.folder)
    assert current is not None
    service = {"image": IMAGE, "command": ["python", "-c", EXPORTER]}
    stand_in = tmp_path / "stand-in.json"
    stand_in.write_text(json.dumps({"services": {"dcgm-exporter": service}}))
    call = project.command_line(current, other.folder)
    files = ("--file", str(project.COMPOSE / "dcgm.yaml"), "--file", str(stand_in))
    up = ("up", "--detach", "--wait", "--no-deps", "dcgm-exporter", "prometheus")
    docker(*call[1 : call.index("up")], *files, *up, timeout=UP_SECONDS)
    prometheus = Prometheus(other.lab.endpoints().prometheus)

    def gpus() -> int:
        return len(prometheus.series('DCGM_FI_DEV_GPU_TEMP{job="dcgm"}'))

    eventually(lambda: gpus() == 4, PATIENCE, "Prometheus knows every GPU of the machine")
    other.labctl("down")
    assert other.leftovers() == []
    machine.has(*GPUS[:2])


@pytest.mark.rare
def test_workers_share_the_one_gpu_that_is_free(lab: GpuBench, other: GpuBench, machine: Machine) -> None:
    machine.has(*GPUS[:3])
    other.labctl(*UP, "--share-gpu", timeout=UP_SECONDS)
    views = other.gpus()["lab"]["workers"]
    assert [view["sees"][0]["gpu"] for view in views] == [GPUS[2][4:]] * 2
    environment = other.exec(HEAD, "printenv", "RAYLAB_GPU_SHARED")
    assert environment == "1\n"
    other.fails_without_a_gpu_that_computes(other.digits(epochs=1, workers=2))
    machine.has(*GPUS[:2])


@pytest.mark.rare
def test_each_worker_gets_a_slice_of_a_gpu_in_mig_mode(
    lab: GpuBench, other: GpuBench, machine: Machine
) -> None:
    machine.has(GPUS[2], *GPUS[:2], slices=SLICES[:2])
    other.labctl(*UP, timeout=UP_SECONDS)
    views = other.gpus()["lab"]["workers"]
    assert [view["sees"] for view in views] == [
        [{"gpu": uuid[4:], "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}] for uuid in SLICES[:2]
    ]
    assert SLICES[1] in other.exec(W1, "nvidia-smi", "-L")
    assert SLICES[0] not in other.exec(W1, "nvidia-smi", "-L")
    machine.has(*GPUS[:2])
