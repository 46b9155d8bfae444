"""submit, jobs, job, checkpoints, recipes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from lab.cli.output import Output
from lab.cluster.allocation import Holding, Waiting
from lab.cluster.checkpoints import CheckpointInfo
from lab.cluster.jobs import EARLIER
from lab.cluster.placement import Placement
from lab.cluster.recipes import recipes
from lab.errors import INTERRUPTED, ClusterError, StoreError
from tests.unit.cli.fakes import FollowedJobs, Labctl
from tests.unit.fakes import AT, job

JOB_KEYS = {
    "submission_id", "name", "status", "earlier", "recipe", "entrypoint", "message", "started_at",
    "ended_at", "exit_code", "num_cpus", "num_gpus",
}  # fmt: skip


def checkpoint(**changes: Any) -> CheckpointInfo:
    """A checkpoint of 1 MB."""
    values: dict[str, Any] = {
        "uri": "s3://ray/run-1/checkpoint_000004",
        "run": "run-1",
        "name": "checkpoint_000004",
        "files": ("checkpoint.ckpt",),
        "size": 1_000_000,
        "modified": AT,
        "epoch": 5,
        "sha256": "3f" * 32,
        "job": "job-1",
    }
    return CheckpointInfo(**{**values, **changes})


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A folder with a script that parses and one that does not."""
    (tmp_path / "train.py").write_text("print('hello')\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    return tmp_path


def test_submit_follows_the_log_to_the_end(labctl: Labctl) -> None:
    result = labctl("submit", "digits", "-p", "epochs=3", "--num-cpus", "0.5", "--job-name", "first")
    assert (result.exit_code, result.stdout) == (0, "epoch 1/3\nepoch 2/3\n")
    assert "submitted job job-1" in result.stderr
    (submission,) = labctl.jobs.submitted
    assert submission.command[:4] == ("python", "train.py", "--epochs", "3")
    assert submission.num_cpus == 0.5
    assert submission.metadata == {"raylab_recipe": "digits", "job_name": "first"}


def test_submit_as_json_is_the_job_with_the_log_on_stderr(labctl: Labctl) -> None:
    result = labctl("submit", "digits", "--json")
    document = json.loads(result.stdout)
    assert list(document) == ["submission_id", "waits", "job"]
    assert set(document["job"]) == JOB_KEYS
    assert "epoch 1/3" in result.stderr


def test_submit_detached_prints_the_id_alone(labctl: Labctl) -> None:
    assert labctl.ok("submit", "digits", "--detach") == "job-1\n"
    assert labctl.json("submit", "digits", "--detach") == {"submission_id": "job-1", "waits": "", "job": None}


def test_submit_says_what_a_job_waits_for(labctl: Labctl) -> None:
    result = labctl("submit", "digits", "--num-gpus", "2", "--detach")
    assert result.exit_code == 0
    assert "warning: job job-1 waits: no node has 2 GPU; the largest has 0" in result.stderr
    document = labctl.json("submit", "digits", "--num-gpus", "2", "--detach")
    assert document["waits"] == "no node has 2 GPU; the largest has 0"


def test_submit_says_how_to_give_up_an_infeasible_job(labctl: Labctl) -> None:
    result = labctl("submit", "digits", "--num-gpus", "2", "--detach")
    assert (
        "-> it waits until a node that can hold it joins; cancel it: `labctl jobs stop job-1`"
        in result.stderr
    )


def test_fail_if_infeasible_submits_nothing(labctl: Labctl) -> None:
    result = labctl("submit", "digits", "--num-gpus", "2", "--fail-if-infeasible")
    assert (result.exit_code, labctl.jobs.submitted) == (11, [])
    assert "the job was not submitted: no node has 2 GPU; the largest has 0" in result.stderr


def test_fail_if_infeasible_counts_the_ranks_of_a_recipe(labctl: Labctl) -> None:
    argv = ("submit", "digits", "-p", "workers=2", "-p", "cpus=8", "--fail-if-infeasible", "--detach")
    labctl.ok(*argv)
    labctl.jobs.submitted.clear()
    refused = labctl(*argv[:3], "workers=3", *argv[4:])
    assert (refused.exit_code, labctl.jobs.submitted) == (11, [])
    assert "only 2 of 3 ranks fit on the nodes; each asks for 8 CPU" in refused.stderr


def test_fail_if_infeasible_lets_through_what_fits(labctl: Labctl, script: Path) -> None:
    argv = ("--working-dir", str(script), "--num-cpus", "8", "--", "python", "train.py")
    labctl.ok("submit", "--detach", "--fail-if-infeasible", *argv)
    assert len(labctl.jobs.submitted) == 1


def test_submit_of_a_command(labctl: Labctl, script: Path) -> None:
    environment = script / "env.json"
    environment.write_text(json.dumps({"env_vars": {"A": "1"}}))
    labctl.ok(
        "submit", "--working-dir", str(script), "--runtime-env", str(environment), "--job-name", "mine",
        "--", "python", "train.py", "--json", "-p", "x",
    )  # fmt: skip
    (submission,) = labctl.jobs.submitted
    assert submission.command == ("python", "train.py", "--json", "-p", "x")
    assert submission.working_dir == script
    assert submission.runtime_env == {"env_vars": {"A": "1"}}
    assert submission.metadata == {"job_name": "mine"}


def test_a_command_runs_in_the_current_directory(
    labctl: Labctl, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script)
    labctl.ok("submit", "--", "python", "train.py")
    assert labctl.jobs.submitted[0].working_dir == script


def test_a_remote_working_directory_of_the_runtime_env_stays(labctl: Labctl, script: Path) -> None:
    environment = script / "env.json"
    environment.write_text(json.dumps({"working_dir": "gcs://code.zip"}))
    labctl.ok("submit", "--detach", "--runtime-env", str(environment), "--", "python", "train.py")
    (submission,) = labctl.jobs.submitted
    assert submission.working_dir is None
    assert submission.runtime_env == {"working_dir": "gcs://code.zip"}


def test_a_job_has_a_name_and_its_lab_another(labctl: Labctl) -> None:
    labctl.ok("submit", "digits", "--lab", "other", "--job-name", "mine", "--detach")
    assert labctl.opened == [("auto", "other")]
    assert labctl.jobs.submitted[0].metadata["job_name"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["nonsense"], 3, "there is no recipe 'nonsense'"),
        (["digits", "-p", "epochs=0"], 2, "-p epochs=0"),
        (["digits", "-p", "epochs=many"], 2, "must be a whole number"),
        (["digits", "-p", "nonsense=1"], 2, "digits has no such parameter"),
        (["digits", "-p", "epochs"], 2, "must be NAME=VALUE"),
        (["digits", "--num-gpus", "-1"], 2, "--num-gpus -1"),
        (["digits", "--num-cpus", "nan"], 2, "--num-cpus nan"),
        (["digits", "--num-cpus", "1e99"], 2, "--num-cpus 1e99"),
        (["digits", "--job-name", "a/b"], 2, "not a job name"),
        (["digits", "--working-dir", "."], 2, "--working-dir: only for a command"),
        (["digits", "--runtime-env", "x.json"], 2, "--runtime-env: only for a command"),
        (["digits", "--", "python", "train.py"], 2, "either a recipe or a command"),
        (["digits", "train.py"], 2, "unexpected extra argument"),
        (["-p", "epochs=3", "--", "python", "train.py"], 2, "-p epochs=3: only for a recipe"),
        ([], 2, "nothing to submit"),
        (["--"], 2, "nothing to submit"),
        (["--", "python", "missing.py"], 3, "there is no script missing.py"),
        (["--", "python", "broken.py"], 2, "line 1: not valid Python"),
        (["--runtime-env", "missing.json", "--", "python", "train.py"], 3, "--runtime-env missing.json"),
        (["--runtime-env", "train.py", "--", "python", "train.py"], 2, "not JSON"),
    ],
)
def test_submit_refuses_before_anything_is_opened(
    labctl: Labctl,
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    complaint: str,
) -> None:
    monkeypatch.chdir(script)
    result = labctl("submit", *arguments)
    assert (result.exit_code, labctl.opened, labctl.jobs.submitted) == (code, [], [])
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


