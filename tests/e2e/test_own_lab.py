"""A lab of ann's own beside the class: with a worker that the class lends, which its queues count as hers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.cluster.api import RayApi
from lab.errors import ClusterError, NotFoundError, RefusedError
from lab.lab import Lab
from lab.runtime.local.runtime import LocalRuntime
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.e2e.test_class import Student
from tests.waiting import eventually

ON_TWO = """
import ray, time
ray.init()
@ray.remote(num_gpus=1)
def place():
    time.sleep(2)
    return ray.get_runtime_context().get_node_id()
print("nodes", len(set(ray.get([place.remote(), place.remote()]))))
"""
ONE = "import ray; ray.init(); print('GPUs', ray.cluster_resources()['GPU'])"


@pytest.fixture
def bench(make_bench: Callable[[], Bench]) -> Iterator[Bench]:
    """A class whose people's own labs are removed with it."""
    with ExitStack() as after:
        made = make_bench()
        name = f"{made.name}-ann"
        after.callback(lambda: LocalRuntime(name, made.home / name).down(volumes=True))
        yield made


def gpus(lab: Lab) -> float:
    """The GPUs of a lab's living nodes, by Ray."""
    return sum(node.resources.get("GPU", 0) for node in lab.api.nodes() if node.alive)


@pytest.mark.rare
def test_a_lab_of_anns_own(bench: Bench, tmp_path: Path) -> None:
    bench.labctl(*UP, "--class")
    handed = bench.labctl("class", "add", "ben", "--json").document
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "two.py").write_text(ON_TWO)
    (folder / "one.py").write_text(ONE)
    ben = Student(handed["gateway"], handed["people"][0]["token"], folder)

    asked = ("class", "add", "ann", "--own-lab", "--json")
    refused = bench.labctl(*asked, "--workers", "3", code=RefusedError.exit_code)
    assert "no quota for 3 workers" in refused.err
    assert [one["name"] for one in bench.labctl("class", "list", "--json").document["people"]] == ["ben"]

    given = bench.labctl(*asked, timeout=2 * PATIENCE).document
    own, name = given["own_lab"], f"{bench.name}-ann"
    assert (own["lab"], own["workers"]) == (name, ["ray-worker-1"])
    hers = Lab(LocalRuntime(name, bench.home / name))
    assert (gpus(hers), gpus(bench.lab), bench.healthy()) == (1, 1, True)
    ann = Student(own["address"], own["token"], folder)
    code, said = ann("submit", "--working-dir", ".", "--", "python", "one.py")
    assert (code, "GPUs 1.0" in said) == (0, True), said

    _check_walls(bench, hers, given)
    _let_exams_preempt(bench, tmp_path / "queue.yaml")
    ranks = ("--queue", "default", "--workers", "2", "--gpus-per-worker", "1", "--working-dir", ".")
    exam = ("submit", "--detach", "--quiet", "--priority", "exam", *ranks)
    code, printed = ben.labctl(*exam, "--", "python", "two.py")
    assert code == 0, printed
    job = printed.strip()
    code, printed = ben.labctl("queue", "why", job)
    assert "1 more GPU is needed; ann holds" in " ".join(printed.split()), printed
    bench.labctl("up", "--class")
    assert (bench.lab.status().service("ray-worker-1"), gpus(bench.lab)) == (None, 1)
    listed = bench.labctl("class", "list").out
    assert f"{name}: up, has ray-worker-1" in " ".join(listed.split()), listed
    code, said = ann("submit", "--working-dir", ".", "--", "python", "one.py")
    assert (code, "GPUs 1.0" in said) == (0, True), said
    (held,) = (row for row in bench.lab.queues.list().workloads if row.lab)
    assert (held.status, bench.lab.queues.describe(job).status) == ("Admitted", "Pending")
    refused = bench.labctl(*asked, code=RefusedError.exit_code)
    assert "ann has a lab of her own" in refused.err

    gone = bench.labctl("class", "remove", "ann", "--own-lab", "--json", timeout=2 * PATIENCE).document
    assert gone["own_lab"] == name
    assert (hers.status().up, len(hers.view.kept()), bench.healthy()) == (False, 1, True)
    bench.succeeds(job)
    assert "nodes 2" in bench.lab.jobs.logs(job)

    again = bench.labctl(*asked, timeout=2 * PATIENCE).document["own_lab"]
    assert again["token"] != own["token"]
    bench.labctl("down")
    assert not hers.status().up
    bench.labctl(*UP, "--class")
    assert (gpus(bench.lab), bench.healthy()) == (2, True)
    assert not any(row.lab for row in bench.lab.queues.list().workloads)
    assert f"{name}: ended" in " ".join(bench.labctl("class", "list").out.split())
    bench.labctl("class", "remove", "ann", "--own-lab", code=NotFoundError.exit_code)
    bench.labctl("class", "remove", "ann", "--delete-work", "--yes")
    eventually(lambda: not (bench.home / name / "objects").exists(), PATIENCE, "her objects are deleted")


def _let_exams_preempt(bench: Bench, file: Path) -> None:
    """Jobs of priority `exam` preempt others of the class."""
    (queue,) = (one for one in bench.lab.queues.objects() if one["kind"] == "ClusterQueue")
    spec = queue["spec"]
    assert isinstance(spec, dict)
    spec["preemption"] = {"withinClusterQueue": "LowerPriority"}
    exam = {"kind": "WorkloadPriorityClass", "metadata": {"name": "exam"}, "value": 1000}
    documents = (queue, {"apiVersion": queue["apiVersion"], **exam})
    file.write_text("\n---\n".join(json.dumps(one) for one in documents))
    bench.labctl("queue", "apply", str(file))


def _check_walls(bench: Bench, hers: Lab, given: dict[str, object]) -> None:
    """The tokens of one lab are strangers to the other, and she takes no quota from her own lab."""
    people = given["people"]
    assert isinstance(people, list)
    theirs, own = bench.lab.endpoints(), hers.endpoints()
    for address, token in (
        (theirs.dashboard, own.ray_token),
        (own.dashboard, theirs.ray_token),
        (own.dashboard, people[0]["token"]),
    ):
        with pytest.raises(ClusterError):
            RayApi(address, token).nodes()
    with pytest.raises(ClusterError):
        RayApi(theirs.gateway, own.ray_token, gateway=True).nodes()
    (held,) = (row for row in bench.lab.queues.list().workloads if row.lab)
    assert (held.namespace, held.lab) == ("ann", hers.name)
    for order in (bench.lab.queues.cancel, bench.lab.queues.hold):
        with pytest.raises(RefusedError, match="own lab"):
            order(held.workload)
    with pytest.raises(NotFoundError):
        bench.lab.queues.release("ann/nothing")
