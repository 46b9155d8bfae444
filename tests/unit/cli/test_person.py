"""labctl as ann, ben and their teacher type it, with a gateway's address and a token, and nothing else."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from lab.cli.context import App
from lab.cli.main import cli
from lab.cluster.api import RayApi
from lab.cluster.jobs import Jobs
from lab.daemons.gateway.access import Access
from lab.daemons.gateway.server import Site
from lab.daemons.gateway.tokens import Slowdown
from lab.lab import Lab
from lab.runtime.classroom import ClassView
from tests.fakes.host import FakeClock
from tests.unit.daemons.gateway.classes import WORK, Class

OFFERS = {"CPU": 8, "GPU": 1}
SCRIPT = ("--", "python", "train.py")


class Served:
    """An application on loopback, in a thread of its own."""

    def __init__(self, serve: Callable[[web.Request], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner = self._do(self._start(serve))
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def _do(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    async def _start(self, serve: Callable[[web.Request], Any]) -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", serve)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    def close(self) -> None:
        if not self._loop.is_running():
            return
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)


class LabClock(FakeClock):
    """A clock whose seconds pass in the lab as well."""

    def __init__(self, step: Callable[[float], None]) -> None:
        super().__init__()
        self._step = step

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._step(seconds)


class Street:
    """The class behind its gateway, and those who type."""

    def __init__(self, folder: Path) -> None:
        self.school, self.folder = Class(folder / "class"), folder
        self.clock = LabClock(self.school.world.step)
        site = Site(self.school.registry, Slowdown(lambda _: None), lambda _: None, self._pause)
        site.open(Access(self.school.registry, self.school.queue, self.school.ray))
        self.served = Served(site.serve)
        self.tokens = {
            name: self.school.registry.reset(name)[0].token for name in ("ann", "ben", "eva", "tom")
        }
        (folder / "train.py").write_text("print(1)\n")
        (folder / "env.json").write_text(json.dumps({"env_vars": WORK}))
        self.school.ray.lists["/api/v0/nodes"] = nodes(ray_head={}, ray_worker_0=OFFERS, ray_worker_1=OFFERS)

    def close(self) -> None:
        self.served.close()
        self.school.world.close()

    async def _pause(self, seconds: float) -> None:
        pass

    def __call__(self, person: str, *arguments: str, url: str = "") -> Result:
        """What a person types, or whoever has this token."""
        own = {"RAY_ADDRESS": url or self.served.url, "RAY_AUTH_TOKEN": self.tokens.get(person, person)}

        def opener(runtime: str, name: str) -> Lab:
            assert runtime == "class"
            if url or person not in self.tokens:
                return Lab(ClassView(name, own))
            ray = RayApi(own["RAY_ADDRESS"], own["RAY_AUTH_TOKEN"], gateway=True)
            return Lab(ClassView(name, own), jobs=Jobs(ray, clock=self.clock))

        variables = {"RAYLAB_RUNTIME": "class", "RAYLAB_NAME": None, "RAYLAB_HOME": str(self.folder / "home")}
        return CliRunner().invoke(cli, arguments, obj=App(opener, self.clock), env=variables)

    def ok(self, person: str, *arguments: str) -> str:
        """The stdout of a command line that succeeds."""
        result = self(person, *arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, code: int, person: str, *arguments: str, url: str = "") -> str:
        """The stderr of one that is refused: an error, and perhaps what to do."""
        result = self(person, *arguments, url=url)
        assert result.exit_code == code, result.output
        assert result.stderr.count("error: ") == 1, result.stderr
        assert "bug" not in result.stderr
        return result.stderr

    def submit(self, person: str, *options: str) -> str:
        """Submit a script; returns the job's id."""
        place = ("--working-dir", str(self.folder), "--runtime-env", str(self.folder / "env.json"))
        return self.ok(person, "submit", "--detach", *place, *options, *SCRIPT).strip()


