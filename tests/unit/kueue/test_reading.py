"""Kueue's YAML: what is understood, and what is refused with its line."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from kueue import quantity
from kueue.model import (
    AdmissionFairSharing,
    ClusterQueue,
    FlavorResource,
    Quota,
    Setup,
    WaitForPodsReady,
    Workload,
    quotas,
)
from kueue.reading import read
from kueue.writing import as_yaml, objects
from tests.conftest import ROOT
from tests.unit.kueue.made import job, queue, running, setup

DATA = ROOT / "tests" / "unit" / "data" / "queue"
SECTIONS = re.split(r"^==== (.+)\n", (DATA / "bad.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
BAD = dict(zip(SECTIONS[1::2], SECTIONS[2::2], strict=True))
SEEDS = sorted((DATA / "seeds").glob("*.yaml"))


def test_there_are_at_least_fifty_bad_files() -> None:
    assert len(BAD) >= 50


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_line_and_reason(name: str) -> None:
    lines = BAD[name].splitlines()
    (number, said) = next((n, line.split("# ! ")[1]) for n, line in enumerate(lines, 1) if "# ! " in line)
    message, _, hint = said.partition(" | ")
    reading = read([("bad.yaml", BAD[name])])
    problems = {(error.line, str(error)) for error in reading.errors}
    assert [problem for line, problem in problems if line == number and message in problem], problems
    assert hint in {error.hint for error in reading.errors if error.line == number}


def test_a_problem_names_file_line_and_path() -> None:
    (error,) = read([("team.yaml", BAD["a strategy with a slip"])]).errors
    assert str(error) == (
        "team.yaml:7: spec.queueingStrategy: 'StrictFifo' is none of BestEffortFIFO, StrictFIFO"
    )


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_the_seeds_are_read_as_they_are(path: object) -> None:
    assert len(SEEDS) == 8
    reading = read([(str(path), path.read_text(encoding="utf-8"))])  # type: ignore[attr-defined]
    assert reading.errors == ()


def test_a_resource_in_capitals_gets_a_warning() -> None:
    path = DATA / "seeds" / "blue-cluster-queue.yaml"
    warnings = read([("blue.yaml", path.read_text(encoding="utf-8"))]).warnings
    (odd,) = [warning for warning in warnings if "nvidia.com/GPU" in warning.message]
    assert odd.line == 14
    assert odd.path == "spec.resourceGroups[0].coveredResources[2]"
    assert odd.hint == "did you mean nvidia.com/gpu?"


def test_the_first_version_means_the_same_as_the_second() -> None:
    old = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: q}\nspec: {cohort: all, "
    new = old.replace("v1beta1", "v1beta2").replace("cohort:", "cohortName:")
    first = read([("a", old + "flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: Preempt}}")])
    second = read([("a", new + "flavorFungibility: {whenCanPreempt: MayStopSearch}}")])
    assert (first.errors, second.errors) == ((), ())
    assert first.setup == second.setup


CONFIG = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metrics: {bindAddress: ":8443"}
waitForPodsReady:
  timeout: 5m
  blockAdmission: true
  requeuingStrategy: {timestamp: Creation, backoffLimitCount: 3, backoffBaseSeconds: 10}
fairSharing: {preemptionStrategies: [LessThanInitialShare]}
admissionFairSharing: {usageHalfLifeTime: 24h, resourceWeights: {cpu: 0.5}}
resources: {quotaCheckStrategy: IgnoreUndeclared}
objectRetentionPolicies: {workloads: {afterFinished: 1h}}
"""


def test_the_configuration() -> None:
    reading = read([("config.yaml", CONFIG)])
    assert reading.errors == ()
    config = reading.setup.config
    assert config.strategies == ("LessThanInitialShare",)
    assert config.ignore_undeclared
    assert config.keep_finished == 3600.0
    assert read([("again", as_yaml(objects(reading.setup)))]).setup.config == config
    assert config.admission_fair_sharing == AdmissionFairSharing(86400.0, weights={"cpu": 0.5})
    assert config.pods_ready == WaitForPodsReady(
        300.0, None, True, "Creation", backoff_base=10.0, backoff_limit=3
    )


@pytest.mark.parametrize(
    ("version", "given", "waits"),
    [
        ("v1beta2", "{}", WaitForPodsReady(1800.0)),
        ("v1beta2", "{recoveryTimeout: 0s}", WaitForPodsReady(1800.0, 0.0)),
        ("v1beta1", "{enable: true}", WaitForPodsReady(300.0, block_admission=True)),
        ("v1beta1", "{timeout: 1m}", None),
    ],
)
def test_each_version_waits_for_pods_as_kueue_has_it(
    version: str, given: str, waits: WaitForPodsReady | None
) -> None:
    head = f"apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n"
    reading = read([("config.yaml", f"{head}waitForPodsReady: {given}\n")])
    assert (reading.errors, reading.setup.config.pods_ready) == ((), waits)
    assert read([("again", as_yaml(objects(reading.setup)))]).setup.config.pods_ready == waits


