"""Checks of this machine. Pure functions of facts."""

from __future__ import annotations

from collections.abc import Mapping

from lab.cluster.patches import patches
from lab.flows.doctor.model import Facts, Tools
from lab.host.files import HOME_VARIABLE
from lab.host.gpus import Detection
from lab.host.quantities import plural
from lab.topology import OBJECT_STORE_BYTES, Check

OLDEST_PYTHON = (3, 10)
NEWEST_PYTHON = (3, 13)
"""Versions that the pinned requirements are made and tested for."""

RAY_SERIES = "2.60"
"""The probe works on Ray's inner parts, which differ from one series to the next."""

ARCHITECTURES = ("x86_64", "amd64", "aarch64", "arm64")

NODE_BYTES = 600 * 10**6
"""Memory of one idle node. Source: a head and two workers measured 1.8 GB in all."""

RANK_BYTES = 600 * 10**6
"""Memory of one training process. Source: one with Ray Train, torch and Lightning measured 0.56 GB."""

JOB_BYTES = 10**9
"""Memory of a job's driver, which imports the same, and of Ray Train's controller."""

DISK_BYTES = 2 * 10**9
"""Room for checkpoints and logs of a session; those of the recipes here are a few MB each."""

DISK_FULL_SHARE = 0.95
"""Share from which Ray calls a disk full and stops spilling to it (`local_fs_capacity_threshold`)."""

OPEN_FILES = 8192
"""Limit that Ray recommends when it warns (`ray/_private/worker.py`); it raises the limit itself."""

CLOCK_SLACK_SECONDS = 86_400
"""A clock may differ from that of the machine where labctl's files were written by their time zones."""

PROGRAMS = {
    "minio": "not on PATH: moto's S3 server stands in, with its objects on disk",
    "prometheus": "not on PATH: left out; Ray's dashboard then has no charts over time",
}
"""Program that the local runtime uses -> the consequence where it is not installed."""


def memory_needed(workers: int) -> int:
    """Bytes for a head, `workers` workers and one job with a rank on each."""
    return (workers + 1) * NODE_BYTES + workers * RANK_BYTES + JOB_BYTES


def shm_needed(workers: int) -> int:
    """Bytes of /dev/shm for the object stores of a head and `workers` workers."""
    return (workers + 1) * OBJECT_STORE_BYTES


def python(facts: Facts) -> Check:
    """Checks that labctl's requirements can be installed for this Python."""
    version = ".".join(map(str, facts.python))
    if OLDEST_PYTHON <= facts.python[:2] <= NEWEST_PYTHON:
        return Check("python", "passed", version)
    return Check("python", "failed", f"{version}; 3.10 to 3.13 is needed", "run labctl.py with one of these")


def platform(facts: Facts) -> Check:
    """Checks that Ray runs nodes on this system."""
    detail = " ".join(filter(None, (facts.system, facts.machine, facts.libc)))
    hint = "use Linux on x86-64 or ARM64 (WSL2 is one), or macOS on ARM64"
    if facts.system == "Windows":
        return Check("platform", "failed", f"{detail}: Ray has no clusters of several nodes on Windows", hint)
    if facts.machine.lower() not in ARCHITECTURES:
        return Check("platform", "failed", f"{detail}: Ray has no wheels for this architecture", hint)
    if facts.system == "Darwin":
        if facts.machine.lower() != "arm64":
            return Check("platform", "failed", f"{detail}: Ray has no wheels for Intel Macs", hint)
        return Check("platform", "warning", f"{detail}: labctl is tested on Linux")
    if facts.system != "Linux":
        return Check("platform", "failed", f"{detail}: Ray does not run here", hint)
    if not facts.libc.startswith("glibc"):
        return Check(
            "platform", "failed", f"{detail}: Ray's wheels need glibc", "use a distribution with glibc"
        )
    return Check("platform", "passed", detail)


