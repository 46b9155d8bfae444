"""Growth of a lab that runs: the jobs that Ray lists, jobs that wait in a queue, and nodes."""

from __future__ import annotations

import time

import psutil

from benchmarks.cli_lab import CliLab, cli_lab, recovered_in
from benchmarks.compare import LostError
from benchmarks.growth import Curves, median_of
from benchmarks.measure import SCRIPTS, succeed, timed
from benchmarks.memory import megabytes
from benchmarks.recovery import Case, once
from lab.cluster.queue_request import QueueRequest, of_command
from lab.cluster.submission import Submission
from lab.lab import Lab
from lab.runtime.local.processes import MARK, memory
from lab.services import QUEUE

LISTED = (10, 100, 1_000, 10_000)
QUEUED = (100, 1_000, 10_000)
NODES = (2, 4, 8, 16, 32)

TIMES = 5
NEWEST = 50
"""Submissions whose median is the time of one."""

JOB_SECONDS, REST_SECONDS, LOOK_SECONDS = 600.0, 10.0, 10.0

ONE_AT_A_TIME = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: lab}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: one}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: lab, resources: [{name: cpu, nominalQuota: 1}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: one}
spec: {clusterQueue: one}
"""


def listed(curves: Curves) -> None:
    """Commands in a lab whose Ray knows many jobs, all of which have ended."""
    with cli_lab() as cli:
        cli.up()
        lab, so_far = cli.inside, 0
        for count in LISTED:
            command = ("python", "listed.py", str(so_far), str(count))
            succeed(lab, lab.submit(command=command, working_dir=SCRIPTS).submission_id, JOB_SECONDS)
            so_far = count
            time.sleep(REST_SECONDS)
            curves.add(count, "Ray's own list", "s", median_of(lambda: timed(lab.jobs.list), TIMES))
            for words in (("jobs",), ("status",)):
                curves.add(count, f"labctl {words[0]}", "s", seconds(cli, *words))
            curves.add(count, "submit a job", "s", median_of(lambda: timed(lambda: _nothing(lab)), 3))


def _nothing(lab: Lab) -> None:
    lab.submit(command=("true",), working_dir=SCRIPTS)


def queued(curves: Curves) -> None:
    """A queue through which one job goes at a time, and behind it many that wait."""
    with cli_lab() as cli:
        cli.up()
        lab, so_far = cli.inside, 0
        lab.queues.apply([("one.yaml", ONE_AT_A_TIME)])
        for count in QUEUED:
            took = [timed(lambda: _enqueue(lab)) for _ in range(so_far, count)]
            so_far = count
            curves.add(count, "submit one", "ms", 1000 * sorted(took[-NEWEST:])[NEWEST // 2])
            controller = controller_of(cli)
            before = sum(controller.cpu_times()[:2])
            time.sleep(LOOK_SECONDS)
            used = sum(controller.cpu_times()[:2]) - before
            curves.add(count, "controller at rest", "% of a core", 100 * used / LOOK_SECONDS)
            curves.add(count, "controller's memory", "MB", memory(controller) / 1e6)
            waits = lab.queues.list(limit=2).workloads[-1]
            why = f"{waits.namespace}/{waits.name}"
            curves.add(count, "queue list", "s", seconds(cli, "queue", "list"))
            curves.add(count, "queue why", "s", seconds(cli, "queue", "why", why))
            curves.add(count, "labctl jobs", "s", seconds(cli, "jobs"))


def _enqueue(lab: Lab) -> None:
    job = of_command(Submission(("sleep", "100000"), num_cpus=1), QueueRequest("default/one"))
    lab.queues.submit(job)


def controller_of(cli: CliLab) -> psutil.Process:
    """The process of the queues' controller. Raises LostError."""
    mark = f"{cli.folder}:{QUEUE}"
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                return process
        except psutil.Error:
            continue
    raise LostError("the lab has no controller of queues")


def nodes(curves: Curves) -> None:
    """Labs with more and more workers on one machine, in which two ranks train and one loses its node."""
    for count in NODES:
        with cli_lab() as cli:
            curves.add(count, "up", "s", cli.up(count)[0])
            time.sleep(REST_SECONDS)
            curves.add(count, "memory at rest", "MB", megabytes(cli))
            curves.add(count, "labctl status", "s", seconds(cli, "status"))
            to_step, total = recovered_in(once(cli, Case("two-worker kill", "kill", 2)))
            curves.add(count, "fault to first new step", "s", to_step)
            curves.add(count, "fault to first new epoch", "s", total)


def seconds(cli: CliLab, *words: str) -> float:
    """The median time of a command as a process."""
    return median_of(lambda: cli.call((*words, "--json"))[0], TIMES)
