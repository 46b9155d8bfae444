"""What a check looks at: a frozen snapshot of a node or a GPU, and the functions that take it.

Each takes what one check needs. They raise NoFactsError.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from raylab_health.node import WARN, Node, NoFactsError

DISK_BYTES, STORE_BYTES = 64 * 1024, 4096
BUCKET, PREFIX = "ray", ".raylab/health"

CONNECT_SECONDS, STORE_SECONDS = 2.0, 5.0
"""Times for a connection to another node, and for an answer of the object store."""

RECENT_SECONDS = 3600.0
"""Older lines of the kernel are history: the GPU was reset since, or the other checks tell of it."""

XID = re.compile(r"^\[ *(\d+\.\d+)\] NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)", re.MULTILINE)
"""`[seconds since boot] NVRM: Xid (PCI:ADDRESS): NUMBER, ...`"""


@dataclass(frozen=True)
class Facts:
    """What was read for one check; what that check does not look at is empty."""

    memory_errors: int = 0
    """Uncorrected ones, since the driver was loaded."""
    rows_failed: bool = False
    """A row of memory could not be replaced by a spare one; `rows_pending`: some wait for a reset."""
    rows_pending: bool = False
    xids: tuple[int, ...] = ()
    slowdown: int = 0
    """NVML's bits for why clocks are lowered."""
    gbps: float = 0.0
    least_gbps: float = 4.0
    failed_tests: tuple[str, ...] = ()
    seconds: float = 0.0
    peers: int = 0
    silent_peers: tuple[str, ...] = ()
    skew: float = 0.0
    """Seconds by which the clock is ahead, of which the answer's way can explain `doubt`."""
    doubt: float = 0.0


def ecc(node: Node, gpu: str) -> Facts:
    """Uncorrected errors of the memory."""
    if node.vendor == "amd":
        match = re.search(r"^ue: *(\d+)", node.sysfs(gpu, "ras/umc_err_count"), re.MULTILINE)
        if match is None:
            raise NoFactsError("ras/umc_err_count has no line `ue: N`")
        return Facts(memory_errors=int(match[1]))
    kinds = ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC")
    return Facts(memory_errors=int(node.ask(gpu, "nvmlDeviceGetTotalEccErrors", *kinds)))


def rows(node: Node, gpu: str) -> Facts:
    """Rows that were replaced, or wait for it; of an AMD GPU pages marked F (fault) or P (pending)."""
    if node.vendor == "amd":
        pages = node.sysfs(gpu, "ras/gpu_vram_bad_pages").splitlines()
        marks = {page.rpartition(":")[2].strip() for page in pages}
        return Facts(rows_failed="F" in marks, rows_pending="P" in marks)
    try:
        _, _, pending, failed = node.ask(gpu, "nvmlDeviceGetRemappedRows")
    except NoFactsError:  # before Ampere, memory is retired in pages
        pending, failed = node.ask(gpu, "nvmlDeviceGetRetiredPagesPendingStatus"), 0
    return Facts(rows_failed=bool(failed), rows_pending=bool(pending))


def xids(node: Node, gpu: str) -> Facts:
    """Errors of this GPU that NVIDIA's driver wrote into the kernel's log within the last hour."""
    address = _pci(node.ask(gpu, "nvmlDeviceGetPciInfo").busId)
    code, log = node.run(("dmesg",))
    if code:
        raise NoFactsError(f"the kernel's log cannot be read here: {log.strip()}")
    since = float(node.text("proc/uptime").split()[0]) - RECENT_SECONDS
    lines = [(float(at), _pci(where), int(number)) for at, where, number in XID.findall(log)]
    return Facts(xids=tuple(number for at, where, number in lines if where == address and at >= since))


def _pci(address: str | bytes) -> str:
    """`00000000:3B:00.0` and `0000:3b:00` name the same device: domain, bus and slot."""
    text = address.decode() if isinstance(address, bytes) else address
    domain, bus, slot = text.lower().partition(".")[0].split(":")
    return f"{int(domain, 16):x}:{bus}:{slot}"


def slowdown(node: Node, gpu: str) -> Facts:
    """Why the hardware lowers the clocks now."""
    try:
        reasons = node.ask(gpu, "nvmlDeviceGetCurrentClocksEventReasons")
    except NoFactsError:  # the function's name before driver 535
        reasons = node.ask(gpu, "nvmlDeviceGetCurrentClocksThrottleReasons")
    return Facts(slowdown=int(reasons))


