"""The checks, one file for each subject: `CHECKS` is all of them, in the order in which they are shown.

To add one: a file here with a function that takes a Context and a device and returns a Finding, a `Check`
made of it, its place below, its cases in tests/unit/probe/raylab_health, and its row in docs/health.md.
"""

from __future__ import annotations

from raylab_health.checks import clock_skew, dcgm, disk, ecc, object_store, pciebw, ping, power, remapped, xid
from raylab_health.model import Check

CHECKS: tuple[Check, ...] = (
    ecc.CHECK,
    remapped.CHECK,
    xid.CHECK,
    power.CHECK,
    pciebw.CHECK,
    dcgm.CHECK,
    disk.CHECK,
    ping.CHECK,
    object_store.CHECK,
    clock_skew.CHECK,
)