def test_a_job_that_fails_is_an_error_that_names_its_log(labctl: Labctl) -> None:
    labctl.jobs.ends = job("job-1", "FAILED", exit_code=1, message="failed with exit code 1\nlong tail")
    result = labctl("submit", "digits")
    assert result.exit_code == 9
    assert result.stdout == "epoch 1/3\nepoch 2/3\n"
    assert (
        "error: job job-1 failed with exit code 1\n  -> its whole log: labctl jobs logs job-1\n"
        in result.stderr
    )


def test_a_job_that_never_started_says_why(labctl: Labctl) -> None:
    labctl.jobs.ends = job("job-1", "FAILED", message="runtime_env setup failed:\nno such package")
    labctl.jobs.text = ""
    assert "error: job job-1 failed: runtime_env setup failed\n" in labctl("submit", "digits").stderr
    document = labctl.json("submit", "digits", code=9)
    assert document["last_lines"] == ["runtime_env setup failed:", "no such package"]


def test_a_failed_job_as_json(labctl: Labctl) -> None:
    labctl.jobs.ends = job("job-1", "STOPPED")
    document = labctl.json("submit", "digits", code=9)
    assert list(document) == ["error", "submission_id", "waits", "job", "last_lines", "explanation"]
    assert document["explanation"] is None
    assert document["error"]["message"] == "job job-1 was stopped"
    assert document["last_lines"] == ["epoch 1/3", "epoch 2/3"]


