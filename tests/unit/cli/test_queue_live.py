"""Queues of a lab: submitted, listed, explained, changed. The controller is the real one, in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.topology import LabSpec
from tests.conftest import ROOT
from tests.unit.cli.fakes import Labctl
from tests.unit.cli.queues import GPU, SIMULATED, QueueLab

DATA = ROOT / "tests" / "unit" / "data" / "queue"
SEEDS = DATA / "seeds"
BAD = [part.split("\n", 1) for part in ("\n" + (DATA / "bad.txt").read_text()).split("\n==== ")[1:]]
ONE_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: lab}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: lab
          resources: [{name: cpu, nominalQuota: 16}, {name: nvidia.com/gpu, nominalQuota: 1}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: default}
spec: {clusterQueue: all}
"""
DETACHED = ("submit", "digits", "--detach", "--queue")


@pytest.fixture
def world(labctl: Labctl, tmp_path: Path) -> QueueLab:
    """A lab with a controller that has no queues yet."""
    spec = LabSpec(gpu=SIMULATED)
    labctl.runtime.down()
    labctl.runtime.up(spec)
    return QueueLab(labctl, tmp_path / "queue")


@pytest.fixture
def classroom(world: QueueLab) -> QueueLab:
    """Five students, two GPUs."""
    world.labctl.ok("queue", "apply", "--example", "classroom")
    return world


@pytest.fixture
def teams(world: QueueLab) -> QueueLab:
    """Two teams with a GPU each, which lend to each other."""
    world.labctl.ok("queue", "apply", "--example", "two-teams")
    return world


# Nothing there yet


def test_without_queues_it_says_how_to_make_some(world: QueueLab) -> None:
    for line in (("queue",), ("queue", "get")):
        result = world.labctl(*line)
        assert (result.exit_code, result.stdout) == (0, "no queues yet\n")
        assert "labctl queue apply --example classroom" in result.stderr


def test_a_queue_that_is_not_there_is_refused_with_a_hint(world: QueueLab) -> None:
    result = world.labctl(*DETACHED, "team")
    assert result.exit_code == 3
    assert "there is no LocalQueue team" in result.stderr
    assert "labctl queue apply --example classroom" in result.stderr
    assert world.ray.orders == []


def test_a_controller_that_is_away_is_told_so(world: QueueLab) -> None:
    world.away = True
    for line in (
        ("queue",),
        ("queue", "why", "x"),
        (*DETACHED, "team"),
        ("queue", "apply", "--example", "mlbatch"),
    ):
        result = world.labctl(*line)
        assert result.exit_code == 5, line
        assert "the queues' controller at http://127.0.0.1:8266 does not answer" in result.stderr


def test_a_lab_without_a_controller_is_told_so(labctl: Labctl) -> None:
    result = labctl("queue")
    assert result.exit_code == 4
    assert "this lab has no controller of queues" in result.stderr


def test_two_examples_beside_each_other_are_warned_of(classroom: QueueLab) -> None:
    classroom.controller.capacity = {GPU: 2, "cpu": 16000}
    assert "add up to" not in classroom.labctl("queue").stderr
    stderr = classroom.labctl("queue", "apply", "--example", "two-teams").stderr
    assert f"quotas of {GPU} add up to 4 (blue 1, classroom 2, red 1), but the lab has 2" in stderr
    assert "quotas of cpu add up to 32" in stderr
    assert "labctl queue delete" in stderr
    assert f"quotas of {GPU} add up to 4" in classroom.labctl("queue").stderr
    assert len(classroom.labctl.json("queue")["overcommitted"]) == 2


# Submitting


def test_a_job_in_a_queue_is_followed_to_its_end(classroom: QueueLab) -> None:
    result = classroom.labctl("submit", "digits", "--queue", "ann/default", "--job-name", "first")
    assert (result.exit_code, result.stdout) == (0, "epoch 1/3\nepoch 2/3\n"), result.output
    assert "submitted job ann/job-" in result.stderr
    assert "succeeded" in result.stderr
    (order,) = classroom.ray.orders
    assert order.metadata["raylab_queue"] == "ann/default"
    assert order.metadata["job_name"] == "first"