def nodes(**offers: Mapping[str, float]) -> Any:
    """Ray's list of nodes that are alive."""
    rows = [
        {"node_id": name, "node_name": name.replace("_", "-"), "state": "ALIVE", "resources_total": resources}
        for name, resources in offers.items()
    ]
    return {"data": {"result": {"result": rows}}}


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    made = Street(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    """One for all who change nothing."""
    made = Street(tmp_path_factory.mktemp("class"))
    yield made
    made.close()


# Jobs


def test_a_command_goes_through_her_queue_and_is_followed_to_its_end(street: Street) -> None:
    place = ("--working-dir", str(street.folder), "--runtime-env", str(street.folder / "env.json"))
    result = street("ann", "submit", *place, *SCRIPT)
    assert result.exit_code == 0, result.output
    (key,) = street.school.world.controller.records
    assert key.startswith("ann/ann-")
    assert f"log of {key.removeprefix('ann/')}" in result.stdout
    assert f"job {key} succeeded" in result.stderr


def test_each_attempt_is_followed_once(street: Street) -> None:
    (street.folder / "env.json").write_text(json.dumps({"env_vars": {**WORK, "WORK": "9", "BREAKS": "1"}}))
    place = ("--working-dir", str(street.folder), "--runtime-env", str(street.folder / "env.json"))
    result = street("ann", "submit", "--retry-limit", "1", "--retry-pause", "2s", *place, *SCRIPT)
    assert result.exit_code == 0, result.output
    (record,) = street.school.world.controller.records.values()
    first, second = (attempt.submission_id for attempt in record.job.attempts)
    assert result.stdout.splitlines() == [f"log of {first}", f"log of {second}"]
    assert f"attempt 2 of job {record.key} begins: {second}" in result.stderr
    assert street.ok("ann", "jobs", "logs", first).splitlines() == [f"log of {first}", f"log of {second}"]
    assert street.ok("ann", "jobs", "logs", second).splitlines() == [f"log of {second}"]


def test_a_job_that_fails_is_shown_with_its_last_lines(street: Street) -> None:
    (street.folder / "env.json").write_text(json.dumps({"env_vars": {**WORK, "FAILS": "1"}}))
    place = ("--working-dir", str(street.folder), "--runtime-env", str(street.folder / "env.json"))
    said = street.refused(9, "ann", "submit", *place, *SCRIPT)
    assert "its whole log: labctl jobs logs ann-" in said


def test_a_command_that_says_nothing_counts_as_one_worker_and_others_as_what_they_say(street: Street) -> None:
    taken = {}
    for name, options in {
        "nothing": (),
        "itself": ("--num-cpus", "2"),
        "workers": ("--queue", "default", "--workers", "2", "--gpus-per-worker", "1"),
        "retried": ("--retry-limit", "1"),
    }.items():
        job = street.submit("ann", *options)
        pods = street.school.world.controller.engine.items[f"ann/{job}"].workload.pod_sets
        taken[name] = [(pod.name, pod.count, dict(pod.requests)) for pod in pods]
    one = [("workers", 1, {"cpu": 1000})]
    assert taken == {
        "nothing": one,
        "itself": [("driver", 1, {"cpu": 2000})],
        "workers": [("workers", 2, {"cpu": 1000, "nvidia.com/gpu": 1})],
        "retried": one,
    }


def test_a_recipe_asks_for_what_its_ranks_take(street: Street) -> None:
    job = street.ok("ann", "submit", "digits", "--detach", "-p", "workers=2", "-p", "gpus=0").strip()
    (pods,) = street.school.world.controller.engine.items[f"ann/{job}"].workload.pod_sets
    assert (pods.count, dict(pods.requests)) == (2, {"cpu": 1000})
    assert "digits" in street.ok("ann", "queue")


def test_her_jobs_are_shown_with_what_they_wait_for_and_their_logs(street: Street) -> None:
    first = street.submit("ann", "--num-cpus", "2")
    street.clock.sleep(1)
    second = street.submit("ann", "--num-cpus", "2")
    for _ in range(3):
        street.clock.sleep(1)
    listed = street("ann", "jobs")
    assert (listed.exit_code, listed.stderr) == (0, "")
    assert f"job {second} waits" in listed.stdout
    assert "RUNNING" in listed.stdout
    shown = street("ann", "jobs", "show", first)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "problem" not in shown.stdout
    assert "python train.py" in shown.stdout
    assert "2 more CPUs are needed" in street.ok("ann", "jobs", "show", second)
    assert second in street.ok("ann", "queue", "why", second)
    assert f"log of {first}" in street.ok("ann", "jobs", "logs", first)
    assert f"log of {first}" in street.ok("ann", "jobs", "logs", "-f", first.removeprefix("ann-"))
    assert "SUCCEEDED" in street.ok("ann", "jobs", "show", first)


def test_her_job_is_stopped_and_not_somebody_elses(street: Street) -> None:
    own, other = street.submit("ann"), street.submit("ben")
    street.clock.sleep(1)
    for command in (
        ("jobs", "stop"),
        ("jobs", "show"),
        ("jobs", "logs"),
        ("queue", "hold"),
        ("queue", "why"),
    ):
        assert "this job is ben's" in street.refused(11, "ann", *command, other)
    assert "this job is ben's" in street.refused(11, "eva", "jobs", "stop", other)
    assert other in street.ok("eva", "jobs", "show", other)
    listed = street.ok("ann", "jobs")
    assert own in listed
    assert other in listed
    assert f"job {own}: STOPPED" in street.ok("ann", "jobs", "stop", own)
    assert f"job {other}: STOPPED" in street.ok("tom", "jobs", "stop", other)
    assert "there is no job 'odd'" in street.refused(3, "ann", "jobs", "show", "odd")


def test_a_job_past_the_queues_is_the_labs(street: Street) -> None:
    street.school.ray.more["raysubmit_x"] = {
        **{"submission_id": "raysubmit_x", "status": "RUNNING", "entrypoint": "secret", "metadata": {}},
        **{"job_id": "01000000", "message": "", "runtime_env": {}},
    }
    assert "raysubmit_x" in street.ok("ann", "jobs")
    assert "this job is the lab's" in street.refused(11, "ann", "jobs", "stop", "raysubmit_x")


def test_the_queues(street: Street) -> None:
    job = street.submit("ann")
    assert job in street.ok("ann", "queue")
    assert job in street.ok("ann", "queue", "list", "--status", "all")
    assert f"job ann/{job}: Deactivated" in street.ok("ann", "queue", "hold", job)
    assert f"job ann/{job}: " in street.ok("ann", "queue", "resume", job)
    assert "LocalQueue" in street.ok("ann", "queue", "get")
    assert "may not change queues" in street.refused(11, "ann", "queue", "delete", "clusterqueue/class")


# The lab


def test_the_status_is_what_the_gateway_shows(street: Street) -> None:
    job = street.submit("ben")
    for _ in range(3):
        street.clock.sleep(1)
    document = json.loads(street.ok("ann", "status", "--check", "--json"))
    assert [(s["service"], s["state"]) for s in document["services"]] == [
        *(("gateway", "healthy"), ("ray-head", "healthy"), ("ray-worker-0", "healthy")),
        ("ray-worker-1", "healthy"),
    ]
    said = street.ok("ann", "status")
    assert "the token is that of ann (student)" in said
    assert job in said
    assert "problem" not in said
    assert street.served.url in street.ok("ann", "status", "--addresses")


@pytest.mark.parametrize(
    ("more", "vendor"),
    [
        ({}, "simulated"),
        ({"accelerator_type:H100": 1}, "nvidia"),
        ({"accelerator_type:AMD-MI300X": 1}, "amd"),
    ],
)
def test_the_vendor_of_the_gpus_is_that_of_their_model(
    street: Street, more: Mapping[str, float], vendor: str
) -> None:
    street.school.ray.lists["/api/v0/nodes"] = nodes(ray_worker_0={"GPU": 1, **more})
    assert f"GPU: {vendor}" in street.ok("ann", "status")


def test_a_ray_that_is_ill_is_a_head_that_is_not_healthy(street: Street) -> None:
    street.school.ray.ill = True
    assert "up, but not healthy: ray-head" in street.ok("ann", "status")
    assert "HTTP 500" in street.refused(16, "ann", "jobs")


# What is refused


@pytest.mark.parametrize(
    "command",
    ["up", "up --workers 3", "down", "down --volumes --yes", "logs ray-head", "demo", "ladder", "heal",
     "chaos", "class add carl", "class list", "gpus", "jobs checkpoints", "report", "lesson run 2",
     "jobs receipt x"],
)  # fmt: skip
@pytest.mark.parametrize("person", ["ann", "tom"])
def test_what_only_the_host_can_do(unchanged: Street, person: str, command: str) -> None:
    said = unchanged.refused(4, person, *command.split())
    assert "through the gateway of a class" in said
    assert "your teacher can: labctl " in said


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("restart ray-head", "its lab runs in containers"),
        ("fault-inject ray-worker-0", "no job of yours runs"),
    ],
)
def test_what_the_gateway_breaks_and_starts_is_refused_by_it(
    unchanged: Street, command: str, why: str
) -> None:
    assert why in unchanged.refused(11, "ann", *command.split())