def bandwidth(node: Node, gpu: str) -> Facts:
    """GB/s of copies from the host, measured by a process of its own at low priority."""
    if node.vendor != "nvidia":
        raise NoFactsError("it is measured with CUDA's driver")
    probe = str(Path(__file__).resolve().parent.parent)
    argv = ("nice", "-n", "19", sys.executable, "-m", "raylab_health.pcie_copy")
    code, output = node.run(argv, PYTHONPATH=probe, CUDA_VISIBLE_DEVICES=gpu)
    last = output.strip().rpartition("\n")[2] or "it printed nothing"
    try:
        least = float(node.environ.get("RAYLAB_PCIE_GBPS", Facts.least_gbps))
        return Facts(gbps=float(last), least_gbps=least)
    except ValueError as error:
        raise NoFactsError(f"pcie_copy ended with {code}: {last}") from error


def diagnosis(node: Node, gpu: str) -> Facts:
    """Tests of DCGM's level 1 that fail on this GPU, wherever the version of DCGM has them."""
    index = node.ask(gpu, "nvmlDeviceGetIndex")
    code, output = node.run(("dcgmi", "diag", "-r", "1", "-i", str(index), "-j"))
    failed = set()

    def look(part: dict[str, Any]) -> dict[str, Any]:
        results = part.get("results")
        words = [result.get("status", result.get("result", "")) for result in results or ()]
        if "name" in part and any(str(word).lower().startswith("fail") for word in words):
            failed.add(str(part["name"]))
        return part

    try:
        json.loads(output[output.index("{") :], object_hook=look)
    except (ValueError, TypeError, AttributeError) as error:
        raise NoFactsError(f"dcgmi ended with {code}: {' '.join(output.split())}") from error
    return Facts(failed_tests=tuple(sorted(failed)))


def disk(node: Node, _: str) -> Facts:
    """Time that a small write takes to reach the disk where programs of this node write."""
    folder = node.environ.get("TMPDIR", "/tmp")
    begin = node.monotonic()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * DISK_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise NoFactsError(f"{folder} cannot be written to: {error.strerror}", WARN) from error
    return Facts(seconds=node.monotonic() - begin)


def peers(node: Node, _: str) -> Facts:
    """The other nodes whose agents were heard a moment ago, and those that do not answer from here."""
    others: Mapping[str, str] = node.heard.get("peers") or {}
    if len(others) < 2:  # of two nodes that do not hear each other either may be the one that is cut off
        raise NoFactsError("there is no other node to ask yet, or only one")
    silent = tuple(name for name, address in sorted(others.items()) if not answers(address))
    return Facts(peers=len(others), silent_peers=silent)


def answers(address: str) -> bool:
    """Tell whether somebody answers at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def store(node: Node, _: str) -> Facts:
    """A round trip to the object store: PUT, GET, comparison by SHA-256, DELETE."""
    node.store = node.store or connect(node.environ)
    name = f"{PREFIX}/{node.environ.get('RAYLAB_SERVICE_NAME', 'node')}"
    data, begin = os.urandom(STORE_BYTES), node.monotonic()
    try:
        node.store.put_object(BUCKET, name, io.BytesIO(data), len(data))
        with contextlib.closing(node.store.get_object(BUCKET, name)) as answer:
            back = answer.read()
        node.store.remove_object(BUCKET, name)
    except Exception as error:  # those of minio, of urllib3 and of the socket
        code = getattr(error, "code", "")
        if code == "NoSuchBucket":  # a lab that starts makes it while its first nodes start
            raise NoFactsError("the lab's bucket is not there") from error
        reason = code if isinstance(code, str) and code else " ".join(str(error).split())
        raise NoFactsError(f"the object store fails: {reason}", WARN) from error
    if hashlib.sha256(back).digest() != hashlib.sha256(data).digest():
        raise NoFactsError("what the object store gives back is not what was sent", WARN)
    return Facts(seconds=node.monotonic() - begin)


def connect(environ: Mapping[str, str]) -> Any:
    """A client of the lab's object store, with the key of the environment or of the file that it names."""
    parts = urlsplit(environ.get("AWS_ENDPOINT_URL", ""))
    if not parts.netloc:
        raise NoFactsError("AWS_ENDPOINT_URL names no object store")
    try:
        import urllib3
        from minio import Minio
        from minio.credentials.providers import AWSConfigProvider, ChainedProvider, EnvAWSProvider
    except ImportError as error:
        raise NoFactsError("the package minio is not installed") from error
    return Minio(
        parts.netloc,
        credentials=ChainedProvider([EnvAWSProvider(), AWSConfigProvider()]),
        region=environ.get("AWS_REGION", "us-east-1"),
        secure=parts.scheme == "https",
        http_client=urllib3.PoolManager(timeout=urllib3.Timeout(STORE_SECONDS), retries=False),
    )


def clock(node: Node, _: str) -> Facts:
    """The clock against that of the controller."""
    if "skew" not in node.heard:
        raise NoFactsError("no answer has told the time yet")
    return Facts(skew=node.heard["skew"], doubt=node.heard["doubt"])