def test_a_recipe_asks_for_what_it_takes(classroom: QueueLab) -> None:
    job = classroom.labctl.ok(*DETACHED, "ann/default", "-p", "workers=2", "-p", "cpus=3").strip()
    workload = classroom.labctl.json("queue", "describe", job)
    assert workload["pod_sets"] == [
        {"name": "workers", "count": 2, "min_count": None, "requests": {"cpu": 3.0, GPU: 1}}
    ]
    assert "--gpus 1" in workload["command"]


def test_without_enough_gpus_a_recipe_that_decides_by_that_takes_none(classroom: QueueLab) -> None:
    job = classroom.labctl.ok(*DETACHED, "ann/default", "-p", "workers=3").strip()
    workload = classroom.labctl.json("queue", "describe", job)
    assert workload["pod_sets"][0]["requests"] == {"cpu": 1.0}
    assert "--gpus 0" in workload["command"]


def test_a_command_says_what_it_takes(classroom: QueueLab, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    given = (
        "submit", "--detach", "--queue", "ben/default", "--workers", "2", "--min-workers", "1",
        "--gpus-per-worker", "1", "--cpus-per-worker", "2", "--num-cpus", "1", "--max-time", "30m",
        "--preemption-grace", "5s", "--enforce", "--working-dir", str(tmp_path), "--", "python", "train.py",
    )  # fmt: skip
    job = classroom.labctl.ok(*given).strip()
    workload = classroom.labctl.json("queue", "describe", job)
    assert workload["pod_sets"] == [
        {"name": "driver", "count": 1, "min_count": None, "requests": {"cpu": 1.0}},
        {"name": "workers", "count": 2, "min_count": 1, "requests": {"cpu": 2.0, GPU: 1}},
    ]
    assert (workload["max_time"], workload["preemption_grace"], workload["enforce"]) == (1800.0, 5.0, True)
    assert classroom.ray.packages[0]


def test_a_retry_policy_of_options_and_annotations(classroom: QueueLab, tmp_path: Path) -> None:
    path = tmp_path / "wrapper.yaml"
    prefix = "workload.codeflare.dev.appwrapper"
    path.write_text(
        f"{prefix}/retryLimit: 7\n{prefix}/warmupGracePeriodDuration: 1m\n"
        f"{prefix}/admissionGracePeriodDuration: 1m\n"
    )
    given = ("--annotations", str(path), "--retry-limit", "2", "--terminal-exit-codes", "2,3")
    result = classroom.labctl(*DETACHED, "ann/default", *given)
    assert result.exit_code == 0
    assert "admissionGracePeriodDuration is left out" in result.stderr
    retry = classroom.labctl.json("queue", "describe", result.stdout.strip())["retry"]
    policy = retry["policy"]
    assert (policy["limit"], policy["warmup"], policy["pause"]) == (2, 60, 90)
    assert policy["terminal_exit_codes"] == [2, 3]
    assert (retry["phase"], retry["retries"], retry["resumes_at"]) == ("Running", 0, None)


def test_a_job_that_fails_is_shown_with_its_phase_and_retries(classroom: QueueLab) -> None:
    job = classroom.labctl.ok(*DETACHED, "ann/default", "--retry-pause", "1h").strip()
    classroom.ray.end(job, "FAILED")
    shown = classroom.labctl.ok("jobs", "show", job)
    assert "Resetting, 1 of 3 retries, FailedComponent, resumes at" in " ".join(shown.split())
    assert "FAILED (FailedComponent charged)" in " ".join(shown.split())


def test_a_plain_job_with_a_policy_starts_at_once(world: QueueLab) -> None:
    job = world.labctl.ok("submit", "digits", "--detach", "--retry-limit", "1").strip()
    (order,) = world.ray.orders
    assert order.submission_id == job
    assert world.labctl.json("queue", "describe", job)["local_queue"] == ""


def test_a_plain_job_ends_after_its_time_too(world: QueueLab) -> None:
    job = world.labctl.ok("submit", "digits", "--detach", "--max-time", "30m").strip()
    assert [order.submission_id for order in world.ray.orders] == [job]
    workload = world.labctl.json("queue", "describe", job)
    assert (workload["local_queue"], workload["max_time"]) == ("", 1800.0)


@pytest.mark.parametrize("watched", [("--max-time", "30m"), ("--retry-limit", "1")])
def test_a_plain_job_that_is_watched_says_too_that_no_node_can_hold_it(
    world: QueueLab, watched: tuple[str, str]
) -> None:
    given = ("submit", "digits", "--detach", "-p", "workers=2", "-p", "cpus=64", *watched)
    result = world.labctl(*given)
    assert result.exit_code == 0, result.output
    assert "waits: no node has 64 CPU" in result.stderr
    refused = world.labctl(*given, "--fail-if-infeasible")
    assert (refused.exit_code, "the job was not submitted: no node has 64 CPU" in refused.stderr) == (
        11,
        True,
    )


def test_a_command_that_does_not_say_what_it_takes_is_refused(classroom: QueueLab, tmp_path: Path) -> None:
    result = classroom.labctl(
        "submit", "--queue", "ben/default", "--working-dir", str(tmp_path), "--", "python", "-c", "1"
    )
    assert result.exit_code == 2
    assert "does not say what it needs" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--priority", "high"], 2, "--priority: only with --queue"),
        (["--dry-run"], 2, "--dry-run: only with --queue"),
        (["--queue", "ann/default", "--workers", "2"], 2, "--workers 2: the recipe digits sets that itself"),
        (["--queue", "ann/default", "--max-time", "never"], 2, "--max-time never: not a duration"),
        (["--queue", "ann/default", "--memory-per-worker", "much"], 2, "--memory-per-worker much"),
        (["--queue", "ann/default", "--priority", "higher"], 3, "there is no WorkloadPriorityClass higher"),
        (["--queue", "default"], 2, "several namespaces: ann/default, ben/default"),
        (["--queue", "ann/defualt"], 3, "did you mean ann/default?"),
        (["--queue", "/"], 2, "not the name of a queue"),
        (["--queue", "ann/default", "--min-workers", "9"], 2, "min_workers 9: must be at most workers, 1"),
    ],
)
def test_wrong_wishes_are_refused_and_nothing_is_submitted(
    classroom: QueueLab, arguments: list[str], code: int, complaint: str
) -> None:
    result = classroom.labctl("submit", "digits", *arguments)
    assert result.exit_code == code, result.output
    assert complaint in result.stderr
    assert "Traceback" not in result.output
    assert classroom.labctl.json("queue", "list", "--status", "all")["total"] == 0