def test_ctrl_c_detaches_and_says_how_to_stop_the_job(labctl: Labctl) -> None:
    labctl.jobs.interrupt = KeyboardInterrupt()
    result = labctl("submit", "digits")
    assert result.exit_code == INTERRUPTED
    assert "job job-1 goes on" in result.stderr
    assert "labctl jobs stop job-1" in result.stderr


def test_jobs(labctl: Labctl) -> None:
    assert labctl.ok("jobs") == "no jobs yet\n"
    labctl.jobs.put(job(metadata={"raylab_recipe": "digits", "job_name": "mine"}))
    header, row = labctl.ok("jobs").splitlines()
    assert header.split() == ["JOB", "STATUS", "STARTED", "TOOK", "RUNS"]
    assert row.startswith("job-1  SUCCEEDED")
    assert row.endswith("12.5 s  digits (mine)")


def test_jobs_as_json(labctl: Labctl) -> None:
    assert labctl.json("jobs") == {"jobs": []}
    labctl.jobs.put(job())
    (row,) = labctl.json("jobs")["jobs"]
    assert set(row) == JOB_KEYS | {"waiting"}


EARLIER_JOB = job("old-1", EARLIER, message="its training finished", started_at=AT, ended_at=AT + 60.0)
UNKNOWN_END = job(
    "old-2", EARLIER, message="its end is not recorded: the ledger stops before it", ended_at=None
)


def test_jobs_of_an_earlier_cluster_are_listed_and_marked(labctl: Labctl) -> None:
    labctl.jobs.put(job())
    labctl.stub("earlier_jobs", (EARLIER_JOB, UNKNOWN_END))

    _, _, known, unknown = labctl.ok("jobs").splitlines()

    assert known.startswith("old-1  EARLIER")
    assert known.endswith("1 min   its training finished")
    assert unknown.endswith("its end is not recorded: the ledger stops before it")
    assert [row["earlier"] for row in labctl.json("jobs")["jobs"]] == [False, True, True]


def test_jobs_are_listed_also_when_the_store_does_not_answer(labctl: Labctl) -> None:
    labctl.jobs.put(job())
    labctl.store.failure = StoreError("cannot be reached")

    document = labctl.json("jobs")
    assert [row["submission_id"] for row in document["jobs"]] == ["job-1"]
    assert document["problem"] == "jobs of an earlier cluster are not known: cannot be reached"
    assert "not known: cannot be reached" in labctl("jobs").stderr


def test_an_earlier_job_is_shown_and_its_log_is_gone(labctl: Labctl) -> None:
    labctl.stub("job", EARLIER_JOB)

    shown = labctl.ok("jobs", "show", "old-1")
    assert "EARLIER" in shown
    assert "its training finished" in shown
    for command in (["jobs", "logs", "old-1"], ["jobs", "logs", "-f", "old-1"], ["jobs", "stop", "old-1"]):
        error = labctl.json(*command, code=3)["error"]
        assert error["message"].startswith("job old-1 ran before Ray's head was restarted: ")
        assert "labctl jobs checkpoints old-1" in error["hint"]


