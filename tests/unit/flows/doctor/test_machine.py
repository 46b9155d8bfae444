from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.patches import patches
from lab.flows.doctor import machine as checks
from lab.flows.doctor.machine import machine_checks, resource_warnings
from lab.flows.doctor.model import Facts, Tools
from lab.host.gpus import Detection, Gpu
from lab.topology import Check, Vendor

GOOD = Facts(
    python=(3, 11, 7),
    system="Linux",
    machine="x86_64",
    libc="glibc 2.36",
    memory_available=8 * 10**9,
    shm_free=10**9,
    home=Path("/labs"),
    home_error="",
    disk_free=80 * 10**9,
    disk_total=250 * 10**9,
    open_files=65536,
    now=1_800_000_000.0,
    newest_file=1_799_999_000.0,
    ray="2.60.0",
)
NONE = Tools(
    binaries={},
    docker="",
    docker_error="no daemon",
    nvidia=Detection(problem="no NVIDIA driver"),
    amd=Detection(problem="no AMD driver"),
)
H200 = Gpu(Vendor.NVIDIA, "GPU-1", 0, "NVIDIA H200", 141 * 1024**3)


def test_a_good_machine_fails_nothing_and_every_check_says_what_it_saw() -> None:
    answers = machine_checks(GOOD, NONE, 2, "local", running=False)
    assert [check.outcome for check in answers if check.outcome not in ("passed", "skipped")] == []
    assert all(check.detail for check in answers)
    assert len({check.name for check in answers}) == len(answers)


def of_patches(facts: Facts) -> Check:
    return checks.patches_fit("patches", facts.unfit)


@pytest.mark.parametrize(
    ("check", "change", "outcome", "said"),
    [
        (checks.python, {"python": (3, 10, 0)}, "passed", "3.10.0"),
        (checks.python, {"python": (3, 13, 9)}, "passed", "3.13.9"),
        (checks.python, {"python": (3, 9, 18)}, "failed", "3.9.18"),
        (checks.python, {"python": (3, 14, 0)}, "failed", "3.10 to 3.13"),
        (checks.platform, {}, "passed", "Linux x86_64 glibc 2.36"),
        (checks.platform, {"machine": "aarch64"}, "passed", "aarch64"),
        (checks.platform, {"machine": "riscv64"}, "failed", "riscv64"),
        (checks.platform, {"libc": ""}, "failed", "need glibc"),
        (checks.platform, {"system": "Darwin", "machine": "arm64", "libc": ""}, "warning", "tested on Linux"),
        (checks.platform, {"system": "Darwin", "machine": "x86_64", "libc": ""}, "failed", "Intel"),
        (checks.platform, {"system": "Windows", "machine": "AMD64", "libc": ""}, "failed", "on Windows"),
        (checks.platform, {"system": "FreeBSD", "libc": ""}, "failed", "FreeBSD"),
        (checks.disk, {}, "passed", "80.0 GB free in /labs"),
        (checks.disk, {"home_error": "no permission"}, "failed", "/labs cannot be written: no permission"),
        (checks.disk, {"disk_free": 10**9}, "warning", "1.0 GB free"),
        (checks.disk, {"disk_total": 4000 * 10**9}, "warning", "98% of the disk is used"),
        (checks.disk, {"disk_free": None}, "skipped", "is unknown"),
        (checks.open_files, {"open_files": 8192}, "passed", "8192"),
        (checks.open_files, {"open_files": 4096}, "warning", "4096"),
        (checks.open_files, {"open_files": None}, "skipped", "no such limit"),
        (checks.clock, {"now": 1_799_999_000.0 - 3600}, "passed", ""),
        (checks.clock, {"now": 1_799_999_000.0 - 30 * 86_400}, "warning", "30 days behind"),
        (checks.local_runtime, {"ray": "2.60.1"}, "passed", "2.60.1"),
        (checks.local_runtime, {"ray": ""}, "skipped", "not installed yet"),
        (checks.local_runtime, {"ray": "2.6.0"}, "failed", "2.6.0"),
        (checks.local_runtime, {"ray": "2.61.0"}, "failed", "2.61.0"),
        (of_patches, {}, "passed", f"all {len(patches())} find"),
        (
            of_patches,
            {"unfit": {"elastic": "x has no y"}},
            "warning",
            "elastic does not fit and is off (x",
        ),
        (of_patches, {"unfit": {"elastic": "x", "ray_start": "y"}}, "failed", "Ray would listen on every"),
    ],
)
def test_each_fact_of_the_machine_is_judged(
    check: Callable[[Facts], Check], change: Mapping[str, Any], outcome: str, said: str
) -> None:
    answer = check(replace(GOOD, **change))
    assert answer.outcome == outcome
    assert said in answer.detail
    if outcome == "failed":
        assert answer.hint, "a failed check says what to do"