def test_a_dry_run_submits_nothing(classroom: QueueLab) -> None:
    line = ("submit", "digits", "--queue", "ann/default", "-p", "workers=2", "--dry-run")
    assert "it would start at once\n" in classroom.labctl.ok(*line)
    for _ in range(2):
        classroom.labctl.ok(*DETACHED, "ben/default", "--max-time", "10m")
    output = classroom.labctl.ok(*line)
    assert "it would wait\n" in output
    assert "2 more needed" in output
    assert "in 10 min" in output
    document = classroom.labctl.json(*line)
    assert (document["status"], document["reason"]) == ("Pending", "WaitingForQuota")
    assert len(document["holders"]) == 2
    assert len(classroom.ray.orders) == 2
    assert not any(change.startswith("PUT") for change in classroom.changes()[5:])


def test_a_job_that_waits_says_why_and_then_runs(classroom: QueueLab) -> None:
    labctl = classroom.labctl
    first, second = (
        labctl.ok(*DETACHED, "ann/default", "--job-name", name).strip() for name in ("one", "two")
    )
    labctl.runtime.clock.after(5.0, lambda: classroom.jobs.end(first))
    result = labctl("submit", "digits", "--queue", "ben/default")
    assert result.exit_code == 0, result.output
    assert "waits: 1st of 1 in ClusterQueue classroom" in result.stderr
    assert f"held by ann/{first} (one" in result.stderr
    assert "1 more needed; 1 more GPU is needed; ann holds both; held by" in result.stderr
    assert "is admitted by ClusterQueue classroom" in result.stderr
    assert second in labctl.ok("queue", "list", "--status", "admitted")


