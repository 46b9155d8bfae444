"""Every check judges what it finds: a table of failures that are faked, each with the state that is right."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from raylab_health import checks, facts
from raylab_health.checks import CHECKS, Finding
from raylab_health.facts import Facts
from raylab_health.node import CPU, EVICT, PASS, UNKNOWN, WARN
from tests.ext.health.raylab_health.fakes import GPU, FakeNode

BY_NAME = {check.name: check for check in CHECKS}
RENDER = "renderD128"
SYSFS = f"sys/class/drm/{RENDER}/device"


@dataclass(frozen=True)
class Case:
    """One node: what is faked, and what the check has to say."""

    name: str
    check: str
    state: str
    message: str = ""
    nvml: Mapping[str, Any] = field(default_factory=dict)
    vendor: str = "nvidia"
    files: Mapping[str, str] = field(default_factory=dict)
    says: tuple[int, str] | None = None
    heard: Mapping[str, Any] = field(default_factory=dict)
    seconds: Sequence[float] = ()
    silent: Sequence[str] = ()
    """Addresses at which nobody answers."""
    read_only: bool = False
    """The operating system refuses to write."""


def nvml(check: str, state: str, message: str, name: str, **answers: Any) -> Case:
    return Case(name, check, state, message, {f"nvmlDeviceGet{key}": value for key, value in answers.items()})


def amd(check: str, state: str, message: str, name: str, **files: str) -> Case:
    at = {f"{SYSFS}/{path.replace('__', '/')}": text for path, text in files.items()}
    return Case(name, check, state, message, vendor="amd", files={f"{SYSFS}/vendor": "0x1002", **at})


def kernel(state: str, message: str, name: str, *lines: str) -> Case:
    return Case(name, "xid", state, message, files={"proc/uptime": "5000.0 1.0"}, says=(0, "\n".join(lines)))


def dcgm(*results: tuple[str, str]) -> tuple[int, str]:
    tests = [{"name": name, "results": [{"status": status}]} for name, status in results]
    return 1, "note\n" + json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": tests}]}})


LOST = "NVML_ERROR_GPU_IS_LOST"
XID = "NVRM: Xid (PCI:0000:3b:00): "
PEERS = {"peers": {"a": "a:1", "b": "b:1"}}

CASES = (
    nvml("ecc", PASS, "", "no ECC error"),
    nvml("ecc", EVICT, "3 uncorrected", "uncorrected ECC errors", TotalEccErrors=3),
    nvml("ecc", EVICT, "does not answer", "the GPU is lost", TotalEccErrors=LOST),
    nvml("ecc", EVICT, "does not answer", "the GPU is no longer listed", HandleByUUID="NVML_ERROR_NOT_FOUND"),
    nvml("ecc", UNKNOWN, "TotalEccErrors", "the driver times out", TotalEccErrors="NVML_ERROR_TIMEOUT"),
    nvml("ecc", UNKNOWN, "Not Supported", "a GPU without ECC", TotalEccErrors="NVML_ERROR_NOT_SUPPORTED"),
    Case("the driver is not loaded", "ecc", UNKNOWN, "NVML does not start",
         {"nvmlInit": "NVML_ERROR_DRIVER_NOT_LOADED"}),
    Case("a simulated GPU", "ecc", PASS, "simulated", vendor="simulated"),
    amd("ecc", PASS, "", "AMD: corrected errors", ras__umc_err_count="ue: 0\nce: 9"),
    amd("ecc", EVICT, "2 uncorrected", "AMD: uncorrected errors", ras__umc_err_count="ue: 2\nce: 9"),
    amd("ecc", UNKNOWN, "No such file", "AMD: a card without RAS"),
    Case("AMD: the GPU is gone", "ecc", EVICT, "is gone", vendor="amd"),
    nvml("remapped", PASS, "", "rows were replaced, as they should", RemappedRows=[0, 8, 0, 0]),
    nvml("remapped", EVICT, "could not be replaced", "none left, and rows wait", RemappedRows=[0, 8, 1, 1]),
    nvml("remapped", WARN, "wait for a reset", "rows wait for a reset", RemappedRows=[0, 1, 1, 0]),
    nvml("remapped", WARN, "wait for a reset", "pages wait on an older GPU",
         RemappedRows="NVML_ERROR_NOT_SUPPORTED", RetiredPagesPendingStatus=1),
    nvml("remapped", EVICT, "does not answer", "it needs a reset", HandleByUUID="NVML_ERROR_RESET_REQUIRED"),
    nvml("remapped", UNKNOWN, "the check failed", "the driver answers something else", RemappedRows=7),
    amd("remapped", PASS, "", "AMD: a retired page", ras__gpu_vram_bad_pages="0x2 : 0x1000 : R\n"),
    amd("remapped", EVICT, "could not be", "AMD: it stays", ras__gpu_vram_bad_pages="1 : 2 : F\n"),
    amd("remapped", WARN, "wait", "AMD: a page waits", ras__gpu_vram_bad_pages="1 : 2 : P\n2 : 2 : R\n"),
    nvml("power-slowdown", PASS, "", "heat alone is not power", CurrentClocksEventReasons=0x48),
    nvml("power-slowdown", PASS, "", "a power cap is a setting", CurrentClocksEventReasons=0x04),
    nvml("power-slowdown", WARN, "power", "the power brake is on", CurrentClocksEventReasons=0x80),
    nvml("power-slowdown", WARN, "power", "the hardware slows down", CurrentClocksEventReasons=0x08),
    nvml("power-slowdown", WARN, "power", "brake and heat at once", CurrentClocksEventReasons=0xC8),
    nvml("power-slowdown", WARN, "power", "an old driver tells of the brake",
         CurrentClocksEventReasons="NVML_ERROR_FUNCTION_NOT_FOUND", CurrentClocksThrottleReasons=0x80),
    amd("power-slowdown", UNKNOWN, "only NVIDIA's", "AMD tells no reasons"),
    kernel(EVICT, "fallen off the bus", "Xid 79", f"[ 4000.12] {XID}79, pid=1, GPU has fallen off the bus."),
    kernel(EVICT, "not contained", "Xid 95 after 31", f"[3000.1] {XID}31", f"[4000.1] {XID}95"),
    kernel(PASS, "", "a program's own fault", f"[ 4000.0] {XID}31, pid=1, name=python, MMU Fault"),
    kernel(PASS, "", "another GPU fell off the bus", "[ 4000.0] NVRM: Xid (PCI:0000:86:00): 79, pid=1"),
    kernel(PASS, "", "it was yesterday", f"[ 1000.0] {XID}79, pid=1"),
    Case("the kernel's log may not be read", "xid", UNKNOWN, "cannot be read here: dmesg: no",
         says=(1, "dmesg: no\n")),
    Case("PCIe bandwidth of generation 3", "pciebw", PASS, says=(0, "12.1\n")),
    Case("PCIe bandwidth below the threshold", "pciebw", WARN, "2.9 GB/s", says=(0, "2.87\n")),
    Case("the copy ends with an error of CUDA", "pciebw", UNKNOWN,
         "pcie_copy ended with 1: CUDA's driver: no memory (2)", says=(1, "CUDA's driver: no memory (2)\n")),
    Case("the copy ends with a traceback", "pciebw", UNKNOWN, "pcie_copy ended with 1: OSError: no",
         says=(1, "Traceback (most recent call last):\n  File \"x\", line 1\nOSError: no\n\n")),
    Case("the copy says nothing", "pciebw", UNKNOWN, "ended with -9: it printed nothing", says=(-9, "\n")),
    Case("DCGM: all pass or are skipped", "dcgm", PASS, says=dcgm(("Memory", "Pass"), ("PCIe", "Skip"))),
    Case("DCGM: memory fails", "dcgm", EVICT, "Memory", says=dcgm(("Memory", "Fail"), ("Inforom", "Fail"))),
    Case("DCGM: a lesser test fails", "dcgm", WARN, "Inforom", says=dcgm(("Inforom", "Fail"))),
    Case("DCGM says nothing of use", "dcgm", UNKNOWN, "ended with 250", says=(250, "Unable to connect")),
    Case("no dcgmi", "dcgm", UNKNOWN, "dcgmi: No such file"),
    Case("a disk that is busy twice", "disk-latency", PASS, seconds=[0, 6, 0, 6, 0, 0.03]),
    Case("the disk is slow", "disk-latency", WARN, "takes 6.0 s", seconds=[0, 6, 0, 6, 0, 6]),
    Case("the disk fails", "disk-latency", WARN, "cannot be written to", read_only=True),
    Case("one of two peers is cut off", "ping", PASS, heard=PEERS, silent=("b:1",)),
    Case("no peer answers", "ping", WARN, "a, b", heard=PEERS, silent=("a:1", "b:1")),
    Case("the only node", "ping", UNKNOWN, "no other node"),
    Case("the head's only worker is gone", "ping", UNKNOWN, "only one", heard={"peers": {"a": "a:1"}}),
    Case("no object store", "object-store", UNKNOWN, "AWS_ENDPOINT_URL"),
    Case("a difference that the way explains", "clock-skew", PASS, heard={"skew": 3.0, "doubt": 2.5}),
    Case("the clock is behind", "clock-skew", WARN, "5.0 s behind", heard={"skew": -5.0, "doubt": 0.1}),
    Case("the clock is ahead", "clock-skew", WARN, "90.0 s ahead", heard={"skew": 90.0, "doubt": 0.1}),
    Case("no answer yet", "clock-skew", UNKNOWN, "told the time"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check}: {case.name}")
def test_what_is_read_is_judged(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "answers", lambda address: address not in case.silent)
    if case.read_only:

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    check = BY_NAME[case.check]
    node = FakeNode(
        tmp_path,
        vendor=case.vendor,
        nvml=case.nvml,
        files=case.files,
        says=case.says,
        heard=case.heard,
        seconds=case.seconds,
    )
    finding = check.examine(node, CPU if not check.of_gpus else RENDER if case.vendor == "amd" else GPU)
    assert (finding.state, case.message in finding.message) == (case.state, True), finding
    assert bool(finding.message) is (case.state != PASS or case.vendor == "simulated")


def test_each_check_fails_in_one_of_these() -> None:
    bad = {case.check for case in CASES if case.state in (WARN, EVICT)}
    assert bad | {"object-store"} == set(BY_NAME)  # that one needs a client, see below


def test_a_check_is_a_function_of_facts() -> None:
    assert checks.ecc(Facts(memory_errors=2)) == Finding(
        EVICT, "2 uncorrected memory errors since the driver was loaded", 2, "errors"
    )
    assert checks.pciebw(Facts(gbps=9.0, least_gbps=12.0)).state == WARN


# What a busy machine can spoil


def test_a_node_that_starts_again_is_not_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode(tmp_path, heard=PEERS)
    monkeypatch.setattr(facts, "answers", lambda _: node.now > 1004)
    assert (BY_NAME["ping"].examine(node, CPU).state, node.now) == (PASS, 1005)


def test_a_link_that_is_busy_for_some_seconds_is_not_slow(tmp_path: Path) -> None:
    node = FakeNode(tmp_path, says=lambda: (0, "12.1" if node.now > 1008 else "2.0"))
    finding = BY_NAME["pciebw"].examine(node, GPU)
    assert (finding.state, finding.value, node.now) == (PASS, 12.1, 1010.0)


@pytest.mark.parametrize(("seconds", "state"), [(1.5, PASS), (3.0, WARN)])
def test_a_brake_that_is_gone_in_a_moment_is_none(seconds: float, state: str, tmp_path: Path) -> None:
    brake = {"nvmlDeviceGetCurrentClocksEventReasons": lambda: 0x80 if node.now < 1000 + seconds else 0}
    node: FakeNode = FakeNode(tmp_path, nvml=brake)
    assert BY_NAME["power-slowdown"].examine(node, GPU).state == state


# The object store


class Client:
    """A store that gives back what it was given, changed by `spoil`, and fails until a moment."""

    def __init__(self, node: FakeNode, spoil: bool = False, seconds: float = 0.0, error: Any = None) -> None:
        self._node, self._spoil, self._seconds, self._error = node, spoil, seconds, error
        self.until = float("inf")
        self.objects: dict[str, bytes] = {}

    def put_object(self, bucket: str, name: str, data: io.BytesIO, length: int) -> None:
        self._node.now += self._seconds
        if self._error and self._node.now < self.until:
            raise self._error
        self.objects[name] = data.read(length)

    def get_object(self, bucket: str, name: str) -> io.BytesIO:
        return io.BytesIO(b"?" + self.objects[name][1:] if self._spoil else self.objects[name])

    def remove_object(self, bucket: str, name: str) -> None:
        del self.objects[name]


class NoBucketError(Exception):
    """minio's error where there is no bucket."""

    code = "NoSuchBucket"