def test_job_show_says_where_a_running_job_runs(labctl: Labctl) -> None:
    labctl.jobs.put(job("job-1", "RUNNING"))
    labctl.stub("placement", Placement("job-1", "ray-head", ((0, "ray-worker-1"),)))
    assert "runs on    ray-worker-1 (rank 0)\n" in labctl.ok("jobs", "show", "job-1")
    document = labctl.json("jobs", "show", "job-1")
    assert set(document) == JOB_KEYS | {
        "waiting", "placement", "lost_attempts", "problem", "explanation", "last_lines",
    }  # fmt: skip
    assert document["placement"] == {
        "driver": "ray-head",
        "workers": [{"rank": 0, "service": "ray-worker-1"}],
    }


WAITS = Waiting(
    "job-2", "others", "entrypoint", {"GPU": 1.0}, 1, "needs 1 GPU; free: ray-worker-0 0 GPU",
    (Holding("job-1", "ray-worker-0", {"GPU": 1.0}, "rank 0"),), ("GPU",),
)  # fmt: skip


def two_jobs(labctl: Labctl) -> None:
    """One job that runs, and one that waits for it."""
    labctl.jobs.put(job("job-1", "RUNNING"), job("job-2", "PENDING"))
    labctl.stub("waiting_jobs", {"job-2": WAITS})


def test_jobs_says_why_one_waits_and_who_holds_what_it_needs(labctl: Labctl) -> None:
    two_jobs(labctl)
    header, running, pending = labctl.ok("jobs").splitlines()
    assert header.endswith("REASON")
    assert running.endswith("digits")
    assert pending.endswith(
        "others: needs 1 GPU; free: ray-worker-0 0 GPU; held by job-1 (rank 0: 1 GPU on ray-worker-0)"
    )


def test_jobs_has_no_column_of_reasons_when_nobody_waits(labctl: Labctl) -> None:
    two_jobs(labctl)
    labctl.stub("waiting_jobs", {})
    assert "REASON" not in labctl.ok("jobs")


def test_a_very_long_reason_is_not_wrapped_in_a_file(labctl: Labctl) -> None:
    two_jobs(labctl)
    labctl.stub(
        "waiting_jobs", {"job-2": dataclasses.replace(WAITS, reason="needs " + "much " * 150 + "more")}
    )
    assert len(labctl.ok("jobs").splitlines()) == 3


def test_jobs_as_json_have_the_reason(labctl: Labctl) -> None:
    two_jobs(labctl)
    running, pending = labctl.json("jobs")["jobs"]
    assert running["waiting"] is None
    assert pending["waiting"] == {
        "kind": "others",
        "reason": "needs 1 GPU; free: ray-worker-0 0 GPU",
        "what": "entrypoint",
        "demand": {"GPU": 1.0},
        "count": 1,
        "short": ["GPU"],
        "holders": [{"job": "job-1", "service": "ray-worker-0", "what": "rank 0", "resources": {"GPU": 1.0}}],
    }


def test_jobs_are_listed_also_when_it_is_not_known_who_waits(labctl: Labctl) -> None:
    two_jobs(labctl)
    labctl.stub("waiting_jobs", ClusterError("no answer"))
    result = labctl("jobs")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 3)
    assert "cannot tell which jobs wait, and why: no answer" in result.stderr
    assert labctl.json("jobs")["problem"] == "no answer"


def test_of_ended_jobs_nobody_asks_why_they_wait(labctl: Labctl) -> None:
    labctl.jobs.put(job())
    labctl.stub("waiting_jobs", ClusterError("asked"))
    assert "asked" not in labctl("jobs").output


def test_job_show_says_why_it_waits(labctl: Labctl) -> None:
    two_jobs(labctl)
    assert "waits    others: needs 1 GPU" in labctl.ok("jobs", "show", "job-2")
    assert labctl.json("jobs", "show", "job-2")["waiting"]["kind"] == "others"
    assert labctl.json("jobs", "show", "job-1")["waiting"] is None


def test_job_show_says_that_an_attempt_was_lost_without_a_recorded_fault(labctl: Labctl) -> None:
    labctl.jobs.put(job())
    lost = "attempt 1 was lost after epoch 3 without a recorded fault"
    labctl.stub("lab.flows.recovery.lost.lost_without_fault", (lost,))
    assert f"lost       {lost}\n" in labctl.ok("jobs", "show", "job-1")
    assert labctl.json("jobs", "show", "job-1")["lost_attempts"] == [lost]


