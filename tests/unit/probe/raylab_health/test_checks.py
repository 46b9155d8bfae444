"""Every check judges what it finds: a table of failures that are faked, each with the state that is right."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from raylab_health.checks import CHECKS, ping, xid
from raylab_health.devices import processor
from raylab_health.examine import examine
from raylab_health.model import (
    CPU,
    EVICT,
    GPU,
    NOT_HERE,
    PASS,
    UNKNOWN,
    WARN,
    NotHereError,
    UnreadableError,
)
from tests.unit.probe.raylab_health.fakes import GPU as CARD
from tests.unit.probe.raylab_health.fakes import FakeNode

BY_NAME = {check.name: check for check in CHECKS}
RENDER = "renderD128"
SYSFS = f"sys/class/drm/{RENDER}/device"


@dataclass(frozen=True)
class Case:
    """One failure: what is faked, and what the check has to say."""

    name: str
    check: str
    state: str
    message: str = ""
    nvml: Mapping[str, Any] | str = field(default_factory=dict)
    vendor: str = "nvidia"
    files: Mapping[str, str] = field(default_factory=dict)
    says: tuple[int, str] | Exception | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: Sequence[float] = ()
    kernel: Sequence[tuple[float, str]] = ()
    refused: Sequence[str] = ()
    """Addresses at which nobody answers."""
    read_only: bool = False
    """The operating system refuses to write."""


def nvml(check: str, state: str, message: str, name: str, **answers: Any) -> Case:
    return Case(name, check, state, message, {f"nvmlDeviceGet{key}": value for key, value in answers.items()})


def amd(check: str, state: str, message: str, name: str, **files: str) -> Case:
    at = {f"{SYSFS}/{path.replace('__', '/')}": text for path, text in files.items()}
    return Case(name, check, state, message, vendor="amd", files={f"{SYSFS}/vendor": "0x1002", **at})


def kernel(state: str, message: str, name: str, *lines: tuple[float, str]) -> Case:
    return Case(name, "xid", state, message, files={"proc/uptime": "5000.0 1.0"}, kernel=lines)


def dcgm(*results: tuple[str, str]) -> tuple[int, str]:
    tests = [{"name": name, "results": [{"status": status}]} for name, status in results]
    return 1, "note\n" + json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": tests}]}})


LOST = "NVML_ERROR_GPU_IS_LOST"
XID = "NVRM: Xid (PCI:0000:3b:00): "

FAILURES = (
    nvml("ecc", EVICT, "3 uncorrected", "uncorrected ECC errors", TotalEccErrors=3),
    nvml("ecc", EVICT, "1 uncorrected", "a single uncorrected ECC error", TotalEccErrors=1),
    nvml("ecc", EVICT, "does not answer", "the GPU is lost", TotalEccErrors=LOST),
    nvml("ecc", EVICT, "does not answer", "the GPU is no longer listed",
         HandleByUUID="NVML_ERROR_NOT_FOUND"),
    nvml("ecc", UNKNOWN, "TotalEccErrors", "the driver's inforom is damaged",
         TotalEccErrors="NVML_ERROR_CORRUPTED_INFOROM"),
    nvml("ecc", UNKNOWN, "TotalEccErrors", "the driver times out", TotalEccErrors="NVML_ERROR_TIMEOUT"),
    nvml("xid", UNKNOWN, "PciInfo", "an unknown error of the driver", PciInfo="NVML_ERROR_UNKNOWN"),
    Case("the driver is not loaded", "ecc", UNKNOWN, "NVML does not start", "NVML_ERROR_DRIVER_NOT_LOADED"),
    nvml("remapped", EVICT, "could not be replaced", "no spare row is left", RemappedRows=[0, 8, 0, 1]),
    nvml("remapped", EVICT, "could not be replaced", "none left, and rows wait", RemappedRows=[0, 8, 1, 1]),
    nvml("remapped", WARN, "wait for a reset", "rows wait for a reset", RemappedRows=[0, 1, 1, 0]),
    nvml("remapped", WARN, "pages", "pages wait on an older GPU",
         RemappedRows="NVML_ERROR_NOT_SUPPORTED", RetiredPagesPendingStatus=1),
    nvml("power-slowdown", WARN, "power", "the power brake is on", CurrentClocksEventReasons=0x80),
    nvml("power-slowdown", WARN, "power", "the hardware slows down", CurrentClocksEventReasons=0x08),
    nvml("power-slowdown", WARN, "power", "brake and heat at once", CurrentClocksEventReasons=0xC8),
    nvml("power-slowdown", WARN, "power", "an old driver tells of the brake",
         CurrentClocksEventReasons="NVML_ERROR_FUNCTION_NOT_FOUND", CurrentClocksThrottleReasons=0x80),
    kernel(EVICT, "fallen off the bus", "Xid 79", (4000.0, f"{XID}79, pid=1, GPU has fallen off the bus.")),
    kernel(EVICT, "could not be corrected", "Xid 48", (4000.0, f"{XID}48, pid=1, DBE")),
    kernel(EVICT, "not contained", "Xid 95 after a program's fault", (3000.0, f"{XID}31, pid=1"),
           (4000.0, f"{XID}95, pid=1")),
    kernel(EVICT, "was contained", "Xid 94", (4999.0, f"{XID}94, pid=7")),
    kernel(EVICT, "replacement", "Xid 64", (4999.0, f"{XID}64, pid=7")),
    Case("PCIe bandwidth below the threshold", "pciebw", WARN, "2.9 GB/s", says=(0, '{"gbps": 2.87}')),
    Case("the copy ends with an error of CUDA", "pciebw", UNKNOWN,
         "pcie_copy ended with 1: CUDA's driver: no memory (2)", says=(1, "CUDA's driver: no memory (2)\n")),
    Case("the copy ends with a traceback", "pciebw", UNKNOWN, "pcie_copy ended with 1: OSError: no",
         says=(1, "Traceback (most recent call last):\n  File \"x\", line 1\nOSError: no\n\n")),
    Case("the copy says nothing", "pciebw", UNKNOWN, "ended with -9: it printed nothing", says=(-9, "\n")),
    Case("the copy is not answered", "pciebw", UNKNOWN, "timed out", says=UnreadableError("timed out")),
    Case("DCGM: memory fails", "dcgm", EVICT, "Memory", says=dcgm(("Memory", "Fail"), ("PCIe", "Pass"))),
    Case("DCGM: PCIe fails", "dcgm", EVICT, "PCIe", says=dcgm(("PCIe", "FAIL"), ("Inforom", "Pass"))),
    Case("DCGM: a lesser test fails", "dcgm", WARN, "Inforom", says=dcgm(("Inforom", "Fail"))),
    Case("DCGM says nothing of use", "dcgm", UNKNOWN, "ended with 250", says=(250, "Unable to connect")),
    amd("ecc", EVICT, "2 uncorrected", "AMD: uncorrected errors", ras__umc_err_count="ue: 2\nce: 9"),
    amd("remapped", EVICT, "could not be retired", "AMD: a page that cannot be retired",
        ras__gpu_vram_bad_pages="0x1 : 0x1000 : F\n"),
    amd("remapped", WARN, "wait to be retired", "AMD: a page that waits",
        ras__gpu_vram_bad_pages="0x1 : 0x1000 : P\n0x2 : 0x1000 : R\n"),
    Case("AMD: the GPU is gone", "ecc", EVICT, "is gone", vendor="amd"),
    Case("library and driver differ", "ecc", UNKNOWN, "does not start", "NVML_ERROR_LIB_RM_VERSION_MISMATCH"),
    nvml("remapped", EVICT, "does not answer", "the GPU needs a reset",
         RemappedRows="NVML_ERROR_RESET_REQUIRED"),
    Case("the disk is slow", "disk-latency", WARN, "takes 6.0 s", seconds=[0, 6, 0, 6, 0, 6]),
    Case("the disk fails", "disk-latency", WARN, "cannot be written to", read_only=True),
    Case("no peer answers", "ping", WARN, "a, b", facts={"peers": {"a": "a:1", "b": "b:1"}},
         refused=("a:1", "b:1")),
    Case("the clock is behind", "clock-skew", WARN, "5.0 s behind",
         facts={"clock": {"skew": -5, "doubt": 0.1}}),
    Case("the clock is ahead", "clock-skew", WARN, "90.0 s ahead",
         facts={"clock": {"skew": 90, "doubt": 0.1}}),
)  # fmt: skip

HEALTHY = (
    nvml("ecc", PASS, "", "no ECC error"),
    nvml("remapped", PASS, "", "rows were replaced, as they should"),
    nvml("power-slowdown", PASS, "", "heat alone is not power", CurrentClocksEventReasons=0x48),
    nvml("power-slowdown", PASS, "", "a power cap is a setting", CurrentClocksEventReasons=0x04),
    kernel(PASS, "", "a program's own fault", (4000.0, f"{XID}31, pid=1, name=python, MMU Fault")),
    kernel(PASS, "", "another GPU fell off the bus", (4000.0, "NVRM: Xid (PCI:0000:86:00): 79, pid=1")),
    kernel(PASS, "", "it was yesterday", (1000.0, f"{XID}79, pid=1")),
    Case("PCIe bandwidth of generation 3", "pciebw", PASS, says=(0, '{"gbps": 12.1}')),
    Case("DCGM: all pass or are skipped", "dcgm", PASS, says=dcgm(("Memory", "Pass"), ("PCIe", "Skip"))),
    amd("ecc", PASS, "", "AMD: corrected errors", ras__umc_err_count="ue: 0\nce: 9"),
    amd("remapped", PASS, "", "AMD: a retired page", ras__gpu_vram_bad_pages="0x2 : 0x1000 : R\n"),
    Case("a disk that is busy once", "disk-latency", PASS, seconds=[0, 5, 0, 5, 0, 0.03]),
    Case("one of two peers is cut off", "ping", PASS, facts={"peers": {"a": "a:1", "b": "b:1"}},
         refused=("b:1",)),
    Case("a simulated GPU", "ecc", PASS, "simulated", vendor="simulated"),
    Case("a difference that the way explains", "clock-skew", PASS,
         facts={"clock": {"skew": 3, "doubt": 2.5}}),
)  # fmt: skip

MISSING = (
    nvml("ecc", "", "Not Supported", "a GPU without ECC", TotalEccErrors="NVML_ERROR_NOT_SUPPORTED"),
    Case("a container without NVML", "ecc", "", "NVML", "NVML_ERROR_LIBRARY_NOT_FOUND"),
    Case("the kernel's log may not be read", "xid", "", "cannot be read", files={"proc/uptime": "5000 1"}),
    Case("no dcgmi", "dcgm", "", "dcgmi is not installed"),
    Case("DCGM on AMD", "dcgm", "", "NVIDIA", vendor="amd"),
    amd("power-slowdown", "", "does not say", "AMD tells no reasons"),
    amd("ecc", "", "No such file", "AMD: a card without RAS"),
    Case("the only node", "ping", "", "no other node"),
    Case("the head's only worker is gone", "ping", "", "only one", facts={"peers": {"a": "a:1"}},
         refused=("a:1",)),
    Case("no answer yet", "clock-skew", "", "told the time"),
    Case("no CUDA driver", "pciebw", "", "no CUDA driver", says=(NOT_HERE, "there is no CUDA driver here")),
    Case("no object store", "object-store", "", "AWS_ENDPOINT_URL"),
)  # fmt: skip


def outcome(case: Case, root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The result of the case's check on the case's node."""
    check = BY_NAME[case.check]
    if case.kernel:
        monkeypatch.setattr(xid, "kernel_lines", lambda context: list(case.kernel))
    monkeypatch.setattr(ping, "answers", lambda address: address not in case.refused)
    if case.read_only:

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    node = FakeNode(
        root,
        vendor=case.vendor,
        nvml=case.nvml,
        files=case.files,
        says=case.says,
        facts=case.facts,
        seconds=case.seconds,
    )
    device = (RENDER if case.vendor == "amd" else CARD) if check.kind == GPU else CPU
    return examine(check, device, node)