@pytest.mark.parametrize(
    ("available", "workers", "running", "outcome", "number"),
    [
        (4_000_000_000, 2, False, "passed", "4.0 GB"),
        (3_999_000_000, 2, False, "warning", "takes 4.0 GB"),
        (2_800_000_000, 1, False, "passed", "takes 2.8 GB"),
        (2_800_000_000, 2, True, "passed", "takes 2.2 GB"),
        (2_000_000_000, 2, True, "warning", "2.0 GB available"),
        (None, 2, False, "skipped", ""),
    ],
)
def test_memory_is_judged_for_the_number_of_workers(
    available: int | None, workers: int, running: bool, outcome: str, number: str
) -> None:
    answer = checks.memory(replace(GOOD, memory_available=available), workers, running=running)
    assert answer.outcome == outcome
    assert number in answer.detail


@pytest.mark.parametrize(
    ("free", "workers", "running", "outcome", "number"),
    [
        (
            64 * 1024**2,
            2,
            False,
            "warning",
            "0.1 GB free in /dev/shm; the object stores of 3 nodes take 0.6 GB",
        ),
        (600 * 1024**2, 2, False, "passed", "0.6 GB"),
        (600 * 1024**2, 3, False, "warning", "4 nodes"),
        (64 * 1024**2, 2, True, "passed", "running lab"),
        (None, 2, False, "skipped", "no /dev/shm"),
    ],
)
def test_shared_memory_is_judged_for_the_object_stores_of_all_nodes(
    free: int | None, workers: int, running: bool, outcome: str, number: str
) -> None:
    answer = checks.shared_memory(replace(GOOD, shm_free=free), workers, running=running)
    assert answer.outcome == outcome
    assert number in answer.detail


def test_up_is_warned_of_what_is_short_and_of_nothing_else() -> None:
    assert resource_warnings(GOOD, 2) == ()
    short = replace(GOOD, memory_available=10**9, shm_free=1, disk_free=1, python=(3, 9, 0), open_files=1)
    assert [check.name for check in resource_warnings(short, 2)] == ["memory", "shared memory", "disk"]
    assert all(check.hint for check in resource_warnings(short, 2))


@pytest.mark.parametrize(
    ("name", "binaries", "outcome", "said"),
    [
        ("minio", {"minio": "/opt/minio"}, "passed", "/opt/minio"),
        ("minio", {}, "skipped", "moto's S3 server stands in"),
        ("prometheus", {"prometheus": "/opt/prometheus"}, "passed", "/opt/prometheus"),
        ("prometheus", {}, "skipped", "left out"),
    ],
)
def test_a_program_that_is_absent_is_skipped_with_what_stands_in(
    name: str, binaries: Mapping[str, str], outcome: str, said: str
) -> None:
    answer = checks.program(replace(NONE, binaries=binaries), name)
    assert (answer.outcome, said in answer.detail) == (outcome, True)


@pytest.mark.parametrize(
    ("unused_by", "version", "outcome"),
    [
        ("local", "", "skipped"),
        ("local", "28.2", "skipped"),
        ("", "28.2", "passed"),
        ("", "", "failed"),
    ],
)
def test_docker_matters_to_the_compose_runtime_only(unused_by: str, version: str, outcome: str) -> None:
    answer = checks.docker(replace(NONE, docker=version), unused_by)
    assert answer.outcome == outcome
    assert (f"Docker Engine {version} answers" if version else "no daemon") in answer.detail


@pytest.mark.parametrize(
    ("nvidia", "outcome", "said"),
    [
        (Detection((H200,)), "passed", "nvidia 0: NVIDIA H200, 141 GiB"),
        (Detection((H200,), "GPU 1 is left out: GPU is lost", "look at it"), "warning", "GPU 1 is left out"),
        (Detection(problem="no NVIDIA driver"), "skipped", "no NVIDIA driver; no AMD driver"),
        (Detection(), "skipped", "no AMD driver"),
    ],
)
def test_gpus_are_listed_and_their_absence_is_explained(nvidia: Detection, outcome: str, said: str) -> None:
    answer = checks.gpu(replace(NONE, nvidia=nvidia))
    assert (answer.outcome, said in answer.detail) == (outcome, True)


def test_what_only_labs_of_processes_use_is_no_question_where_containers_run() -> None:
    asked = {answer.name for answer in machine_checks(GOOD, NONE, 2, "", running=False)}
    of_processes = {answer.name for answer in machine_checks(GOOD, NONE, 2, "local", running=False)} - asked
    assert of_processes == {"local runtime", "patches", "minio", "prometheus"}