REFUSED = OSError("connection refused")


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ({}, PASS, ""),
        ({"spoil": True}, WARN, "is not what was sent"),
        ({"seconds": 6.0}, WARN, "takes 6.0 s"),
        ({"error": REFUSED}, WARN, "connection refused"),
        ({"error": NoBucketError()}, UNKNOWN, "bucket is not there"),
    ],
)
def test_a_round_trip_is_judged(how: dict[str, Any], state: str, words: str, tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    client = node.store = Client(node, **how)
    finding = BY_NAME["object-store"].examine(node, CPU)
    assert (finding.state, words in finding.message) == (state, True)
    assert client.objects == {}


def test_a_store_that_is_away_for_ten_seconds_is_no_sick_node(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    client = node.store = Client(node, error=REFUSED)
    client.until = 1012.0
    assert BY_NAME["object-store"].examine(node, CPU).state == PASS


# Devices


@pytest.mark.parametrize(
    ("vendor", "count", "visible", "names"),
    [
        ("none", 0, "", ["cpu"]),
        ("simulated", 1, "", ["gpu-0", "cpu"]),
        ("simulated", 0, "", ["cpu"]),
        ("nvidia", 1, "GPU-2, GPU-3", ["GPU-2", "GPU-3", "cpu"]),
        ("nvidia", 2, "", ["GPU-1", "GPU-2", "cpu"]),
        ("nvidia", 0, "", ["cpu"]),
    ],
)
def test_a_node_has_its_gpus_and_itself(
    vendor: str, count: int, visible: str, names: list[str], tmp_path: Path
) -> None:
    answers = {
        "nvmlDeviceGetCount": 2,
        "nvmlDeviceGetHandleByIndex": {0: "a", 1: "b"},
        "nvmlDeviceGetUUID": {"a": b"GPU-1", "b": b"GPU-2"},
        "nvmlDeviceGetName": b"H100",
    }
    files = {"proc/cpuinfo": "processor : 0\nmodel name : A Processor\n"}
    node = FakeNode(tmp_path, vendor=vendor, nvml=answers, files=files, CUDA_VISIBLE_DEVICES=visible)
    devices = node.devices(count)
    assert [device["name"] for device in devices] == names
    assert devices[-1]["model"] == "A Processor"
    assert {device["model"] for device in devices[:-1]} <= {"H100", "simulated"}


def test_a_gpu_whose_driver_tells_nothing_is_a_device_all_the_same(tmp_path: Path) -> None:
    gone = {"nvmlInit": "NVML_ERROR_LIBRARY_NOT_FOUND"}
    assert len(FakeNode(tmp_path, nvml=gone, CUDA_VISIBLE_DEVICES="GPU-1").devices(1)) == 2
    assert len(FakeNode(tmp_path, nvml=gone).devices(1)) == 1