def test_usage_that_has_no_half_life_gets_a_warning() -> None:
    text = CONFIG.replace("usageHalfLifeTime: 24h, ", "")
    reading = read([("config.yaml", text)])
    assert reading.setup.config.admission_fair_sharing == AdmissionFairSharing(0.0, weights={"cpu": 0.5})
    assert [(warning.line, warning.path) for warning in reading.warnings] == [(9, "admissionFairSharing")]


def test_the_old_configuration_is_switched_on_by_enable() -> None:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"
    off = read([("c", text + "fairSharing: {enable: false}\nwaitForPodsReady: {timeout: 1m}\n")]).setup.config
    assert (off.strategies, off.pods_ready) == (None, None)
    on = read([("c", text + "fairSharing: {enable: true}\nwaitForPodsReady: {enable: true}\n")]).setup.config
    assert on.strategies is not None
    assert on.pods_ready is not None


PODS = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: w
  creationTimestamp: "2026-01-01T00:00:10Z"
  annotations: {raylab.io/duration: 1h30m, raylab.io/ready-after: never}
spec:
  podSets:
    - name: workers
      count: 3
      minCount: 2
      template:
        spec:
          image: ignored
"""


def test_what_pods_ask_for() -> None:
    spec = """\
          nodeSelector: {kind: spot}
          overhead: {cpu: 100m}
          initContainers:
            - {name: sidecar, restartPolicy: Always, resources: {requests: {cpu: 100m}}}
            - {name: load, resources: {requests: {cpu: 500m, memory: 3Gi}}}
          containers:
            - {name: a, resources: {requests: {cpu: 200m, memory: 1Gi}, limits: {cpu: 2}}}
            - {name: b, resources: {limits: {nvidia.com/gpu: 2, memory: 1Gi}}}
"""
    (workload,) = read([("w.yaml", PODS.replace("          image: ignored\n", spec))]).workloads
    (pods,) = workload.pod_sets
    assert (pods.name, pods.count, pods.min_count) == ("workers", 3, 2)
    assert pods.requests == {"cpu": 700, "memory": 3 * 2**30, "nvidia.com/gpu": 2}
    assert pods.node_selector == {"kind": "spot"}
    assert (workload.duration, workload.ready_after, workload.created) == (5400.0, None, 1767225610.0)


def test_the_status_of_a_workload_that_runs() -> None:
    text = as_yaml(objects(setup(queue("q", 4)), [running("w", "q", 2, at=60.0)]))
    (workload,) = read([("w.yaml", text)]).workloads
    assert workload.admission is not None
    assert workload.admission.usage() == {FlavorResource("h100", "nvidia.com/gpu"): 2}
    assert workload.reserved_at == 60.0


PRIORITIES = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 9
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: default}
value: 3
---
"""


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ("{podSets: [{name: main}]}", 3),
        ("{podSets: [{name: main}], priority: 5}", 5),
        (
            "{podSets: [{name: main}], priorityClassRef: {group: kueue.x-k8s.io, "
            "kind: WorkloadPriorityClass, name: high}}",
            9,
        ),
    ],
)
def test_where_a_priority_comes_from(spec: str, priority: int) -> None:
    text = (
        PRIORITIES
        + f"apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\nmetadata: {{name: w}}\nspec: {spec}"
    )
    (workload,) = read([("w.yaml", text)]).workloads
    assert workload.priority == priority


def test_what_is_written_is_read_as_the_same() -> None:
    given = read(
        [("two-teams.yaml", (DATA / "two-teams.yaml").read_text(encoding="utf-8")), ("config.yaml", CONFIG)]
    )
    again = read([("again.yaml", as_yaml(objects(given.setup, given.workloads)))])
    assert again.errors == ()
    assert again.setup == given.setup
    assert [replace(workload, uid="") for workload in again.workloads] == list(given.workloads)


def test_limits_and_policies_survive_being_written() -> None:
    every = ClusterQueue(
        "q",
        queue("x", (4, 2, 1)).groups,
        "all",
        "StrictFIFO",
        None,
        stop="Hold",
        weight=0.5,
        usage_based=True,
    )
    given = setup(every, queue("y", {"a": 1, "b": 2}))
    again = read([("again.yaml", as_yaml(objects(given)))])
    assert again.setup.cluster_queues == given.cluster_queues
    assert dict(quotas(again.setup.cluster_queues["q"].groups)) == {
        FlavorResource("h100", "nvidia.com/gpu"): Quota(4, 2, 1)
    }