@pytest.mark.parametrize("person", ["ann", "tom"])
def test_lessons_are_done_where_the_persons_key_of_the_store_is(unchanged: Street, person: str) -> None:
    said = unchanged.refused(4, person, "lesson", "check", "2")
    assert "lessons need your key of the object store" in said
    assert "do them in your JupyterLab" in said


EVERY = (
    "status",
    "jobs",
    "jobs stop x",
    "queue",
    "submit digits --detach",
    "submit -- true",
    "top",
    "health",
)


@pytest.mark.parametrize("command", EVERY)
def test_a_wrong_token(unchanged: Street, command: str) -> None:
    said = unchanged.refused(16, "wrong", *command.split())
    assert f"the gateway of the class at {unchanged.served.url} refused the token (HTTP 403)" in said
    assert "labctl class reset" in said


@pytest.mark.parametrize("command", EVERY)
def test_a_gateway_that_is_not_there(unchanged: Street, command: str) -> None:
    said = unchanged.refused(5, "ann", *command.split(), url="http://127.0.0.1:9")
    assert "the gateway of the class at http://127.0.0.1:9 does not answer" in said
    assert "ssh -L" in said


@pytest.mark.parametrize("command", EVERY)
@pytest.mark.parametrize("status", [200, 401, 403, 404])
def test_something_else_answers_there(unchanged: Street, command: str, status: int) -> None:
    async def dashboard(request: web.Request) -> web.Response:
        return web.Response(status=status if request.path != "/healthz" else status + 1, text="<html>")

    other = Served(dashboard)
    try:
        said = unchanged.refused(16, "ann", *command.split(), url=other.url)
    finally:
        other.close()
    assert f"what answers at {other.url} is not the gateway of a class (HTTP {status})" in said


def test_a_log_is_followed_while_the_queues_are_away_for_a_moment(street: Street) -> None:
    job = street.submit("ann")
    street.clock.after(1, lambda: setattr(street.school.queue, "away", 3))
    assert f"log of {job}" in street.ok("ann", "jobs", "logs", "-f", job)
    street.school.queue.away = 10**6
    assert "the queues are away" in street.refused(16, "ann", "jobs", "logs", "-f", job)


def test_a_gateway_that_goes_away_while_a_log_is_followed(street: Street) -> None:
    job = street.submit("ann")
    street.clock.after(0.5, street.served.close)
    said = street.refused(5, "ann", "jobs", "logs", "-f", job)
    assert f"the gateway of the class at {street.served.url} does not answer" in said


def test_a_token_that_ends_while_a_log_is_followed(street: Street) -> None:
    job = street.submit("ann")
    street.clock.after(0.5, lambda: street.school.registry.reset("ann"))
    assert "refused the token (HTTP 403)" in street.refused(16, "ann", "jobs", "logs", "-f", job)
