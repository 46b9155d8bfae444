"""Simulated queues at the size of Kueue's own performance test: seconds, memory, and waiting times.

Its scenario: 5 cohorts of 6 ClusterQueues, each with 20 units of its own, up to 100 borrowed, and 500
workloads in three classes that come faster than they can run. Nothing is started but labctl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.compare import Row
from benchmarks.measure import say
from kueue.reading import read
from kueue.simulate import simulate as in_process
from lab.host.files import ROOT

COHORTS, QUEUES, NOMINAL, BORROWING = 5, 6, 20, 100


@dataclass(frozen=True)
class Class:
    """Workloads of one kind in each queue: one every `every` seconds, each running `seconds`."""

    name: str
    count: int
    every: float
    seconds: float
    priority: int
    request: int
    most: float
    """Kueue's own limit on the mean time to admission."""


CLASSES = (
    Class("small", 350, 0.1, 0.2, 50, 1, 260.0),
    Class("medium", 100, 0.5, 0.5, 100, 5, 90.0),
    Class("large", 50, 1.2, 1.0, 200, 20, 23.0),
)


def scenario(cohorts: int = COHORTS, queues: int = QUEUES, share: float = 1.0) -> Iterator[str]:
    """The YAML documents, with this share of each class."""
    version = "apiVersion: kueue.x-k8s.io/v1beta2"
    yield f"{version}\nkind: ResourceFlavor\nmetadata: {{name: rf}}\n"
    for number in range(cohorts * queues):
        name = f"cq-{number}"
        yield (
            f"{version}\nkind: ClusterQueue\nmetadata: {{name: {name}}}\nspec:\n"
            f"  cohortName: cohort-{number // queues}\n  namespaceSelector: {{}}\n"
            "  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}\n"
            "  resourceGroups:\n    - coveredResources: [cpu]\n      flavors:\n        - name: rf\n"
            f"          resources: [{{name: cpu, nominalQuota: {NOMINAL}, borrowingLimit: {BORROWING}}}]\n"
        )
        yield f"{version}\nkind: LocalQueue\nmetadata: {{name: {name}}}\nspec: {{clusterQueue: {name}}}\n"
        for size in CLASSES:
            for place in range(int(size.count * share)):
                created = time.strftime("%H:%M:%S", time.gmtime((place + 1) * size.every))
                fraction = f"{(place + 1) * size.every % 1:.3f}"[1:]
                yield (
                    f"{version}\nkind: Workload\nmetadata:\n  name: {name}-{size.name}-{place}\n"
                    f'  creationTimestamp: "2026-01-01T{created}{fraction}Z"\n'
                    f"  annotations: {{raylab.io/duration: {size.seconds}s}}\n"
                    f"spec:\n  queueName: {name}\n  priority: {size.priority}\n  podSets: "
                    f"[{{template: {{spec: {{containers: [{{resources: {{requests: {{cpu: {size.request}"
                    "}}}]}}}]\n"
                )


def run(runs: int) -> list[Row]:
    """`labctl queue simulate FILE --json` as a whole process: time, peak memory, and what came out."""
    measured: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="raylab-bench-") as folder:
        file, out = Path(folder) / "scenario.yaml", Path(folder) / "out.json"
        file.write_text("---\n".join(scenario()), encoding="utf-8")
        for number in range(runs):
            say(f"queue: run {number + 1} of {runs}")
            seconds, busy, mib = simulate(file, out)
            figures = {
                "seconds": seconds,
                "busy": busy,
                "MiB": mib,
                **results(json.loads(out.read_text(encoding="utf-8"))),
            }
            for name, value in figures.items():
                measured.setdefault(name, []).append(value)
    costs = [(cohorts, cost(cohorts)) for cohorts in (1, COHORTS, 4 * COHORTS)]
    limits = {size.name: size.most for size in CLASSES}
    rows = [
        Row("queue simulate: 15,000 workloads", tuple(measured["seconds"]), "at most", (20.0,)),
        Row("queue simulate: processor time", tuple(measured["busy"]), "at most", (20.0,)),
        Row("queue simulate: peak memory", tuple(measured["MiB"]), "at most", (1024.0,), unit="MiB"),
    ]
    rows += [
        Row(f"mean wait, {name} (virtual)", tuple(measured[name]), "Kueue's limit", (most,))
        for name, most in limits.items()
    ]
    rows += [
        Row(
            f"for each workload, {cohorts * QUEUES} queues",
            (microseconds,),
            "with 6 queues",
            (costs[0][1],),
            unit="us",
        )
        for cohorts, microseconds in costs
    ]
    return [*rows, Row("mean use of a queue", tuple(measured["use"]), "Kueue's least", (50.0,), unit="%")]


def cost(cohorts: int, share: float = 0.1) -> float:
    """Microseconds of processor time for each workload, with so many cohorts of queues."""
    setting = read([("scenario.yaml", "---\n".join(scenario(cohorts, QUEUES, share)))])
    begin = time.process_time()
    in_process(setting.setup, setting.workloads)
    return 1e6 * (time.process_time() - begin) / len(setting.workloads)


def simulate(file: Path, out: Path) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and peak MiB of one simulation."""
    command = [sys.executable, str(ROOT / "labctl.py"), "queue", "simulate", str(file), "--json", "--quiet"]
    begin = time.perf_counter()
    with out.open("wb") as stream, subprocess.Popen(command, stdout=stream) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def results(simulated: dict[str, Any]) -> dict[str, float]:
    """Mean wait of each class, and mean use of the queues' own quota in percent, while work was there."""
    waits: dict[str, list[float]] = {size.name: [] for size in CLASSES}
    for workload in simulated["workloads"]:
        waits[workload["workload"].rsplit("-", 2)[1]].append(workload["waited"])
    use = []
    for queue in simulated["cluster_queues"]:
        seen = [(sample["at"], sample["flavors"].get("rf", {}).get("cpu", 0)) for sample in queue["usage"]]
        pairs = zip(seen, [*seen[1:], (simulated["end"], 0)], strict=True)
        total = sum(value * (after - at) for (at, value), (after, _) in pairs)
        use.append(100 * total / (NOMINAL * simulated["end"]))
    means = {name: sum(values) / len(values) for name, values in waits.items()}
    return {**means, "use": sum(use) / len(use)}