def test_each_check_fails_in_one_of_these_failures() -> None:
    others = {"object-store"}  # it needs a client
    assert {case.check for case in FAILURES} | others == set(BY_NAME)


@pytest.mark.parametrize("case", [*FAILURES, *HEALTHY], ids=lambda case: f"{case.check}: {case.name}")
def test_what_is_found_is_judged(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = outcome(case, tmp_path, monkeypatch)
    assert (result["state"], result["name"]) == (case.state, case.check), result
    assert case.message in result["message"]
    assert bool(result["message"]) is (case.state != PASS or case.vendor == "simulated")


@pytest.mark.parametrize("case", MISSING, ids=lambda case: f"{case.check}: {case.name}")
def test_a_check_that_cannot_be_made_here_says_why(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotHereError, match=case.message):
        outcome(case, tmp_path, monkeypatch)


def test_a_node_that_starts_again_is_not_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode(tmp_path, facts={"peers": {"a": "a:1", "b": "b:1"}})
    monkeypatch.setattr(ping, "answers", lambda _: node.now > 1004)
    assert examine(BY_NAME["ping"], CPU, node)["state"] == PASS
    assert node.now == 1005


@pytest.mark.parametrize("name", ["pciebw", "dcgm"])
def test_a_measurement_that_does_not_end_is_ended_by_the_runner(name: str, tmp_path: Path) -> None:
    node = FakeNode(tmp_path, says=(0, '{"gbps": 12.1}'))
    examine(BY_NAME[name], CARD, node)
    (seconds,) = node.waits
    assert seconds > BY_NAME[name].deadline, "its own end would be UNKNOWN"


def test_a_link_that_is_busy_for_some_seconds_is_not_slow(tmp_path: Path) -> None:
    node = FakeNode(tmp_path, says=lambda: (0, json.dumps({"gbps": 12.1 if node.now > 1008 else 2.0})))
    result = examine(BY_NAME["pciebw"], CARD, node)
    assert (result["state"], result["value"], node.now) == (PASS, 12.1, 1010.0)


@pytest.mark.parametrize(("seconds", "state"), [(1.5, PASS), (3.0, WARN)])
def test_a_brake_that_is_gone_in_a_moment_is_none(seconds: float, state: str, tmp_path: Path) -> None:
    node: FakeNode
    brake = {"nvmlDeviceGetCurrentClocksEventReasons": lambda: 0x80 if node.now < 1000 + seconds else 0}
    node = FakeNode(tmp_path, nvml=brake)
    assert examine(BY_NAME["power-slowdown"], CARD, node)["state"] == state


def test_a_file_of_the_kernel_that_cannot_be_read_now_is_there_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise OSError(errno.EIO, "Input/output error")

    node = FakeNode(tmp_path, vendor="amd", files={f"{SYSFS}/ras/umc_err_count": "ue: 0"})
    monkeypatch.setattr(Path, "read_text", refuse)
    result = examine(BY_NAME["ecc"], RENDER, node)
    assert (result["state"], "Input/output error" in result["message"]) == (UNKNOWN, True)
    assert processor(node) == node.machine()


def test_a_check_that_fails_by_itself_is_unknown_and_goes_on(tmp_path: Path) -> None:
    node = FakeNode(tmp_path, nvml={"nvmlDeviceGetRemappedRows": 7})
    result = examine(BY_NAME["remapped"], CARD, node)
    assert (result["state"], "the check failed" in result["message"]) == (UNKNOWN, True)