def test_objects_without_a_namespace_are_in_the_one_that_is_given() -> None:
    text = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: a}\nspec: {clusterQueue: q}\n"
    )
    assert list(read([("a", text)], "blue").setup.local_queues) == [("blue", "a")]


def test_an_empty_file_is_nothing_and_gets_a_warning() -> None:
    reading = read([("a", ""), ("b", "---\n# nothing\n")])
    assert reading.setup == Setup()
    assert [str(warning) for warning in reading.warnings] == [
        "a:1: the file holds no objects", "b:1: the file holds no objects"
    ]  # fmt: skip


DOUBLE = "- &a{0} {{apiVersion: v1, kind: List, items: [*a{1}, *a{1}]}}\n"
NAMESPACE = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 30_000 + "]" * 30_000, "not read: nested deeper than 100 levels"),
        ("- " * 30_000 + "a", "not read: nested deeper than 100 levels"),
        (
            f"apiVersion: v1\nkind: List\nitems:\n- &a0 {NAMESPACE}\n"
            + "".join(DOUBLE.format(number, number - 1) for number in range(1, 40)),
            "not read: its aliases stand for more than 1000000 values",
        ),
    ],
    ids=["brackets", "dashes", "aliases"],
)  # fmt: skip
def test_what_would_never_end_or_crash_is_refused(text: str, message: str) -> None:
    reading = read([("a", text)])
    assert [error.message for error in reading.errors] == [message]
    assert reading.setup == Setup()


def test_aliases_are_read() -> None:
    text = f"apiVersion: v1\nkind: List\nmetadata: &m {{}}\nitems: [&a {NAMESPACE}]\nx: [*a, *a]\n"
    reading = read([("a", text)])
    assert (reading.errors, list(reading.setup.namespaces)) == ((), ["a"])


def cohorts(parents: dict[str, str]) -> str:
    return "---\n".join(
        f"apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {{name: {name}}}\n"
        f"spec: {{parentName: {parent}}}\n"
        for name, parent in parents.items()
    )


def test_a_circle_of_cohorts_gets_a_warning() -> None:
    warnings = read([("a", cohorts({"a": "b", "b": "c", "c": "b", "d": "e"}))]).warnings
    assert [(warning.line, warning.message.split(", ")[1]) for warning in warnings] == [
        (1, "a > b > c > b"), (6, "b > c > b"), (11, "c > b > c")
    ]  # fmt: skip


def test_too_many_cohorts_above_each_other_are_refused() -> None:
    assert read([("a", cohorts({f"c{number}": f"c{number + 1}" for number in range(99)}))]).errors == ()
    (error,) = read([("a", cohorts({f"c{number}": f"c{number + 1}" for number in range(100)}))]).errors
    assert str(error) == "a:1: more than 100 cohorts are above it"


def test_one_thing_that_is_wrong_is_told_once() -> None:
    (error,) = read([("a", BAD["a kind that is a number"])]).errors
    assert error.path == "kind"


def test_part_of_a_gpu_counts_as_a_whole_one() -> None:
    written = as_yaml(objects(setup(queue("q", 2)), []))
    text = re.sub(r"nominalQuota: \S+", "nominalQuota: 1500m", written)
    (odd,) = [warning for warning in read([("a", text)]).warnings if "counts as" in warning.message]
    assert odd.message == "1500m of nvidia.com/gpu counts as 2: only cpu is shared in parts"


def test_workloads_without_a_time_are_in_the_order_of_the_files() -> None:
    given: list[Workload] = [job("z", "q", 1, order=1), job("a", "q", 1, order=2)]
    workloads = read([("w", as_yaml(objects(setup(queue("q", 1)), given)))]).workloads
    assert [(workload.name, workload.order) for workload in workloads] == [("z", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("500m", Fraction(1, 2)),
        ("3Gi", 3 * 2**30),
        ("2000G", 2 * 10**12),
        ("1e3", 1000),
        ("0.5Ki", 512),
        ("-1", -1),
    ],
)
def test_quantities(text: str, value: Fraction) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize(
    ("resource", "text", "amount", "shown"),
    [
        ("cpu", "1500m", 1500, "1500m"),
        ("cpu", "2", 2000, "2"),
        ("memory", "1.5Gi", 3 * 2**29, "1536Mi"),
        ("memory", "2000G", 2 * 10**12, "1953125000Ki"),
        ("nvidia.com/gpu", "500m", 1, "1"),
        ("nvidia.com/gpu", "99E", 2**63 - 1, str(2**63 - 1)),
    ],
)
def test_amounts_are_whole_and_rounded_up(resource: str, text: str, amount: int, shown: str) -> None:
    assert quantity.amount(resource, text) == amount
    assert quantity.shown(resource, amount) == shown


@pytest.mark.parametrize("text", ["", "4 GPUs", "4GB", "0x10", "1e", "--1", "NaN"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)
