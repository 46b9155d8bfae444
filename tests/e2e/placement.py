"""Where jobs sit and why they wait, as labctl tells it. `PlacementTests` holds for every runtime."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.e2e.harness import PATIENCE, SCRIPTS, Shell
from tests.waiting import eventually

REFUSED = 11
SLEEPS = ("python", "-c", "import time; time.sleep(900)")


class PlacementTests:
    """`shell` is a lab of two workers with a simulated GPU each, without a job."""

    def test_two_jobs_on_one_gpu_are_seen_and_a_third_party_is_told_who_holds_what_it_needs(
        self, shell: Shell
    ) -> None:
        half = ("submit", "--num-gpus", "0.5", "--detach", "--", *SLEEPS)
        halves = [shell.labctl(*half, cwd=SCRIPTS).out.strip() for _ in range(3)]

        def packed() -> Any:
            document = shell.labctl("top", "--once", "--json").document
            where = {h["job"]: n["service"] for n in document["nodes"] for h in n["holdings"]}
            return document if set(where) == set(halves) else None

        document = eventually(packed, PATIENCE, "three jobs hold half a GPU each")
        workers = {n["service"]: n for n in document["nodes"] if n["gpus"]}
        shares = {s: n["gpus"][0]["share"] for s, n in workers.items()}
        assert sorted(shares.values()) == [0.5, 1.0]
        assert Counter(len(n["holdings"]) for n in workers.values()) == {1: 1, 2: 1}
        full, lone = (next(s for s, share in shares.items() if share == v) for v in (1.0, 0.5))
        assert all(n["cpu_percent"] is not None and n["memory_limit"] for n in workers.values())
        drawn = shell.labctl("top").out
        letters = {line.split("]")[0].split("[")[1] for line in drawn.splitlines() if "share [" in line}
        assert sorted(len(set(bar) - {"."}) for bar in letters) == [1, 2]

        ranks = shell.submit("wants_gpus.py")
        waits = shell.start("submit", "--num-gpus", "1", "--", "python", "-c", "pass", cwd=SCRIPTS)
        waits.says("waits: needs 1 GPU; free:", f"{full} 0 GPU", f"{lone} 0.5 GPU", "held by", halves[0])

        def ranks_wait() -> Any:
            job = {j["submission_id"]: j for j in shell.labctl("jobs", "--json").document["jobs"]}[ranks]
            return job if (job["waiting"] or {}).get("what") == "ranks" else None

        job = eventually(ranks_wait, PATIENCE, "the ranks of a running job wait")
        assert (job["status"], job["waiting"]["kind"], job["waiting"]["count"]) == ("RUNNING", "others", 2)
        assert {h["job"] for h in job["waiting"]["holders"]} >= set(halves)
        assert "its ranks wait" in shell.labctl("top").out

        shell.labctl("jobs", "stop", ranks)
        alone = next(h["job"] for h in workers[lone]["holdings"])
        shell.labctl("jobs", "stop", alone)
        assert waits.end().code == 0

    def test_an_infeasible_job_is_told_at_once_and_can_be_cancelled_or_refused(self, shell: Shell) -> None:
        why = "no node has 2 GPU; the largest has 1"
        before = {job.submission_id for job in shell.lab.jobs.list()}
        argv = ("submit", "--num-gpus", "2", "--detach")
        command = ("--", "python", "-c", "pass")
        refused = shell.labctl(*argv, "--fail-if-infeasible", *command, code=REFUSED, cwd=SCRIPTS)
        assert f"the job was not submitted: {why}" in refused.err
        assert {job.submission_id for job in shell.lab.jobs.list()} == before

        ended = shell.labctl(*argv, "--json", *command, cwd=SCRIPTS)
        job = ended.document["submission_id"]
        assert ended.document["waits"] == why
        assert f"warning: job {job} waits: {why}" in ended.err
        assert f"cancel it: `labctl --lab {shell.name} jobs stop {job}`" in ended.err

        def explained() -> Any:
            waiting = shell.lab.waiting(job)
            return waiting if waiting and waiting.kind == "infeasible" else None

        waiting = eventually(explained, PATIENCE, "the lab says why the job waits")
        assert (waiting.what, waiting.reason, dict(waiting.demand)) == ("entrypoint", why, {"GPU": 2.0})
        (row,) = (line for line in shell.labctl("jobs").out.splitlines() if line.startswith(job))
        assert row.endswith(f"infeasible: {why}")
        shell.labctl("jobs", "stop", job)
        assert shell.lab.waiting(job) is None
        assert {j.submission_id for j in shell.lab.jobs.list()} - before == {job}