def test_a_preempted_job_is_followed_into_its_next_attempt(teams: QueueLab) -> None:
    labctl = teams.labctl
    labctl.ok(*DETACHED, "blue", "--job-name", "own")

    def reclaim(_: str) -> None:
        other = labctl.ok(*DETACHED, "red", "--job-name", "reclaimer").strip()
        labctl.runtime.clock.after(30.0, lambda: teams.jobs.end(other))

    teams.jobs.hooks.append(reclaim)
    result = labctl(
        "submit", "digits", "--queue", "blue", "--preemption-grace", "0s", "--job-name", "borrower"
    )
    assert result.exit_code == 0, result.output
    assert "was stopped: InCohortReclamation: Preempted to accommodate a workload" in result.stderr
    assert ", which takes back what its queue red had lent)" in result.stderr
    assert "attempt 2 of job alice/job-" in result.stderr
    assert result.stdout == "epoch 1/3\nepoch 2/3\n" * 2
    job = next(order for order in teams.ray.orders if order.submission_id.endswith("-2")).submission_id
    shown = labctl.ok("jobs", "show", job.removesuffix("-2"))
    assert "attempt 1" in shown
    assert "attempt 2" in shown
    assert "(Preempted)" in shown


def test_ctrl_c_stops_following_and_leaves_the_job(classroom: QueueLab) -> None:
    classroom.jobs.interrupt = KeyboardInterrupt()
    result = classroom.labctl("submit", "digits", "--queue", "ann/default")
    assert "no longer following; job job-" in result.stderr
    assert classroom.labctl.json("queue", "list")["workloads"][0]["status"] == "Admitted"


def test_a_job_that_fails_exits_with_9(classroom: QueueLab) -> None:
    classroom.jobs.endings = ["FAILED"]
    result = classroom.labctl("submit", "digits", "--queue", "ann/default")
    assert result.exit_code == 9
    assert "failed: it broke" in result.stderr


def test_as_json_a_finished_job_has_its_workload(classroom: QueueLab) -> None:
    result = classroom.labctl("submit", "digits", "--queue", "ann/default", "--json")
    document = json.loads(result.stdout)
    assert document["workload"] == f"ann/{document['submission_id']}"
    assert document["job"]["status"] == "SUCCEEDED"
    assert document["queue"]["reason"] == "Succeeded"


# Jobs


def waiting(world: QueueLab) -> str:
    """The id of a job that waits."""
    labctl = world.labctl
    for name in ("one", "two"):
        labctl.ok(*DETACHED, "ann/default", "--job-name", name)
    return labctl.ok(*DETACHED, "ben/default", "--job-name", "third").strip()


def test_a_job_that_waits_is_known_to_jobs_and_job_show(classroom: QueueLab) -> None:
    job, labctl = waiting(classroom), classroom.labctl
    assert f"job {job} waits: 1st in ClusterQueue classroom" in labctl.ok("jobs")
    assert [workload["name"] for workload in labctl.json("jobs")["queued"]] == [job]
    shown = labctl.ok("jobs", "show", job)
    assert "WaitingForQuota" in shown
    assert "held by" in shown
    document = labctl.json("jobs", "show", job)
    assert (document["submission_id"], document["status"]) == (job, "QUEUED")
    assert document["why"]["forecast"]["why_not"] == "unknown"


def test_everywhere_kueues_message_is_followed_by_a_sentence(classroom: QueueLab) -> None:
    job, labctl = waiting(classroom), classroom.labctl
    sentence = "1 more GPU is needed; ann holds both"
    for line in (
        *(("queue",), ("queue", "list"), ("queue", "why", job), ("queue", "describe", job)),
        *(("jobs",), ("jobs", "show", job), (*DETACHED[:2], "--queue", "cem/default", "--dry-run")),
    ):
        shown = " ".join(labctl.ok(*line).split())
        assert sentence in shown, line
    assert "1 more needed (1 more GPU is needed)" in labctl.ok("queue", "events")
    for document in (labctl.json("queue", "why", job), labctl.json("queue", "describe", job)):
        assert document["waits"] == sentence
    (first, second), (third,) = (
        [workload["waits"] for workload in labctl.json("queue", "list", "--status", status)["workloads"]]
        for status in ("admitted", "pending")
    )
    assert (first, second, third) == ("", "", sentence)