def memory(facts: Facts, workers: int, *, running: bool = False) -> Check:
    """Checks that there is memory for a lab and training on it. A running lab has its own already."""
    if facts.memory_available is None:
        return Check("memory", "skipped", "this system does not report how much is available")
    needed = memory_needed(workers) - (0 if not running else (workers + 1) * NODE_BYTES)
    nodes = plural(workers, "worker")
    what = f"training on {nodes}" if running else f"a lab with {nodes} and training"
    detail = f"{_gb(facts.memory_available)} available; {what} takes {_gb(needed)}"
    if facts.memory_available >= needed:
        return Check("memory", "passed", detail)
    return Check("memory", "warning", detail, "close other programs, or use --workers 1")


def shared_memory(facts: Facts, workers: int, *, running: bool = False) -> Check:
    """Checks that /dev/shm holds the object stores of all nodes. Those of a running lab lie in it already."""
    if facts.shm_free is None:
        return Check("shared memory", "skipped", "there is no /dev/shm; Ray uses files instead")
    if running:
        return Check("shared memory", "passed", f"{_gb(facts.shm_free)} free, besides the running lab's")
    needed = shm_needed(workers)
    detail = (
        f"{_gb(facts.shm_free)} free in /dev/shm; the object stores of {workers + 1} nodes take {_gb(needed)}"
    )
    if facts.shm_free >= needed:
        return Check("shared memory", "passed", detail)
    return Check(
        "shared memory",
        "warning",
        f"{detail}; Ray will use slower files",
        "in a container, start it with --shm-size=1g; else remove what is left in /dev/shm",
    )


def disk(facts: Facts) -> Check:
    """Checks that labs can be kept in their folder, and that it has room."""
    other = f"choose another folder: export {HOME_VARIABLE}=/some/where"
    if facts.home_error:
        return Check("disk", "failed", f"{facts.home} cannot be written: {facts.home_error}", other)
    if facts.disk_free is None or not facts.disk_total:
        return Check("disk", "skipped", f"the size of the disk of {facts.home} is unknown")
    detail = f"{_gb(facts.disk_free)} free in {facts.home}"
    if facts.disk_free < DISK_BYTES:
        detail += f"; checkpoints and logs want {_gb(DISK_BYTES)}"
        return Check("disk", "warning", detail, f"free some space, or {other}")
    used = 1 - facts.disk_free / facts.disk_total
    if used > DISK_FULL_SHARE:
        detail += f", but {used:.0%} of the disk is used, and Ray calls that full above {DISK_FULL_SHARE:.0%}"
        return Check("disk", "warning", detail, f"free some space, or {other}")
    return Check("disk", "passed", detail)


def open_files(facts: Facts) -> Check:
    """Checks that Ray may open as many files as it wants to."""
    if facts.open_files is None:
        return Check("open files", "skipped", "this system has no such limit")
    if facts.open_files < OPEN_FILES:
        detail = f"the limit cannot go above {facts.open_files}; Ray wants {OPEN_FILES}"
        return Check(
            "open files", "warning", detail, f"raise it as an administrator: ulimit -Hn {OPEN_FILES}"
        )
    return Check("open files", "passed", f"the limit can be raised to {facts.open_files}")


def clock(facts: Facts) -> Check:
    """Checks that the clock is set: one that is behind labctl's own files is not."""
    behind = facts.newest_file - facts.now
    if behind > CLOCK_SLACK_SECONDS:
        detail = f"the clock is {behind / 86_400:.0f} days behind labctl's own files"
        return Check("clock", "warning", detail, "set it: certificates and signatures depend on it")
    return Check("clock", "passed", "plausible: not earlier than labctl's own files")


def local_runtime(facts: Facts) -> Check:
    """Checks that Ray is installed, in the version that the probe knows."""
    if not facts.ray:
        return Check(
            "local runtime", "skipped", "Ray is not installed yet; labctl does that at the first `up`"
        )
    if not f"{facts.ray}.".startswith(f"{RAY_SERIES}."):
        detail = f"Ray {facts.ray} is installed; labctl's ledger knows {RAY_SERIES}"
        return Check("local runtime", "failed", detail, "let labctl install its own: unset LABCTL_NO_VENV")
    return Check("local runtime", "passed", f"Ray {facts.ray} is installed")


