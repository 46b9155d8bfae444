"""The checks, one file for each subject: `CHECKS` is all of them, in the order in which they are shown.

To add one: a file here with a function that takes a Context and a device and returns a Finding, a `Check`
made of it, its place below, its cases in tests/unit/probe/raylab_health, and its row in docs/health.md.
"""

from __future__ import annotations

from raylab_health.checks import (
    cgroup,
    clock_skew,
    dcgm,
    disk,
    ecc,
    gpumem,
    memory_bandwidth,
    network,
    object_store,
    pcie_link,
    pciebw,
    remapped,
    shm,
    slowdown,
    temperature,
    volumes,
    xid,
)
from raylab_health.model import Check

CHECKS: tuple[Check, ...] = (
    ecc.CHECK,
    remapped.CHECK,
    xid.CHECK,
    slowdown.POWER,
    slowdown.THERMAL_SLOWDOWN,
    temperature.CHECK,
    pcie_link.CHECK,
    pciebw.CHECK,
    dcgm.CHECK,
    dcgm.THOROUGH,
    gpumem.CHECK,
    disk.SPACE,
    disk.LATENCY,
    shm.CHECK,
    memory_bandwidth.CHECK,
    network.LOOPBACK,
    network.PING,
    object_store.CHECK,
    clock_skew.CHECK,
    cgroup.OOM,
    cgroup.THROTTLING,
    volumes.CHECK,
)
