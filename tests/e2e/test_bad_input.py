"""What a person can get wrong: one clear line, an exit code of its own, and nothing changed."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from tests.e2e.harness import SCRIPTS, UP, Bench

USAGE, NOT_FOUND, DOWN, PORT_TAKEN, JOB, REFUSED, STORE = 2, 3, 5, 6, 9, 11, 13

TABLE: dict[tuple[str, ...], tuple[int, str]] = {
    ("fault-inject", "ray-worker-9"): (NOT_FOUND, "has no service 'ray-worker-9'"),
    ("fault-inject", "ray-worker-0", "--fault", "explode"): (NOT_FOUND, "explode"),
    ("fault-inject", "ray-head"): (REFUSED, "ray-head runs no rank of a job"),
    ("fault-inject", "minio"): (REFUSED, "minio runs no rank of a job"),
    ("fault-inject", "ray-worker-0"): (REFUSED, "no job is running"),
    ("fault-inject", "ray-worker-0", "--job", "nope"): (NOT_FOUND, "there is no job 'nope'"),
    ("fault-inject", "ray-worker-0", "--for", "-1s"): (USAGE, "must be more than zero"),
    ("jobs", "show", "nope"): (NOT_FOUND, "there is no job 'nope'"),
    ("jobs", "logs", "nope"): (NOT_FOUND, "there is no job 'nope'"),
    ("jobs", "stop", "nope"): (NOT_FOUND, "there is no job 'nope'"),
    ("jobs", "checkpoints", "nope"): (NOT_FOUND, "there is no job 'nope'"),
    ("logs", "nope"): (NOT_FOUND, "has no service 'nope'"),
    ("restart", "nope"): (NOT_FOUND, "has no service 'nope'"),
    ("submit", "nope"): (NOT_FOUND, "there is no recipe 'nope'"),
    ("submit", "digits", "-p", "epochs=-1"): (USAGE, "epochs=-1"),
    ("submit", "--", "python", "missing.py"): (NOT_FOUND, "there is no script missing.py"),
    ("submit", "--", "python", "broken.py"): (USAGE, "line 2: not valid Python"),
    ("up", "--workers", "0"): (USAGE, "must be between 1 and"),
    ("up", "--gpu", "simulated", "--workers", "3"): (REFUSED, "is up with other settings (2 workers"),
    ("--runtime", "compose", "up"): (REFUSED, "is up on the local runtime"),
    ("down", "--volumes"): (REFUSED, "deletes, for good"),
    ("--lab", "e2e-not-up", "fault-inject", "ray-worker-0"): (DOWN, "lab e2e-not-up is not up"),
    ("--lab", "e2e-not-up", "jobs"): (DOWN, "lab e2e-not-up is not up"),
}


@pytest.mark.parametrize("argv", TABLE, ids=" ".join)
def test_bad_input_is_refused_and_changes_nothing(bench: Bench, argv: tuple[str, ...]) -> None:
    code, words = TABLE[argv]
    (bench.home / "broken.py").write_text("import sys\ndef f(:\n")
    before = bench.leaders(), [job.submission_id for job in bench.lab.jobs.list()]

    ended = bench.labctl(*argv, code=code)
    shown = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert len(shown) == 1, ended
    assert words in shown[0]
    assert ended.out == ""
    assert (bench.leaders(), [job.submission_id for job in bench.lab.jobs.list()]) == before
    assert not (bench.home / "e2e-not-up" / "state.json").exists()


def test_up_of_a_lab_that_is_up_changes_nothing(bench: Bench) -> None:
    before = bench.leaders()
    document = bench.labctl(*UP, "--json").document
    assert document["healthy"]
    assert bench.leaders() == before


def test_a_taken_port_is_named_with_its_holder_and_nothing_starts(make_bench: Callable[[], Bench]) -> None:
    import os

    bench = make_bench()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = bench.labctl(*UP, "--port", f"s3={port}", "--json", code=PORT_TAKEN)
    message = ended.document["error"]["message"]
    assert f"port {port} for s3 is in use by" in message
    assert f"(process {os.getpid()})" in message
    assert bench.processes() == {}
    assert bench.labctl("status", "--json").document["up"] is False


def test_a_job_that_exits_1_is_reported_with_its_last_words(bench: Bench) -> None:
    argv = ("submit", "--json", "--", "python", "-c", "import sys; print('out of luck'); sys.exit(1)")
    ended = bench.labctl(*argv, code=JOB, cwd=SCRIPTS)
    document = ended.document
    assert "failed with exit code 1" in document["error"]["message"]
    assert document["job"]["status"] == "FAILED"
    assert any("out of luck" in line for line in document["last_lines"])


def test_a_wrong_key_is_refused_by_the_object_store(bench: Bench) -> None:
    from pyarrow import fs

    from lab.errors import StoreError
    from lab.store import ObjectStore
    from lab.topology import REGION, Credentials

    endpoints = bench.lab.endpoints()
    right = endpoints.credentials
    wrong = Credentials(right.access_key, right.secret_key[:-1] + "x")
    with pytest.raises(StoreError, match="refuses the secret key"):
        ObjectStore(endpoints.s3, wrong, REGION).put("e2e/wrong-key", b"x")
    client = fs.S3FileSystem(
        access_key=wrong.access_key,
        secret_key=wrong.secret_key,
        endpoint_override=endpoints.s3.removeprefix("http://"),
        scheme="http",
        region=REGION,
    )
    with pytest.raises(OSError, match=r"SIGNATURE_DOES_NOT_MATCH|ACCESS_DENIED"):
        client.get_file_info(fs.FileSelector("ray"))
    assert not bench.lab.store.exists("e2e/wrong-key")