def patches_fit(name: str, unfit: Mapping[str, str], unknown: str = "") -> Check:
    """Checks that the patches find in Ray what they expect; `unknown` says why nobody knows."""
    if unknown:
        return Check(name, "skipped", unknown)
    if not unfit:
        return Check(name, "passed", f"all {len(patches())} find in Ray what they expect")
    detail = "; ".join(f"{patch} does not fit and is off ({problem})" for patch, problem in unfit.items())
    needed = [patch for patch in patches() if patch.exposes and patch.name in unfit]
    if needed:
        detail += f"; without {needed[0].name} {needed[0].exposes}, so no node that needs it starts"
    hint = "let labctl install its own Ray: unset LABCTL_NO_VENV; in containers `labctl images build`"
    return Check(name, "failed" if needed else "warning", detail, hint)


def program(tools: Tools, name: str) -> Check:
    """Checks that one of the programs that the local runtime can do without is there."""
    path = tools.binaries.get(name)
    return Check(name, "passed", path) if path else Check(name, "skipped", PROGRAMS[name])


def docker(tools: Tools, unused_by: str) -> Check:
    """Checks that a Docker Engine answers, unless it is `unused_by` the runtime of that kind."""
    answer = f"Docker Engine {tools.docker} answers" if tools.docker else f"no answer: {tools.docker_error}"
    if unused_by:
        return Check("docker", "skipped", f"not used by the {unused_by} runtime ({answer})")
    if tools.docker:
        return Check("docker", "passed", answer)
    return Check("docker", "failed", answer, "start the Docker Engine, or use --runtime local")


def gpu(tools: Tools) -> Check:
    """Names the GPUs that workers can be pinned to."""
    gpus = (*tools.nvidia.gpus, *tools.amd.gpus)
    if not gpus:
        reasons = "; ".join(filter(None, (tools.nvidia.problem, tools.amd.problem)))
        return Check("gpu", "skipped", f"none; labs simulate one per worker ({reasons or 'no driver found'})")
    detail = ", ".join(f"{g.vendor.value} {g.index}: {g.label}" for g in gpus)
    partly = [d for d in (tools.nvidia, tools.amd) if d.gpus and d.problem]
    if partly:
        return Check(
            "gpu", "warning", "; ".join([detail, *(d.problem for d in partly)]), _first_hint(*partly)
        )
    return Check("gpu", "passed", detail)


def resource_warnings(facts: Facts, workers: int) -> tuple[Check, ...]:
    """Warnings of too little memory, shared memory or disk for a lab with so many workers."""
    checks = (memory(facts, workers), shared_memory(facts, workers), disk(facts))
    return tuple(check for check in checks if check.outcome in ("warning", "failed"))


def machine_checks(
    facts: Facts, tools: Tools, workers: int, processes: str, *, running: bool
) -> tuple[Check, ...]:
    """Every check of this machine for a lab, which runs already or not.

    `processes` is the kind of its runtime where that runs processes, and empty where it runs containers.
    """
    of_ray = (patches_fit("patches", facts.unfit),) if facts.ray else ()
    of_processes = (local_runtime(facts), *of_ray, *(program(tools, name) for name in PROGRAMS))
    return (
        python(facts),
        platform(facts),
        memory(facts, workers, running=running),
        shared_memory(facts, workers, running=running),
        disk(facts),
        open_files(facts),
        clock(facts),
        *(of_processes if processes else ()),
        docker(tools, processes),
        gpu(tools),
    )


def _first_hint(*detections: Detection) -> str:
    return next((d.hint for d in detections if d.hint), "")


def _gb(size: int) -> str:
    return f"{size / 10**9:.1f} GB"
