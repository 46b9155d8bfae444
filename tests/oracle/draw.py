"""Scenarios drawn by chance: what one cycle of the queues may find, as Kueue's own objects.

A scenario is a list of objects: quotas, queues, workloads that hold quota and others that wait. Creation
times all differ, since Kueue goes by the order of a map where two are the same.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from kueue.model import FlavorResource
from kueue.quantity import amount
from kueue.tree import QuotaNode, Tree
from tests.oracle.judged import setup_of
from tests.oracle.objects import API, GPU, Object, condition, moment, shown

ARRIVALS = (0, 0, 1, 1, 2)
"""Numbers of workloads that come, or end, between two cycles."""

SPACES = ("alice", "bob")
STRATEGIES = (
    ["LessThanOrEqualToFinalShare"],
    ["LessThanInitialShare"],
    ["LessThanOrEqualToFinalShare", "LessThanInitialShare"],
)
WEIGHTS = ("0", "500m", "1", "1", "1", "2", "3")


def drawn(number: int, cycles: int = 1) -> tuple[list[Object], list[Object]]:
    """The scenario of this number, always the same: objects, and what happens before each cycle.

    Before the only one nothing does. What LocalQueues used plays no part in several.
    """
    if cycles == 1:
        return Drawing(random.Random(number)).scenario(), [{}]
    return Drawing(random.Random(number), usage=False).day(cycles)


@dataclass
class Drawing:
    """Choices of one scenario.

    `spread` is the largest amount of a request, `alike` says that all queues have quota of the same, `lent`
    that what is lent may come back where LocalQueues compete by usage.
    """

    chance: random.Random
    usage: bool = True
    """What LocalQueues used may play a part: in one cycle, where no controller counts it."""

    objects: list[Object] = field(default_factory=list)
    flavors: list[Object] = field(default_factory=list)
    cohorts: list[str] = field(default_factory=list)
    queues: list[Object] = field(default_factory=list)
    doors: list[Object] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)
    shape: list[tuple[list[str], list[str]]] = field(default_factory=list)
    serial: int = 0

    def scenario(self) -> list[Object]:
        """Draw everything."""
        self.moments = self.chance.sample(range(1, 900), 200)
        self.spread = self.chance.choice((1, 2, 3))
        self.fair = self.chance.random() < 0.5
        self.by_usage = self.chance.random() < 0.25 and self.usage
        self.lent = self.chance.random() < 0.5
        self.alike = self.chance.random() < 0.7
        self.objects.append(self._configuration())
        for name in SPACES:  # as an API server labels them
            metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
            self.objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self._draw_flavors()
        self._draw_cohorts()
        for place in range(self.chance.randint(1, 6)):
            self._draw_queue(f"q{place}")
        self._draw_running()
        for queue in self.queues:
            for _ in range(self.chance.choice((0, 1, 1, 2, 3))):
                self.objects.append(self._waiting(queue))
        return self.objects

    def often(self, share: float) -> bool:
        """True in this share of all cases."""
        return self.chance.random() < share

    def day(self, cycles: int) -> tuple[list[Object], list[Object]]:
        """A scenario, and before each of so many cycles workloads that come, and others that end."""
        objects, days = self.scenario(), []
        known = [item["metadata"] for item in objects if item["kind"] == "Workload"]
        for number in range(cycles):
            came = [
                self._waiting(self.chance.choice(self.queues)) for _ in range(self.chance.choice(ARRIVALS))
            ]
            for place, workload in enumerate(came):
                workload["metadata"]["creationTimestamp"] = moment(7200 + 10 * number + place)
                workload.pop("status", None)
            ended = [self.chance.choice(known) for _ in range(self.chance.choice(ARRIVALS)) if known]
            finish = [f"{name['namespace']}/{name['name']}" for name in ended]
            days.append({"arrive": came, "finish": finish})
            known += [workload["metadata"] for workload in came]
        return objects, days

    # Settings and quotas

    def _configuration(self) -> Object:
        settings: Object = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
        if self.fair:
            settings["fairSharing"] = {"preemptionStrategies": self.chance.choice(STRATEGIES)}
        if self.by_usage:
            settings["admissionFairSharing"] = {
                "usageHalfLifeTime": "10m",
                "usageSamplingInterval": "5m",
                "resourceWeights": {GPU: self.chance.choice((1, 2.5))},
            }
        if self.often(0.1):
            settings["resources"] = {"quotaCheckStrategy": "IgnoreUndeclared"}
        return settings

    def _draw_flavors(self) -> None:
        for place in range(self.chance.randint(1, 4)):
            spec: Object = {}
            if self.often(0.2):
                spec["nodeLabels"] = {"kind": self.chance.choice("ab")}
            if self.often(0.1):
                spec["nodeTaints"] = [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]
            self.flavors.append(self._object("ResourceFlavor", f"f{place}", spec))

    def _draw_cohorts(self) -> None:
        for place in range(self.chance.choice((0, 1, 1, 1, 2, 3, 4, 5))):
            name, spec = f"c{place}", Object()
            if self.cohorts and self.often(0.9 if self.alike else 0.6):
                spec["parentName"] = self.chance.choice(self.cohorts)
            self.cohorts.append(name)
            if not spec and self.often(0.5):
                continue  # only named
            if self.often(0.5):
                spec["resourceGroups"] = self._groups(
                    self._chosen_shape(), "parentName" in spec, capped=False
                )
            if self.often(0.4):
                spec["fairSharing"] = {"weight": self.chance.choice(WEIGHTS)}
            self._object("Cohort", name, spec)

    def _chosen_shape(self) -> list[tuple[list[str], list[str]]]:
        """The same for all where they are alike, so that they have what others need."""
        if not self.shape or not self.alike:
            self.shape = self._shape()
        return self.shape

    def _shape(self) -> list[tuple[list[str], list[str]]]:
        """Resources and flavors of each group."""
        names = [flavor["metadata"]["name"] for flavor in self.flavors]
        self.chance.shuffle(names)
        cut = self.chance.randint(1, len(names))
        if cut < len(names) and self.often(0.5):
            return [(self._resources([GPU], 0.05), names[:cut]), (self._resources(["cpu"], 0.0), names[cut:])]
        return [
            (
                self._resources(self.chance.choice(([GPU], [GPU, "cpu"], ["cpu"], [GPU, "memory"])), 0.1),
                names[:cut],
            )
        ]

    def _resources(self, first: list[str], pods: float) -> list[str]:
        return [*first, *(["pods"] if self.often(pods) else [])]

    def _groups(
        self, shape: list[tuple[list[str], list[str]]], limits: bool, *, capped: bool
    ) -> list[Object]:
        return [
            {
                "coveredResources": resources,
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [self._quota(resource, limits, capped) for resource in resources],
                    }
                    for flavor in flavors
                ],
            }
            for resources, flavors in shape
        ]

    def _quota(self, resource: str, limits: bool, capped: bool) -> Object:
        nominal = self.chance.randint(0, 2 * self.spread)
        quota: Object = {"name": resource, "nominalQuota": self._quantity(resource, nominal)}
        if limits and self.often(0.35):
            quota["borrowingLimit"] = self._quantity(resource, self.chance.randint(0, self.spread))
        if limits and self.often(0.35):
            most = nominal if capped else 3 * self.spread
            quota["lendingLimit"] = self._quantity(resource, self.chance.randint(0, most))
        return quota

    def _quantity(self, resource: str, value: int) -> str:
        return {"cpu": f"{500 * value}m", "memory": f"{value}Gi"}.get(resource, str(value))

    # Queues

    def _draw_queue(self, name: str) -> None:
        cohort = self.chance.choice(self.cohorts) if self.cohorts and self.often(0.9) else ""
        shape = self._chosen_shape()
        spec: Object = {
            "resourceGroups": self._groups(shape, bool(cohort), capped=True),
            "namespaceSelector": {},
            "queueingStrategy": self._strategy(shape),
            "preemption": self._policies(counts_pods=any("pods" in resources for resources, _ in shape)),
            "flavorFungibility": self._fungibility(),
            "stopPolicy": "Hold" if self.often(0.03) else "None",
        }
        if cohort:
            spec["cohortName"] = cohort
        if self.often(0.05):
            spec["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": SPACES[0]}}
        if self.often(0.4):
            spec["fairSharing"] = {"weight": self.chance.choice(WEIGHTS)}
        if self.by_usage:
            modes = ("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
            spec["admissionScope"] = {"admissionMode": modes[self.often(0.3)]}
        self.queues.append(self._object("ClusterQueue", name, spec))
        single = self.by_usage and self.lent  # else the order of victims is none: docs/queues.md
        for number in range(1 if single else self.chance.choice((1, 1, 2, 3))):
            self._draw_door(name, f"{name}-{number}")

    def _strategy(self, shape: list[tuple[list[str], list[str]]]) -> str:
        """A strategy; over several cycles a strict one only where there is one flavor: docs/queues.md."""
        chosen = self.chance.choice(("BestEffortFIFO", "StrictFIFO"))
        several = any(len(flavors) > 1 for _, flavors in shape)
        return "BestEffortFIFO" if several and not self.usage else chosen

    def _policies(self, *, counts_pods: bool) -> Object:
        within = self.chance.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority"))
        reclaim = self.chance.choice(("Never", "LowerPriority", "LowerPriority", "Any", "Any"))
        if self.by_usage and not self.lent:
            reclaim = "Never"
        if counts_pods:  # Kueue forgets the pods of who preempts: docs/queues.md
            within = reclaim = "Never"
        policies: Object = {
            "withinClusterQueue": within,
            "reclaimWithinCohort": reclaim,
            "borrowWithinCohort": {"policy": "Never"},
        }
        if reclaim != "Never" and self.often(0.5):
            policies["borrowWithinCohort"] = {"policy": "LowerPriority"}
            if self.often(0.5):
                policies["borrowWithinCohort"]["maxPriorityThreshold"] = self.chance.randint(0, 2)
        return policies

    def _fungibility(self) -> Object:
        ways = ("MayStopSearch", "TryNextFlavor")
        rule = {"whenCanBorrow": self.chance.choice(ways), "whenCanPreempt": self.chance.choice(ways)}
        if set(rule.values()) == {"TryNextFlavor"} and self.often(0.7):
            rule["preference"] = self.chance.choice(("BorrowingOverPreemption", "PreemptionOverBorrowing"))
        return rule

    def _draw_door(self, queue: str, name: str) -> None:
        spec: Object = {"clusterQueue": queue}
        if self.by_usage and self.often(0.4):
            spec["fairSharing"] = {"weight": self.chance.choice(WEIGHTS)}
        door = self._object("LocalQueue", name, spec, namespace=self.chance.choice(SPACES))
        if self.by_usage and self.often(0.8):
            used = {GPU: str(self.chance.randint(0, 3)), "cpu": f"{250 * self.chance.randint(0, 8)}m"}
            consumed = {"consumedResources": used, "lastUpdate": moment(0)}
            door["status"] = {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": consumed}}
        self.doors.append(door)

    # Workloads

    def _draw_running(self) -> None:
        """Workloads that hold quota: nearly always no more than there is, as if Kueue had admitted them."""
        setup = setup_of(self.objects)
        tree = Tree(setup.cluster_queues.values(), setup.cohorts.values())
        for _ in range(self.chance.randint(0, 20 * len(self.queues))):
            queue = self.chance.choice(self.queues)
            workload = self._workload(queue, reduced=False)
            if workload is not None and self._holds(workload, queue, tree.queues[queue["metadata"]["name"]]):
                self.objects.append(workload)

    def _holds(self, workload: Object, queue: Object, node: QuotaNode) -> bool:
        """Give a workload quota of flavors by chance; False where there is no room."""
        sets: list[Object] = []
        usage: dict[FlavorResource, int] = {}
        for pod_set in workload["spec"]["podSets"]:
            wanted = dict(pod_set["template"]["spec"]["containers"][0]["resources"]["requests"])
            covered = {name for one in queue["spec"]["resourceGroups"] for name in one["coveredResources"]}
            if "pods" in covered:
                wanted["pods"] = "1"
            flavors, totals = {}, {}
            for group in queue["spec"]["resourceGroups"]:
                flavor = self.chance.choice(group["flavors"])["name"]
                for resource in sorted({*group["coveredResources"]} & {*wanted}):
                    value = amount(resource, wanted[resource]) * pod_set["count"]
                    flavors[resource], totals[resource] = flavor, shown(resource, value)
                    at = FlavorResource(flavor, resource)
                    usage[at] = usage.get(at, 0) + value
            sets.append(
                {
                    "name": pod_set["name"],
                    "count": pod_set["count"],
                    "flavors": flavors,
                    "resourceUsage": totals,
                }
            )
        if not usage or (not node.fits(usage) and not self.often(0.04)):
            return False
        node.add_all(usage)
        self._admit(workload, queue["metadata"]["name"], sets)
        return True

    def _admit(self, workload: Object, queue: str, sets: list[Object]) -> None:
        since = moment(1000 + self.chance.randint(0, 5))
        conditions = [
            condition("QuotaReserved", since, "QuotaReserved"),
            condition("Admitted", since, "Admitted"),
        ]
        if self.often(0.05):
            conditions.append(condition("Evicted", moment(1010), "Preempted"))
        workload["status"] = {
            "admission": {"clusterQueue": queue, "podSetAssignments": sets},
            "conditions": conditions,
        }

    def _waiting(self, queue: Object) -> Object:
        workload = self._workload(queue, reduced=True)
        if self.often(0.1):
            taint = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
            workload["spec"]["podSets"][0]["template"]["spec"]["tolerations"] = [taint]
        if self.often(0.1):
            chosen = {"kind": self.chance.choice("ab")}
            workload["spec"]["podSets"][0]["template"]["spec"]["nodeSelector"] = chosen
        if self.often(0.05):
            late = moment(1000 + self.moments.pop())
            evicted = condition("Evicted", late, "PodsReadyTimeout")
            workload["status"] = {"conditions": [evicted]}
        return workload

    def _workload(self, queue: Object, *, reduced: bool) -> Object:
        covered = [name for group in queue["spec"]["resourceGroups"] for name in group["coveredResources"]]
        own = [door for door in self.doors if door["spec"]["clusterQueue"] == queue["metadata"]["name"]]
        door = self.chance.choice(own)["metadata"]
        sets = [self._pods(name, covered) for name in ("main", "more")[: 2 if self.often(0.2) else 1]]
        if reduced and self.often(0.3):
            shrinks = self.chance.choice(sets)
            shrinks["count"] = self.chance.randint(1, 6)
            shrinks["minCount"] = self.chance.randint(1, shrinks["count"])
        self.serial += 1
        return {
            "apiVersion": API,
            "kind": "Workload",
            "metadata": {
                "namespace": door["namespace"],
                "name": f"w{self.serial}",
                "uid": f"{self.chance.randrange(1 << 32):08x}",
                "creationTimestamp": moment(self.moments.pop() if self.moments else 0),
            },
            "spec": {
                "queueName": door["name"],
                "priority": self.chance.choice((0, 0, 1, 2) if reduced else (0, 0, 0, 1, 2)),
                "active": True,
                "podSets": sets,
            },
        }

    def _pods(self, name: str, covered: list[str]) -> Object:
        asked = [resource for resource in covered if resource != "pods" and self.often(0.85)]
        if asked and self.often(0.02):  # alone it would end Kueue's search too soon: docs/queues.md
            asked.append("example.com/fpga")
        least = 0 if self.often(0.05) else 1
        requests = {
            resource: self._quantity(resource, self.chance.randint(least, self.spread)) for resource in asked
        }
        count = 0 if self.often(0.02) else self.chance.choice((1, 1, 1, 1, 2, 3, 4))
        return {
            "name": name,
            "count": count,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "resources": {"requests": requests}}],
                }
            },
        }

    def _object(self, kind: str, name: str, spec: Object, namespace: str = "") -> Object:
        made: Object = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        if namespace:
            made["metadata"]["namespace"] = namespace
        self.objects.append(made)
        return made
