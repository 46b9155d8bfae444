"""The checks: functions of a snapshot of facts that return PASS, WARN or EVICT with a sentence.

To add one: its facts in facts.py, a function here, its row in CHECKS, its cases in
tests/ext/health/raylab_health/test_checks.py, and its row in docs/health.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from raylab_health import facts as read
from raylab_health.facts import Facts
from raylab_health.node import EVICT, PASS, SIMULATED, UNKNOWN, WARN, Node, NoFactsError

SLOW_SECONDS, SKEW_SECONDS = 5.0, 1.0
"""A healthy disk, or store, takes milliseconds, and machines that keep time are milliseconds apart."""

SLOWDOWN, THERMAL, BRAKE = 0x08, 0x40, 0x80
"""Bits of NVML's reasons: hw_slowdown, hw_thermal_slowdown, hw_power_brake_slowdown."""

FATAL_XIDS = {
    48: "a memory error that could not be corrected",
    63: "a row of its memory was marked for replacement",
    64: "a row of its memory could not be marked for replacement",
    79: "it has fallen off the bus",
    94: "a memory error that was contained",
    95: "a memory error that was not contained",
}
"""Numbers that commonly count as fatal; others are as a rule a program's own fault."""

FATAL_TESTS = ("pcie", "nvlink", "ecc", "gpu memory", "memory")
"""Tests of DCGM that, failed, make a GPU EVICT; other failures are WARN. The list is Autopilot's."""


@dataclass(frozen=True)
class Finding:
    """Result of a check."""

    state: str
    message: str = ""
    """One sentence for a person; empty where nothing is worth one."""
    value: float | None = None
    unit: str = ""


def _finding(state: str, bad: object, message: str, value: float, unit: str = "") -> Finding:
    """Of this state, with this message, where something is bad."""
    return Finding(state if bad else PASS, message if bad else "", round(value, 3), unit)


def ecc(facts: Facts) -> Finding:
    """A result may be wrong already after one error that was not corrected."""
    count = facts.memory_errors
    message = f"{count} uncorrected memory errors since the driver was loaded"
    return _finding(EVICT, count, message, count, "errors")


def remapped(facts: Facts) -> Finding:
    """EVICT when no spare row is left; WARN while rows wait for a reset, as Autopilot has it."""
    if facts.rows_failed:
        return Finding(EVICT, "a broken row of its memory could not be replaced", 1.0)
    message = "rows of its memory wait for a reset to be replaced"
    return _finding(WARN, facts.rows_pending, message, facts.rows_pending)


def xid(facts: Facts) -> Finding:
    """EVICT for an error of the driver that is fatal."""
    fatal = [f"Xid {number}: {FATAL_XIDS[number]}" for number in facts.xids if number in FATAL_XIDS]
    return _finding(EVICT, fatal, "".join(fatal[-1:]), len(fatal), "lines")


def power(facts: Facts) -> Finding:
    """WARN when the hardware slows down or brakes, but for heat alone."""
    cold = not facts.slowdown & THERMAL
    bad = bool(facts.slowdown & BRAKE or (facts.slowdown & SLOWDOWN and cold))
    return _finding(WARN, bad, "the hardware lowers its clocks for want of power", bad)


def pciebw(facts: Facts) -> Finding:
    """WARN when copies from the host are slow."""
    gbps, least = facts.gbps, facts.least_gbps
    message = f"{gbps:.1f} GB/s from host to GPU; at least {least:g} are expected"
    return _finding(WARN, gbps < least, message, gbps, "GB/s")


def dcgm(facts: Facts) -> Finding:
    """EVICT or WARN for tests that fail."""
    fatal = [name for name in facts.failed_tests if name.lower() in FATAL_TESTS]
    failed = fatal or facts.failed_tests
    return _finding(EVICT if fatal else WARN, failed, f"failed: {', '.join(failed)}", bool(failed))


def slow(facts: Facts) -> Finding:
    """WARN when a write, or a round trip to the object store, takes too long."""
    message = f"it takes {facts.seconds:.1f} s"
    return _finding(WARN, facts.seconds > SLOW_SECONDS, message, facts.seconds * 1000, "ms")


def ping(facts: Facts) -> Finding:
    """WARN when more than half of the other nodes do not answer: then it is this one that is cut off."""
    silent = facts.silent_peers
    message = f"{', '.join(silent)} cannot be reached from here"
    return _finding(WARN, 2 * len(silent) > facts.peers, message, len(silent), "peers")


def clock_skew(facts: Facts) -> Finding:
    """WARN for a difference that is larger than what the answer's way can explain."""
    message = f"its clock is {abs(facts.skew):.1f} s {'ahead' if facts.skew > 0 else 'behind'}"
    return _finding(WARN, abs(facts.skew) - facts.doubt > SKEW_SECONDS, message, facts.skew, "s")


@dataclass(frozen=True)
class Check:
    """One check, and when it is made."""

    name: str
    take: Callable[[Node, str], Facts]
    """Takes the snapshot of a device."""
    judge: Callable[[Facts], Finding]
    interval: float
    """Seconds between two runs."""
    of_gpus: bool = True
    """Made for each GPU of the node, or once for the node itself."""
    pauses: tuple[float, ...] = ()
    """Seconds before each further try of what a busy machine can spoil: the first that passes counts."""
    deadline: float = 20.0
    """Seconds after which it is ended: a check that hangs is WARN, without a value."""

    def examine(self, node: Node, device: str) -> Finding:
        """Make the check. Of a simulated GPU nothing is measured."""
        if self.of_gpus and node.vendor == SIMULATED:
            return Finding(PASS, "a simulated GPU: nothing is measured")
        finding = Finding(UNKNOWN)
        for pause in (0.0, *self.pauses):
            node.sleep(pause)
            try:
                finding = self.judge(self.take(node, device))
            except NoFactsError as error:
                finding = Finding(error.state, str(error))
            except Exception as error:  # a driver's file with other content, say: the agent has to live on
                finding = Finding(UNKNOWN, f"the check failed: {error!r}")
            if finding.state in (PASS, UNKNOWN):
                break
        return finding


CHECKS = (
    Check("ecc", read.ecc, ecc, 5.0),
    Check("remapped", read.rows, remapped, 30.0),
    Check("xid", read.xids, xid, 10.0),
    Check("power-slowdown", read.slowdown, power, 5.0, pauses=(1.0, 1.0)),
    Check("pciebw", read.bandwidth, pciebw, 3600.0, pauses=(5.0, 5.0), deadline=60.0),
    Check("dcgm", read.diagnosis, dcgm, 3600.0, deadline=180.0),
    Check("disk-latency", read.disk, slow, 30.0, of_gpus=False, pauses=(0.0, 0.0), deadline=60.0),
    Check("ping", read.peers, ping, 10.0, of_gpus=False, pauses=(5.0, 5.0), deadline=60.0),
    Check("object-store", read.store, slow, 60.0, of_gpus=False, pauses=(8.0, 8.0), deadline=60.0),
    Check("clock-skew", read.clock, clock_skew, 10.0, of_gpus=False),
)
"""All of them, in the order in which they are shown."""
