"""What Prometheus knows of a lab. `MetricsTests` holds for every runtime; a module of each gives its lab."""

from __future__ import annotations

import math
import time

import pytest

from lab.services import HEAD, STORE, worker
from tests.dashboard import HEALTH, QUEUES, Prometheus, queries
from tests.e2e.harness import PATIENCE, Shell
from tests.e2e.queues import described, submitted
from tests.waiting import eventually

EPOCHS = 24
"""A training of three and more of Prometheus' questions."""

CONTRADICTORY = "count by (instance) (raylab_node_info) > 1"
"""Two services at one address: then joins would fail."""


def complete(missing: list[str]) -> bool:
    """Whether no query is without data; else an error that names those."""
    assert not missing, missing
    return True


class MetricsTests:
    def test_every_query_of_the_dashboard_has_data_and_every_target_is_up(self, shell: Shell) -> None:
        prometheus = Prometheus(shell.lab.endpoints().prometheus)
        begin = time.time()
        job = shell.digits(epochs=EPOCHS)
        target = shell.where(job)
        shell.labctl("fault-inject", target, "--fault", "stop", "--detach", "--json")
        shell.succeeds(job)

        def without_data() -> list[str]:
            now = time.time()
            answers = (
                (
                    query,
                    prometheus.over(query.expr, begin, now)
                    if query.annotation
                    else prometheus.series(query.expr),
                )
                for query in queries()
            )
            return [f"{query.title}: {query.expr}" for query, series in answers if not series]

        eventually(lambda: complete(without_data()), PATIENCE, "every query has data")
        assert prometheus.series(CONTRADICTORY) == []

        def value(expr: str) -> float:
            (only,) = prometheus.series(expr)
            return float(only["value"][1])

        def becomes(expr: str, wanted: float) -> None:
            eventually(lambda: value(expr) == wanted, PATIENCE, f"{expr} is {wanted:g}")

        run = shell.lab.history(job).runs[-1]
        by_run = f'{{job="{job}",run="{run.name}"}}'
        assert len(run.attempts) == 2
        becomes(f"raylab_run_epoch{by_run}", EPOCHS)
        becomes(f"raylab_checkpoints{by_run}", len(run.checkpoints))
        becomes(f"raylab_attempts{by_run}", 2)
        becomes('raylab_jobs{status="SUCCEEDED"} > bool 0', 1)
        becomes("count(raylab_node_info)", 3)
        becomes("sum(raylab_node_alive)", 3)
        services = {node["metric"]["service"] for node in prometheus.series("raylab_node_info")}
        assert services == {HEAD, worker(0), worker(1)}
        assert value("minio_cluster_usage_total_bytes") > 0
        active = f'raylab_fault_active{{kind="stop",target="{target}"}}'
        (fault,) = prometheus.over(active, begin, time.time())
        shown = [float(sample) for _, sample in fault["values"]]
        assert max(shown) == 1
        becomes(active, 0)

        def unhealthy() -> dict[str, list[str]]:
            return {pool: states for pool, states in prometheus.targets().items() if set(states) != {"up"}}

        eventually(lambda: not unhealthy(), PATIENCE, "every target is up")
        assert set(prometheus.targets()) == {"ray", "minio", "raylab", "queue", "prometheus"}
        assert len(prometheus.targets()["ray"]) >= 3

    def test_every_query_of_the_dashboard_of_queues_has_data(self, shell: Shell) -> None:
        prometheus = Prometheus(shell.lab.endpoints().prometheus)
        shell.labctl("queue", "apply", "--example", "two-teams")
        preempted = 'sum(kueue_preempted_workloads_total{reason="InCohortReclamation"}) or vector(0)'

        def value(expr: str) -> float:
            (only,) = prometheus.series(expr)
            return float(only["value"][1])

        def becomes(job: str, status: str) -> None:
            eventually(lambda: described(shell, job)["status"] == status, PATIENCE, f"{job} is {status}")

        def sleeps(queue: str, seconds: float) -> str:
            command = ("python", "-c", f"import time; time.sleep({seconds})")
            return submitted(shell, "--num-gpus", "1", "--queue", queue, "--", *command)

        before = value(preempted)
        first = sleeps("alice/blue", 1)
        becomes(first, "Finished")  # a rate counts from the second sample on
        finished = 'kueue_finished_workloads_total{cluster_queue="blue"}'
        eventually(lambda: value(finished) >= 1, PATIENCE, "Prometheus knows that it has finished")
        both = sleeps("alice/blue", 600), sleeps("alice/blue", 600)
        for job in both:
            becomes(job, "Admitted")
        becomes(sleeps("bob/red", 1), "Finished")

        def attempts() -> int:
            return sum(described(shell, job)["attempts"] for job in both)

        eventually(lambda: attempts() == 3, PATIENCE, "the one that was preempted is back")
        for job in both:
            shell.labctl("jobs", "stop", job)
            becomes(job, "Finished")

        def without_data() -> list[str]:
            """Queries without a series, or with a value that is no number."""
            answers = ((query, prometheus.series(query.expr)) for query in queries(QUEUES))
            return [
                f"{query.title}: {query.expr}: {series}"
                for query, series in answers
                if not any(math.isfinite(float(sample["value"][1])) for sample in series)
            ]

        eventually(lambda: complete(without_data()), PATIENCE, "every query has data")
        eventually(lambda: value(preempted) == before + 1, PATIENCE, "the preemption is counted")

    def test_every_query_of_the_dashboard_of_health_has_data(self, shell: Shell) -> None:
        prometheus = Prometheus(shell.lab.endpoints().prometheus)

        def without_data() -> list[str]:
            return [query.expr for query in queries(HEALTH) if not prometheus.series(query.expr)]

        eventually(lambda: complete(without_data()), PATIENCE, "every query has data")

    def test_prometheus_shows_a_page_of_another_origin_nothing_and_nobody_the_labs_folder(
        self, shell: Shell
    ) -> None:
        import urllib3

        url = shell.lab.endpoints().prometheus
        with urllib3.PoolManager(retries=False, timeout=PATIENCE) as pool:
            asked = {
                page: pool.request(
                    "GET", f"{url}/api/v1/status/{page}", headers={"Origin": "http://foreign.example"}
                )
                for page in ("flags", "config", "runtimeinfo")
            }
            ended = pool.request("POST", f"{url}/-/quit").status
            kept = pool.request("POST", f"{url}/api/v1/admin/tsdb/snapshot").data.decode()
        for page, answer in asked.items():
            assert answer.status == 200, page
            assert "Access-Control-Allow-Origin" not in answer.headers, page
            assert str(shell.folder) not in answer.data.decode(), page
        assert ended == 403, "whoever reaches its port can end it"
        assert "admin APIs disabled" in kept, "whoever reaches its port can fill its disk"

    @pytest.mark.long
    def test_a_store_that_hangs_is_told_and_costs_no_other_figure(self, shell: Shell) -> None:
        prometheus = Prometheus(shell.lab.endpoints().prometheus)

        def up(source: str) -> bool:
            return bool(prometheus.series(f'raylab_source_up{{source="{source}"}} == 1'))

        eventually(lambda: up("ray") and up("store"), PATIENCE, "both sources are up")
        runtime = shell.runtime()
        runtime.pause(STORE)

        def costs_no_other() -> bool:
            assert not up("store"), "the store is told to be silent"
            assert up("ray")
            return bool(prometheus.series('up{job="raylab"} == 1') and prometheus.series("raylab_node_alive"))

        try:
            eventually(costs_no_other, PATIENCE, "the store alone is silent")
        finally:
            runtime.resume(STORE)
        eventually(lambda: up("store"), PATIENCE, "the store is back")
