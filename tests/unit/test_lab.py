"""A lab as an object: submit, where a job runs, which one runs, restart."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.api import Node
from lab.cluster.job_logs import WHOLE
from lab.cluster.jobs import Job
from lab.cluster.placement import Placement, going_on, place, why_ranks_wait
from lab.cluster.queue_request import QueuedSubmission, QueueRequest
from lab.cluster.queues import Queues
from lab.cluster.submission import Submission, Submitted
from lab.errors import ClusterError, LabDownError, NotFoundError, RefusedError, UsageError
from lab.evidence.ledger import Event, History
from lab.lab import Lab
from lab.services import worker
from lab.topology import LEDGER_PREFIX, LabSpec, State
from tests.fakes import FakeRuntime
from tests.fakes.store import FakeObjectStore
from tests.unit.data.failures import FAILED, LOGS
from tests.unit.fakes import FakeApi, FakeJobs, job

W0, W1 = worker(0), worker(1)
ROOT = Path(__file__).resolve().parents[2]


def node(node_id: str, service: str, *, alive: bool = True, cpus: float = 8.0) -> Node:
    return Node(node_id, service, alive, False, {"CPU": cpus}, 1.0, None, "")


NODES = (node("h", "ray-head", cpus=0), node("a", W0), node("b", W1), node("old", W0, alive=False))


def running(submission_id: str = "j1", status: str = "RUNNING") -> Job:
    """A job whose driver is on the head."""
    return job(submission_id, status, node_id="h")


def lab_with(*jobs: Job) -> tuple[Lab, FakeJobs]:
    fake = FakeJobs(*jobs)
    return Lab(FakeRuntime("raylab"), api=FakeApi(lambda: NODES), jobs=fake, store=FakeObjectStore()), fake


# Failed jobs


class LoglessJobs(FakeJobs):
    """Jobs of a node that is gone, and their logs with it."""

    def logs(self, submission_id: str, last: int = WHOLE) -> str:
        raise ClusterError(f"no log of {submission_id}")


def test_a_failure_is_told_from_the_message_when_there_is_no_log_any_more() -> None:
    lab = Lab(FakeRuntime("raylab"), jobs=LoglessJobs())
    failed = replace(running(status="FAILED"), message=FAILED + LOGS["module"][0])
    explanation = lab.why_failed(failed)
    assert explanation is not None
    assert explanation.cause.name == "module"
    assert lab.why_failed(replace(failed, status="STOPPED")) is None


# Submit


def test_a_job_that_fits_is_submitted_and_waits_for_nothing(tmp_path: Path) -> None:
    lab, jobs = lab_with()
    submission = Submission(("true",), tmp_path, num_cpus=8)

    submitted = lab.submit(submission)

    assert (submitted.submission_id, submitted.waits) == ("job-1", "")
    assert jobs.submitted == [submission]


def test_a_job_that_no_node_can_hold_is_submitted_and_the_answer_says_why(tmp_path: Path) -> None:
    lab, jobs = lab_with()

    submitted = lab.submit(Submission(("true",), tmp_path, num_gpus=1))

    assert submitted.waits == "no node has 1 GPU; the largest has 0"
    assert len(jobs.submitted) == 1


@pytest.mark.parametrize(
    ("command", "error"),
    [((), UsageError), (("python", "missing.py"), NotFoundError), (("python", "bad.py"), UsageError)],
)
def test_what_must_fail_is_not_submitted(
    tmp_path: Path, command: tuple[str, ...], error: type[Exception]
) -> None:
    (tmp_path / "bad.py").write_text("if")
    lab, jobs = lab_with()

    with pytest.raises(error):
        lab.submit(Submission(command, tmp_path))
    assert not jobs.submitted


def test_nothing_is_submitted_to_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    jobs, api = FakeJobs(), FakeApi()
    api.fail = ClusterError("silent")
    lab = Lab(FakeRuntime("raylab"), api=api, jobs=jobs)

    with pytest.raises(ClusterError):
        lab.submit(Submission(("true",), tmp_path))
    assert not jobs.submitted


def test_without_a_working_directory_the_script_is_looked_for_where_the_person_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("pass")
    lab, _ = lab_with()
    monkeypatch.chdir(tmp_path)

    assert lab.submit(Submission(("python", "train.py"))).submission_id == "job-1"


def test_a_recipe_becomes_a_submission_with_its_settings() -> None:
    lab, jobs = lab_with()

    lab.submit_recipe("digits", {"epochs": "3"}, num_cpus=1, job_name="demo")

    submission = jobs.submitted[0]
    argv = list(submission.command)
    assert argv[argv.index("--epochs") + 1] == "3"
    assert submission.working_dir is not None
    assert submission.working_dir.name == "digits"
    assert submission.metadata == {"raylab_recipe": "digits", "job_name": "demo"}
    assert submission.num_cpus == 1


class FakeQueues(Queues):
    """Queues that only take jobs."""

    def __init__(self) -> None:
        super().__init__("http://queue", "token")
        self.taken: list[str] = []

    def submit(self, job: QueuedSubmission) -> Submitted:
        self.taken.append(job.request.name)
        return Submitted(job.request.name or "made-up", workload=f"ns/{job.request.name}")


def test_the_name_of_a_queued_job_can_be_used_once(tmp_path: Path) -> None:
    queues = FakeQueues()
    store = FakeObjectStore()
    store.put(".raylab/ledger/earlier/controller-1.jsonl", b"")
    lab = Lab(
        FakeRuntime("raylab"), api=FakeApi(), jobs=FakeJobs(running("known")), store=store, queues=queues
    )
    submission = Submission(("true",), tmp_path, num_gpus=1)
    for name in ("known", "earlier"):
        with pytest.raises(RefusedError, match=f"{name} already"):
            lab.submit(submission, queue=QueueRequest("a", name=name))
    assert lab.submit(submission, queue=QueueRequest("a", name="new")).workload == "ns/new"
    assert lab.submit(submission, queue=QueueRequest("a")).submission_id == "made-up"
    assert queues.taken == ["new", ""]


def test_a_way_to_survive_faults_gets_its_packages_before_it_is_submitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, jobs = lab_with()
    provided: list[str] = []
    monkeypatch.setattr(lab.runtime, "provide", provided.append)
    lab.submit_recipe("digits", {}, fault_tolerance="torchft")
    assert provided == ["torchft"]
    assert jobs.submitted[0].command[:4] == ("python", "steps.py", "--way", "torchft")


@pytest.mark.parametrize(
    ("name", "settings", "error"),
    [
        ("nope", {}, NotFoundError),
        ("digits", {"nope": "1"}, UsageError),
        ("digits", {"epochs": "0"}, UsageError),
    ],
)
def test_a_recipe_that_makes_no_sense_is_not_submitted(
    name: str, settings: dict[str, str], error: type[Exception]
) -> None:
    lab, jobs = lab_with()

    with pytest.raises(error):
        lab.submit_recipe(name, settings)
    assert not jobs.submitted


# Where a job runs


def event(name: str, at: float, attempt: int = 1, run: str = "r", **fields: Any) -> Event:
    return Event(name, at, "j1", run, attempt, None, "", fields)


def started(at: float, nodes: dict[int, str], attempt: int = 1, run: str = "r") -> Event:
    workers = [{"rank": rank, "node_id": node_id} for rank, node_id in nodes.items()]
    return event("attempt_started", at, attempt, run, workers=workers)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ()),
        ([event("run_started", 1, 0)], ()),
        ([started(1, {0: "a"})], ((0, W0),)),
        ([started(1, {1: "a", 0: "b"})], ((0, W1), (1, W0))),
        ([started(1, {0: "a"}), event("attempt_ended", 2)], ()),
        ([started(1, {0: "a"}), event("attempt_ended", 2), started(3, {0: "b"}, 2)], ((0, W1),)),
        ([started(1, {0: "a"}), event("run_finished", 2, error=None)], ()),
        ([started(1, {0: "old"})], ((0, W0),)),
        ([started(1, {0: "0123456789abcdef"})], ((0, "01234567"),)),
        ([started(1, {0: "a"}), started(2, {0: "b"}, run="s")], ((0, W0), (0, W1))),
    ],
)
def test_a_job_runs_where_the_newest_attempt_of_each_run_is(
    events: list[Event], expected: tuple[tuple[int, str], ...]
) -> None:
    assert place(running(), History.of(events), NODES) == Placement("j1", "ray-head", expected)


def test_runs_that_ray_tune_stopped_are_told_by_their_processes() -> None:
    def trial(run: str, at: float, pid: int) -> Event:
        fields = {"workers": [{"rank": 0, "node_id": "a", "pid": pid}]}
        return Event("attempt_started", at, "j1", run, 1, None, "", fields)

    history = History.of([trial("one", 1, 11), trial("two", 2, 12)])

    assert going_on(history) == 2
    assert place(running(), history, NODES).workers == ((0, W0), (0, W0))
    assert place(running(), history, NODES, {("a", 12), ("b", 11)}).workers == ((0, W0),)
    assert place(running(), history, NODES, ()).workers == ()


def test_an_ended_job_runs_nowhere() -> None:
    placement = place(running(status="FAILED"), History.of([started(1, {0: "a"})]), NODES)

    assert placement == Placement("j1", "", ())
    assert placement.services == ()


def test_the_services_of_a_job_are_its_ranks_then_its_driver_each_once() -> None:
    assert Placement("j1", "ray-head", ((0, W1), (1, W0), (2, W1))).services == (W1, W0, "ray-head")
    assert Placement("j1", W0, ((0, W0),)).services == (W0,)


# Which job runs


def test_the_one_running_job_is_found_among_ended_ones() -> None:
    lab, _ = lab_with(running("a", "SUCCEEDED"), running("b", "PENDING"), running("c", "STOPPED"))

    assert lab.running_job().submission_id == "b"


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([], "no job is running"),
        ([running("a", "FAILED")], "no job is running"),
        ([running("a"), running("b", "PENDING")], "2 jobs are running: a, b"),
    ],
)
def test_none_or_several_running_jobs_are_refused(jobs: list[Job], message: str) -> None:
    lab, _ = lab_with(*jobs)

    with pytest.raises(RefusedError, match=message):
        lab.running_job()


# Restart, and connections


@pytest.mark.parametrize("before", ["healthy", "paused", "exited"])
def test_restart_gives_a_service_a_new_process_whatever_its_state(before: str) -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec())
    old = runtime.status().service(W0)
    if before == "paused":
        runtime.pause(W0)
    elif before == "exited":
        runtime.die(W0)

    Lab(runtime).restart(W0)

    new = runtime.status().service(W0)
    assert old is not None
    assert new is not None
    assert new.state is State.HEALTHY
    assert new.pid != old.pid


def test_restart_of_an_unknown_service_or_a_lab_that_is_down_is_an_error() -> None:
    runtime = FakeRuntime("raylab")
    with pytest.raises(LabDownError):
        Lab(runtime).restart(W0)

    runtime.up(LabSpec())
    with pytest.raises(NotFoundError):
        Lab(runtime).restart("nonsense")
    assert runtime.status().healthy


def test_a_lab_that_was_started_anew_is_reached_at_its_new_address() -> None:
    runtime = FakeRuntime("raylab")
    lab = Lab(runtime)
    lab.up(LabSpec())
    first = lab.api.url
    lab.down()
    runtime.host.taken = {int(first.rsplit(":", 1)[1]): "somebody"}

    lab.up(LabSpec())

    assert lab.api.url == runtime.endpoints().dashboard != first


def test_the_history_of_a_job_is_read_once_and_forgotten_with_the_lab() -> None:
    store = FakeObjectStore()
    key = f"{LEDGER_PREFIX}/j1/rank0-1-000000.jsonl"
    store.put(key, b'{"event": "report", "at": 1, "job": "j1", "run": "r", "attempt": 1, "rank": 0}')
    lab = Lab(FakeRuntime("raylab"), store=store)

    assert len(lab.history("j1").runs) == len(lab.history("j1").runs) == 1
    assert store.reads == [key]

    store.delete([key])
    lab.up(LabSpec(workers=1))
    assert lab.history("j1").runs == ()


def test_connections_that_were_given_stay() -> None:
    api, jobs, store = FakeApi(), FakeJobs(), FakeObjectStore()
    lab = Lab(FakeRuntime("raylab"), api=api, jobs=jobs, store=store)

    lab.up(LabSpec())

    assert (lab.api, lab.jobs, lab.store) == (api, jobs, store)


def test_a_lab_that_is_down_has_no_connections() -> None:
    lab = Lab(FakeRuntime("raylab"))

    for ask in (lambda: lab.api, lambda: lab.jobs, lambda: lab.store):
        with pytest.raises(LabDownError):
            ask()


def test_a_job_is_final_in_three_states() -> None:
    states = ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED")

    assert [replace(running(), status=s).final for s in states] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("ranks", "per_rank", "message"),
    [
        (2, {"CPU": 8.0}, ""),
        (2, {}, ""),
        (1, {"GPU": 4.0}, "no node has 4 GPU; the largest has 0 (for each rank)"),
        (3, {"CPU": 8.0}, "only 2 of 3 ranks fit on the nodes; each asks for 8 CPU"),
        (5, {"CPU": 4.0}, "only 4 of 5 ranks fit on the nodes; each asks for 4 CPU"),
    ],
)
def test_ranks_that_do_not_fit_have_a_reason(ranks: int, per_rank: dict[str, float], message: str) -> None:
    nodes = (node("a", "ray-worker-0"), node("b", "ray-worker-1"), node("c", "ray-worker-1", alive=False))
    assert why_ranks_wait(ranks, per_rank, nodes) == message


def test_a_script_that_ray_fetches_itself_is_not_looked_for_here() -> None:
    lab, jobs = lab_with()

    lab.submit(command="python nowhere.py", runtime_env={"working_dir": "https://example.org/code.zip"})

    (sent,) = jobs.submitted
    assert sent.runtime_env == {"working_dir": "https://example.org/code.zip"}


def test_a_job_can_be_submitted_in_words(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    lab, jobs = lab_with()

    submitted = lab.submit(command="python train.py --lr 0.1", working_dir=tmp_path, num_gpus=1, name="first")

    (sent,) = jobs.submitted
    assert (sent.command, sent.num_gpus) == (("python", "train.py", "--lr", "0.1"), 1)
    assert sent.metadata["job_name"] == "first"
    assert submitted.waits == "no node has 1 GPU; the largest has 0"
    with pytest.raises(UsageError, match="a submission and a command"):
        lab.submit(sent, command="true")


def test_the_details_are_those_of_the_living_cluster() -> None:
    lab, _ = lab_with()
    lab.runtime.up(LabSpec("raylab"))

    details = lab.details()

    assert [n.service for n in details.nodes] == ["ray-head", W0, W1]
    assert (details.name, details.healthy, details.resources["CPU"]) == ("raylab", True, 16)


def test_the_log_of_a_service_is_read_from_python() -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec("raylab"))
    runtime.say(W0, "hello")

    assert list(Lab(runtime).logs(W0, tail=1)) == ["hello"]


# Opened from Python


def test_a_lab_without_arguments_is_the_one_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path))
    monkeypatch.setenv("RAYLAB_NAME", "theirs")
    monkeypatch.setenv("RAYLAB_RUNTIME", "local")

    assert (Lab().name, Lab().runtime.kind, Lab().why) == ("theirs", "local", "asked for")
    assert Lab(name="mine").name == "mine"
    monkeypatch.delenv("RAYLAB_NAME")
    assert Lab().name == "raylab"
    assert not list(tmp_path.iterdir()), "opening a lab writes nothing"


def test_a_lab_of_a_runtime_has_the_runtimes_name() -> None:
    runtime = FakeRuntime("theirs")

    assert Lab(runtime).name == Lab(runtime, name="theirs").name == "theirs"
    with pytest.raises(UsageError, match="theirs, not of mine"):
        Lab(runtime, name="mine")


def test_an_empty_name_is_not_the_default_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"--lab '': not"):
        Lab(name="", runtime="local")
    monkeypatch.setenv("RAYLAB_NAME", " ")
    with pytest.raises(UsageError, match=r"RAYLAB_NAME ' ': not"):
        Lab(runtime="local")


def test_a_name_that_cannot_be_a_labs_and_an_unknown_runtime_are_refused() -> None:
    with pytest.raises(UsageError, match="not a lab name"):
        Lab(name="../x", runtime="local")
    with pytest.raises(UsageError, match="not a lab name"):
        Lab(name="data", runtime="local")
    with pytest.raises(UsageError, match="unknown"):
        Lab(runtime="slurm")


def test_the_package_has_the_lab_and_imports_nothing_heavy_for_it() -> None:
    code = "import sys, lab; light = 'lab.lab' not in sys.modules; from lab import Lab; import lab.lab;"
    code += (
        "print(light, Lab is lab.lab.Lab, sorted({'ray', 'torch', 'pyarrow', 'minio'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "True True []"
