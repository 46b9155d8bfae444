"""Errors of GPUs that NVIDIA's driver writes into the kernel's log, as `NVRM: Xid (PCI:...): NUMBER`."""

from __future__ import annotations

import os
import re

from raylab_health.model import EVICT, GPU, PASS, Check, Context, Finding, NotHereError
from raylab_health.nvml import ask

FATAL = {
    48: "a memory error that could not be corrected",
    63: "a row of its memory was marked for replacement",
    64: "a row of its memory could not be marked for replacement",
    79: "it has fallen off the bus",
    94: "a memory error that was contained",
    95: "a memory error that was not contained",
}
"""Numbers that commonly count as fatal; others are as a rule a program's own fault."""

RECENT_SECONDS = 3600.0
"""Older lines are history: the GPU was reset since, or the other checks tell of it."""

LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
MOST_LINES = 20_000


def run(context: Context, device: str) -> Finding:
    """EVICT for a fatal line of this GPU within the last hour."""
    if context.vendor == "amd":
        raise NotHereError("only NVIDIA's driver writes Xid lines")
    address = _address(ask(context, device, "nvmlDeviceGetPciInfo").busId)
    up = float(context.text("proc/uptime").split()[0])
    bad: list[int] = []
    for at, text in kernel_lines(context):
        match = LINE.search(text)
        if match and up - at <= RECENT_SECONDS and _address(match[1]) == address:
            bad += [int(match[2])] if int(match[2]) in FATAL else []
    message = f"Xid {bad[-1]}: {FATAL[bad[-1]]}" if bad else ""
    return Finding(EVICT if bad else PASS, float(len(bad)), "lines", message)


def kernel_lines(context: Context) -> list[tuple[float, str]]:
    """(seconds since boot, text) of what the kernel said. Raises NotHereError where it may not be read."""
    try:
        file = os.open(context.root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise NotHereError(f"the kernel's log cannot be read here: {error.strerror}") from error
    lines = []
    try:
        for _ in range(MOST_LINES):
            try:
                record = os.read(file, 8192).decode(errors="replace")
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten meanwhile: the next read goes on behind it
                continue
            if not record:
                break
            lines += [_parsed(line) for line in record.splitlines() if ";" in line]
    finally:
        os.close(file)
    return lines


def _parsed(line: str) -> tuple[float, str]:
    """`priority,sequence,microseconds,flags;text`."""
    head, _, text = line.partition(";")
    fields = head.split(",")
    micro = fields[2] if len(fields) > 2 else ""
    return (int(micro) / 1e6 if micro.isdigit() else 0.0), text


def _address(text: object) -> str:
    """`00000000:3B:00.0` and `0000:3b:00` name the same device: domain, bus and slot."""
    said = text.decode() if isinstance(text, bytes) else str(text)
    domain, bus, slot = [*said.lower().split("."), ""][0].split(":")
    return f"{int(domain, 16):x}:{bus}:{slot}"


CHECK = Check("xid", GPU, 10.0, run)