def test_job_show_survives_an_unreadable_ledger(labctl: Labctl) -> None:
    labctl.jobs.put(job())
    labctl.store.failure = StoreError("the store is full")
    assert "the store is full" in labctl.ok("jobs", "show", "job-1")
    assert labctl.json("jobs", "show", "job-1")["problem"] == "the store is full"


def test_job_show_survives_an_unknown_placement(labctl: Labctl) -> None:
    labctl.jobs.put(job("job-1", "RUNNING"))
    labctl.stub("placement", ClusterError("no answer"))
    assert labctl.json("jobs", "show", "job-1")["problem"] == "no answer"
    assert "no answer" in labctl.ok("jobs", "show", "job-1")


def test_job_show_of_an_ended_job(labctl: Labctl) -> None:
    labctl.jobs.put(job())
    shown = labctl.ok("jobs", "show", "job-1")
    assert "took       12.5 s\n" in shown
    assert "runs on" not in shown


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_job_logs(labctl: Labctl, follow: list[str]) -> None:
    labctl.jobs.put(job())
    assert labctl.ok("jobs", "logs", "job-1", *follow) == "epoch 1/3\nepoch 2/3\n"


def test_job_logs_as_json_and_as_json_lines(labctl: Labctl) -> None:
    labctl.jobs.put(job())
    assert labctl.json("jobs", "logs", "job-1") == {
        "submission_id": "job-1",
        "lines": ["epoch 1/3", "epoch 2/3"],
    }
    lines = [json.loads(line) for line in labctl.ok("jobs", "logs", "-f", "job-1", "--json").splitlines()]
    assert lines[0] == {"submission_id": "job-1", "line": "epoch 1/3"}
    assert len(lines) == 2


def test_job_stop(labctl: Labctl) -> None:
    labctl.jobs.put(job("job-1", "RUNNING"))
    assert labctl.ok("jobs", "stop", "job-1") == "job job-1: STOPPED\n"
    assert set(labctl.json("jobs", "stop", "job-1")) == JOB_KEYS


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs", "show", "x"],
        ["jobs", "logs", "x"],
        ["jobs", "logs", "-f", "x"],
        ["jobs", "stop", "x"],
        ["jobs", "checkpoints", "x"],
    ],
)
def test_an_unknown_job_is_an_error(labctl: Labctl, arguments: list[str]) -> None:
    assert labctl(*arguments).exit_code == 3
    assert labctl.json(*arguments, code=3)["error"]["message"] == "there is no job 'x'"


def test_checkpoints(labctl: Labctl) -> None:
    assert labctl.ok("jobs", "checkpoints") == "no checkpoints yet\n"
    labctl.stub("checkpoints", (checkpoint(), checkpoint(epoch=None, sha256=None, job=None)))
    header, first, second = labctl.ok("jobs", "checkpoints").splitlines()
    assert header.split() == ["RUN", "CHECKPOINT", "EPOCH", "SIZE", "SAVED", "SHA-256", "JOB"]
    assert first.split()[:5] == ["run-1", "checkpoint_000004", "5", "1.0", "MB"]
    assert first.endswith("3f3f3f3f3f3f  job-1")
    assert second.startswith("run-1")


def test_on_a_narrow_terminal_checkpoints_stand_below_their_run(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Output, "width", lambda *_: 70)
    labctl.stub("checkpoints", (checkpoint(), checkpoint(epoch=None, sha256=None, job=None)))
    lines = labctl.ok("jobs", "checkpoints").splitlines()
    assert lines[0] == f"run {checkpoint().run} of job {checkpoint().job}"
    assert lines[3] == f"run {checkpoint().run}"
    assert lines[1].split() == ["CHECKPOINT", "EPOCH", "SIZE", "SAVED", "SHA-256"]
    assert lines[2].startswith(checkpoint().name)
    assert max(map(len, lines)) <= 70


def test_checkpoints_as_json(labctl: Labctl) -> None:
    labctl.stub("checkpoints", (checkpoint(),))
    assert labctl.json("jobs", "checkpoints") == {
        "job": None,
        "checkpoints": [
            {
                "uri": "s3://ray/run-1/checkpoint_000004",
                "in_store": True,
                "run": "run-1",
                "job": "job-1",
                "name": "checkpoint_000004",
                "epoch": 5,
                "files": 1,
                "size": 1_000_000,
                "modified": AT,
                "sha256": "3f" * 32,
            }
        ],
    }