def test_a_holder_in_everybodys_namespace_is_who_submitted(world: QueueLab, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(ONE_QUEUE)
    world.labctl.ok("queue", "apply", str(path))
    for _ in range(2):
        job = world.labctl.ok(*DETACHED, "main").strip()
    held = world.labctl.json("queue", "why", job)["holders"][0]["owner"]
    assert world.labctl.json("queue", "why", job)["waits"] == f"1 more GPU is needed; {held} holds it"


def test_a_job_that_waits_has_no_log_yet(classroom: QueueLab) -> None:
    job = waiting(classroom)
    result = classroom.labctl("jobs", "logs", job)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "has not run yet" in result.stderr


def test_job_logs_of_a_queued_job_that_runs(classroom: QueueLab) -> None:
    job = classroom.labctl.ok(*DETACHED, "ann/default").strip()
    assert classroom.labctl.ok("jobs", "logs", job) == "epoch 1/3\nepoch 2/3\n"
    assert classroom.labctl.ok("jobs", "logs", "-f", job) == "epoch 1/3\nepoch 2/3\n"


def test_job_stop_takes_a_job_out_of_its_queue(classroom: QueueLab) -> None:
    job, labctl = waiting(classroom), classroom.labctl
    assert labctl.ok("jobs", "stop", job) == f"job {job}: STOPPED\n"
    assert labctl.json("queue", "describe", job)["status"] == "Finished"
    assert labctl.ok("jobs", "stop", f"ben/{job}") == f"job ben/{job}: STOPPED\n"
    assert labctl("jobs", "stop", "nothing").exit_code == 3


def test_job_stop_ends_a_queued_job_that_runs(classroom: QueueLab) -> None:
    job = classroom.labctl.ok(*DETACHED, "ann/default").strip()
    assert classroom.labctl.ok("jobs", "stop", job) == f"job {job}: STOPPED\n"
    assert classroom.jobs.known[job].status == "STOPPED"


def test_while_the_controller_is_away_a_job_that_ray_does_not_know_is_not_simply_missing(
    classroom: QueueLab,
) -> None:
    job = waiting(classroom)
    classroom.away = True
    result = classroom.labctl("jobs", "show", job)
    assert result.exit_code == 3
    assert "if it is in a queue, that cannot be seen now: the queues' controller" in result.stderr
    assert "jobs that wait in queues are not known" in classroom.labctl("jobs").stderr


def test_why_names_holders_places_and_times(classroom: QueueLab) -> None:
    job = waiting(classroom)
    output = classroom.labctl.ok("queue", "why", job)
    assert "1st of 1 in ClusterQueue classroom" in output
    assert "missing  1 nvidia.com/gpu of flavor lab" in output
    assert "(one" in output
    assert "have no --max-time, and no such job has finished yet" in output
    assert classroom.labctl.json("queue", "why", job)["position_in_cluster_queue"] == 0


def test_the_overview_has_the_columns_of_kueuectl(classroom: QueueLab) -> None:
    job = waiting(classroom)
    output = classroom.labctl.ok("queue")
    assert output.startswith("NAME       COHORT  PENDING WORKLOADS  ADMITTED WORKLOADS  ACTIVE  USED")
    assert "2/2 nvidia.com/gpu" in output
    assert "POSITION IN QUEUE" in output
    assert job in output
    document = classroom.labctl.json("queue")
    assert document["total"] == 3
    assert document["cluster_queues"][0]["name"] == "classroom"


def test_list_is_cut_where_it_is_long(classroom: QueueLab) -> None:
    waiting(classroom)
    output = classroom.labctl.ok("queue", "list", "--limit", "1")
    assert "and 2 more; --limit shows them\n" in output
    assert classroom.labctl.ok("queue", "list", "--status", "finished") == "no such job is in the queues\n"
    assert classroom.labctl.json("queue", "list", "--queue", "ben/default")["total"] == 1


def test_describe_knows_queues_too(classroom: QueueLab) -> None:
    assert "flavor lab    0/2 nvidia.com/gpu" in classroom.labctl.ok("queue", "describe", "classroom")
    assert classroom.labctl.json("queue", "describe", "eva/default")["kind"] == "LocalQueue"
    result = classroom.labctl("queue", "describe", "nothing")
    assert (result.exit_code, "there is no job, queue or cohort 'nothing'" in result.stderr) == (3, True)


def test_a_job_is_put_on_hold_and_queues_again(classroom: QueueLab) -> None:
    job, labctl = waiting(classroom), classroom.labctl
    assert labctl.ok("queue", "hold", job) == f"job ben/{job}: Deactivated\n"
    assert labctl.json("queue", "why", job)["status"] == "Deactivated"
    again = labctl("queue", "hold", job)
    assert (again.exit_code, f"job ben/{job} is on hold already" in again.stderr) == (11, True)
    assert labctl.ok("queue", "resume", job) == f"job ben/{job}: Pending\n"
    assert "is not on hold\n" in labctl("queue", "resume", job).stderr
    assert labctl("queue", "resume", "nothing").exit_code == 3


def test_a_job_that_runs_gives_its_quota_back_while_it_is_on_hold(classroom: QueueLab) -> None:
    job, labctl = waiting(classroom), classroom.labctl
    (runs, *_) = [row for row in labctl.json("queue")["workloads"] if row["status"] == "Admitted"]
    assert labctl.json("queue", "hold", runs["name"])["active"] is False
    classroom.labctl.runtime.clock.sleep(60)  # the grace of a job that is stopped
    classroom.step()
    assert labctl.json("queue", "why", job)["status"] == "Admitted"
    assert labctl.json("queue", "resume", runs["name"])["status"] == "Pending"


def test_events_tell_what_was_decided(classroom: QueueLab) -> None:
    job, labctl = waiting(classroom), classroom.labctl
    output = labctl.ok("queue", "events")
    assert f"Pending     ben/{job} in classroom (WaitingForQuota)  couldn't assign flavors" in output
    events = labctl.json("queue", "events")["events"]
    last = events[-1]["number"]
    assert labctl.json("queue", "events", "--since", str(last)) == {"events": []}


# Objects


def test_the_seeds_apply_unchanged(world: QueueLab) -> None:
    first = [str(SEEDS / f"rhoai-{name}.yaml") for name in ("flavor", "cluster-queue", "local-queue")]
    assert "ClusterQueue cluster-queue created\n" in world.labctl.ok("queue", "apply", *first)
    for team in ("blue", "red"):
        given = [str(SEEDS / f"{team}-{name}.yaml") for name in ("cluster-queue", "local-queue")]
        assert f"LocalQueue {team}/default-queue created\n" in world.labctl.ok(
            "queue", "apply", *given, "-n", team
        )
    result = world.labctl("queue", "apply", str(SEEDS / "slack-cluster-queue.yaml"))
    assert result.exit_code == 0
    assert "did you mean nvidia.com/gpu?" in result.stderr
    assert "ClusterQueue slack-cluster-queue unchanged\n" in world.labctl.ok(
        "queue", "apply", str(SEEDS / "slack-cluster-queue.yaml")
    )


@pytest.mark.parametrize("name", ["classroom", "mlbatch", "two-teams"])
def test_every_example_applies_and_takes_a_job(world: QueueLab, name: str) -> None:
    result = world.labctl("queue", "apply", "--example", name)
    assert result.exit_code == 0, result.output
    assert "quotas are those of this lab: 2 GPUs and 16 CPUs" in result.stderr
    door = result.stderr.split("--queue ")[1].split()[0]
    job = world.labctl.ok(*DETACHED, door).strip()
    assert [order.submission_id for order in world.ray.orders] == [job]


def test_an_example_of_a_lab_without_gpus_shares_cpus(world: QueueLab) -> None:
    world.labctl.runtime.down()
    world.labctl.runtime.up(LabSpec())
    result = world.labctl("queue", "apply", "--example", "two-teams")
    assert "this lab has no GPU, so its 16 CPUs are what is shared" in result.stderr
    assert "flavor lab    0/8 cpu" in world.labctl.ok("queue", "describe", "blue")


def test_a_dry_run_of_apply_changes_nothing(world: QueueLab) -> None:
    output = world.labctl.ok("queue", "apply", "--example", "classroom", "--dry-run")
    assert "ClusterQueue classroom created (dry run)\n" in output
    assert world.labctl.ok("queue", "get") == "no queues yet\n"


def test_bad_files_are_refused_with_line_and_reason_and_nothing_changes(
    classroom: QueueLab, tmp_path: Path
) -> None:
    before = classroom.queues.objects()
    assert len(BAD) >= 50
    for name, text in BAD:
        bad = tmp_path / f"{name.replace('/', ' ')}.yaml"
        bad.write_text(text, encoding="utf-8")
        result = classroom.labctl("queue", "apply", str(bad), "--json")
        assert result.exit_code == 2, (name, result.output)
        assert "Traceback" not in result.output
        marked = {number for number, line in enumerate(text.splitlines(), 1) if "# !" in line}
        errors = [line.removeprefix("error: ") for line in result.stderr.splitlines()]
        for number in marked:
            assert any(line.startswith(f"{bad}:{number}: ") for line in errors), (name, result.stderr)
        assert {problem["line"] for problem in json.loads(result.stdout)["problems"]} >= marked
    assert classroom.queues.objects() == before


def test_what_a_person_writes_wrong_is_refused(classroom: QueueLab, tmp_path: Path) -> None:
    cases = {
        ("apply",): (2, "name files, or an --example"),
        ("apply", "x.yaml", "--example", "classroom"): (2, "name files, or an --example"),
        ("apply", str(tmp_path / "none.yaml")): (3, "none.yaml"),
        ("delete",): (2, "name an object or a --file"),
        ("delete", "classroom"): (2, "'classroom' is not a kind of object"),
        ("delete", "cq/"): (2, "not the name of an object"),
        ("delete", "cq/other"): (3, "there is no ClusterQueue other"),
        ("get", "cq/other"): (3, "there is no cq/other"),
        ("get", "--yaml", "--json"): (2, "cannot be used together"),
        ("apply", "--example", "classroom", "-n", "A B"): (2, "'A B'"),
    }
    before = classroom.labctl.json("queue", "get")
    for line, (code, complaint) in cases.items():
        result = classroom.labctl("queue", *line)
        assert (result.exit_code, complaint in result.output) == (code, True), (line, result.output)
    assert classroom.labctl.json("queue", "get") == before


def test_delete_refuses_what_is_used_and_names_by_whom(classroom: QueueLab) -> None:
    result = classroom.labctl("queue", "delete", "clusterqueue/classroom")
    assert result.exit_code == 11
    assert "used by LocalQueue ann/default" in result.stderr
    waiting(classroom)
    assert classroom.labctl("queue", "delete", "lq/ann/default").exit_code == 11


def test_what_was_got_can_be_deleted_and_applied_again(classroom: QueueLab, tmp_path: Path) -> None:
    labctl, kept = classroom.labctl, tmp_path / "kept.yaml"
    kept.write_text(labctl.ok("queue", "get", "--yaml"), encoding="utf-8")
    assert "apiVersion: kueue.x-k8s.io/v1beta2\n" in kept.read_text(encoding="utf-8")
    before = labctl.json("queue", "get")
    assert "ClusterQueue classroom deleted\n" in labctl.ok("queue", "delete", "--file", str(kept))
    assert labctl.json("queue", "get") == {"objects": []}
    labctl.ok("queue", "apply", str(kept))
    assert labctl.json("queue", "get") == before


def test_get_shows_one_kind_or_one_object(classroom: QueueLab) -> None:
    assert len(classroom.labctl.json("queue", "get", "lq")["objects"]) == 5
    assert len(classroom.labctl.json("queue", "get", "lq/ann/default")["objects"]) == 1
    assert classroom.labctl.ok("queue", "get", "cohort") == "no cohort yet\n"