def test_a_job_without_checkpoints(labctl: Labctl) -> None:
    labctl.jobs.put(job())
    assert labctl.ok("jobs", "checkpoints", "job-1") == "job job-1 has no checkpoint\n"


def test_recipes_need_no_lab(labctl: Labctl) -> None:
    shown = labctl.ok("submit", "--list")
    assert shown.startswith("digits: ")
    for recipe in recipes():
        _, title, section = shown.partition(f"{recipe.name}: {recipe.summary}")
        assert title, recipe.name
        for parameter in recipe.parameters:
            line = next(line for line in section.splitlines() if line.startswith(f"  -p {parameter.name}="))
            assert line.endswith(parameter.help)
    (digits,) = (w for w in labctl.json("submit", "--list")["recipes"] if w["name"] == "digits")
    assert set(digits) == {"name", "summary", "parameters", "fault_tolerance"}
    assert set(digits["parameters"][0]) == {"name", "type", "default", "minimum", "maximum", "help"}
    assert labctl.opened == []


def test_a_way_to_survive_faults_belongs_to_a_recipe_that_has_it(labctl: Labctl) -> None:
    refused = labctl("submit", "--fault-tolerance", "torchft", "--", "python", "-c", "pass")
    assert refused.exit_code == 2
    assert "--fault-tolerance torchft: only for a recipe" in refused.stderr
    unknown = labctl("submit", "digits", "--fault-tolerance", "magic")
    assert unknown.exit_code == 2
    assert "the recipe digits has no such way" in unknown.stderr
    assert "torchft" in unknown.stderr


def test_recipes_name_their_ways_to_survive_faults(labctl: Labctl) -> None:
    ways = {row["name"]: row["fault_tolerance"] for row in labctl.json("submit", "--list")["recipes"]}
    assert ways["digits"] == ["checkpoint", "memory", "torchft"]
    assert ways["food11"] == []


# Logs


BAR = "before\n 10%\r 50%\r100%\ncaf\ufffd\nafter\n"


def test_the_log_of_a_job_is_shown_by_all_three_commands(labctl: Labctl, script: Path) -> None:
    labctl.jobs.text = BAR
    labctl.jobs.put(dataclasses.replace(job("job-1", "FAILED"), message=f"{FAILED}before\n", exit_code=3))
    shown = ["before", "100%", "caf\ufffd", "after"]
    submitted = labctl("submit", "--working-dir", str(script), "--", "python", "train.py")
    assert submitted.stdout.splitlines() == shown
    assert labctl.ok("jobs", "logs", "job-1").splitlines() == shown
    assert labctl.json("jobs", "logs", "job-1")["lines"] == shown
    labctl.jobs.put(dataclasses.replace(job("job-1", "FAILED"), message=f"{FAILED}before\n", exit_code=3))
    text = labctl.ok("jobs", "show", "job-1")
    assert text.splitlines()[-5:] == ["last lines", *(f"  {line}" for line in shown)]
    assert "message    Job entrypoint command failed with exit code 3\n" in text
    assert labctl.json("jobs", "show", "job-1")["last_lines"] == shown


FAILED = "Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 chars):\n"


def test_a_progress_bar_moves_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out = Output()
    out.log_line(" 10%\r100%\r")
    assert capsys.readouterr().out == "100%\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout.isatty", lambda: True)
        out.log_line(" 10%\r100%")
    assert capsys.readouterr().out == " 10%\r100%\n"


def test_a_log_that_cannot_be_read_is_an_error_and_a_problem_of_the_job(labctl: Labctl) -> None:
    labctl.jobs.put(job("job-1", "SUCCEEDED"))

    class Broken(FollowedJobs):
        def logs(self, submission_id: str, last: int = -1) -> str:
            raise ClusterError(f"Ray could not show the log of job {submission_id}: no")

    labctl.lab.jobs = Broken(*labctl.jobs.list())
    assert labctl("jobs", "logs", "job-1").exit_code == ClusterError.exit_code
    assert "problem    Ray could not show the log" in labctl.ok("jobs", "show", "job-1")
